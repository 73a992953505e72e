// Positions and labels of a draft tree in its box.

import assert from "node:assert/strict";
import test from "node:test";

import { FORK, numbersOf } from "../../assets/cards/tree/columnwidths.js";
import { LOOKS, edgeEnds, geometry, labelPlace, labelsOf, numbersBeside, placeScores } from "../../assets/cards/tree/geometry.js";

const WORDS = [" probability", ",", " the", " order", "<|im_end|>", " from", " representation"];
const BOX = { width: 882, height: 294 };
const MOST = 9;

// A node in a column and a row, with its parent in the row of `from`.
const node = (id, x, y, text = WORDS[id % WORDS.length]) => ({ id, x, y, token: 1000 + id, text: `${text}${id}`, parent: id - 1, verdict: id ? "unreached" : "root", visits: 1 + (id % MOST), prior: 0.1, folded: 0, score: null });

// The accepted path, `rows` rows of two nodes, and a chain of `chain` nodes in the last one.
function treeOfRows(rows, chain = 2) {
  const path = [0, 1, 2, 3].map((x) => ({ ...node(x, x, 0), verdict: x ? "accepted" : "root" }));
  const others = Array.from({ length: rows }, (_, row) => Array.from({ length: row === rows - 1 ? chain : 2 }, (_, k) => [1 + (row % 3) + k, row + 1])).flat();
  return [...path, ...others.map(([x, y], i) => node(4 + i, x, y))];
}

const drawn = (nodes, box = BOX, zoom = null, looks = LOOKS.page) => {
  const grid = geometry(box, nodes, zoom, looks);
  return { grid, names: labelsOf(nodes, grid, MOST) };
};

test("a tree opens as large as it fits into its box, also with large type", () => {
  const all = [1, 5, 17, 40];
  for (const [box, looks, fitted] of [[BOX, LOOKS.page, all], [{ width: 1020, height: 390 }, LOOKS.page, all], [{ width: 1204, height: 292 }, LOOKS.presented, [1, 5, 40]]]) {
    for (const rows of fitted) {
      const { grid } = drawn(treeOfRows(rows), box, null, looks);
      assert.ok(grid.width * grid.type <= box.width + 0.01 && grid.height * grid.type <= box.height + 0.01, `${rows} rows`);
      assert.equal(grid.scale, 1);
    }
  }
  assert.equal(geometry({ width: 1204, height: 292 }, treeOfRows(3), null, LOOKS.presented).type, LOOKS.presented.type);
  assert.ok(geometry(BOX, treeOfRows(400), null).scale > 1);
});

test("while presenting, rows in which labels would touch open apart, up to two heights of the box", () => {
  const box = { width: 1204, height: 292 };
  for (let rows = 1; rows < 45; rows++) {
    const { grid, names } = drawn(treeOfRows(rows), box, null, LOOKS.presented);
    const whole = [...names.values()].every(Boolean);
    assert.ok(grid.scale > 1 ? whole && grid.height * grid.type <= 2 * box.height : whole || rows > 25, `${rows} rows`);
    assert.ok(grid.width * grid.type <= box.width + 0.01);
    const path = grid.nodes.filter(({ y }) => !y);
    assert.ok(path.every(({ id }) => names.get(id)), `${rows} rows`);
    assert.equal(drawn(treeOfRows(rows), box, 1, LOOKS.presented).grid.scale, 1);
  }
});

test("while presenting no text is smaller than asked, and those that would touch another one are left out", () => {
  const box = { width: 1204, height: 292 };
  for (const rows of [1, 5, 17, 40]) {
    const { grid, names } = drawn(treeOfRows(rows), box, null, LOOKS.presented);
    assert.ok(12 * grid.size * grid.type >= 18 && 10 * grid.small * grid.type >= 18, `${rows} rows`);
    const labelled = grid.nodes.filter(({ id }) => names.get(id));
    assert.ok(labelled.length >= 4);
    for (const one of labelled.filter(({ y }) => y)) {
      const [left, y] = labelPlace(one, grid, MOST);
      const touched = labelled.filter((other) => other !== one && Math.abs(labelPlace(other, grid, MOST)[1] - y) < 11 * grid.size && labelPlace(other, grid, MOST)[0] === left);
      assert.deepEqual(touched, []);
    }
  }
});

test("twenty rows have labels and numbers, and in lower rows only the accepted path has numbers", () => {
  const { grid, names } = drawn(treeOfRows(17));
  assert.equal(grid.numbers, "beside");
  assert.ok([...names.values()].every((name) => name && !name.includes("…")));
  const low = drawn(treeOfRows(40));
  assert.equal(low.grid.numbers, "path");
  assert.ok(10 * low.grid.small >= 8);
  const numbers = numbersIn(low);
  assert.ok(low.grid.nodes.every(({ id, y }) => Boolean(numbers.get(id)) === (y === 0)));
});

test("the tokens of a long chain are whole, at the cost of numbers", () => {
  const nodes = treeOfRows(8, 7);
  const { grid, names } = drawn(nodes);
  assert.ok([...names.values()].every((name) => name && !name.includes("…")));
  const numbers = numbersBeside(nodes, names, grid, MOST, placeScores(nodes, names, grid, MOST).ends);
  assert.ok(nodes.some(({ id }) => !numbers.get(id)) && nodes.some(({ id }) => numbers.get(id)));
});

const numbersIn = ({ grid, names }) => numbersBeside(grid.nodes, names, grid, MOST, placeScores(grid.nodes, names, grid, MOST).ends);

test("the accepted path keeps its numbers before other nodes, and a node has all of its numbers or none", () => {
  const box = { width: 1204, height: 292 };
  let few = 0;
  for (const chain of [2, 4, 5, 6]) {
    const opened = drawn(treeOfRows(6, chain).map((one) => ({ ...one, text: `w${one.id}` })), box, null, LOOKS.presented);
    const numbers = numbersIn(opened);
    const [path, others] = [true, false].map((first) => opened.grid.nodes.filter(({ y }) => (y === 0) === first));
    for (const one of opened.grid.nodes) assert.ok(["", numbersOf(one)].includes(numbers.get(one.id)));
    if (others.every(({ id }) => numbers.get(id))) continue;
    few++;
    assert.ok(path.every(({ id }) => numbers.get(id)), `chain of ${chain}`);
  }
  assert.ok(few > 1);
});

test("in rows that are too low for numbers the accepted path has them while presenting", () => {
  const { grid, names } = drawn(treeOfRows(24), { width: 1204, height: 292 }, null, LOOKS.presented);
  assert.equal(grid.numbers, "path");
  const numbers = numbersIn({ grid, names });
  assert.ok(grid.nodes.every(({ id, y }) => Boolean(numbers.get(id)) === (y === 0)));
});

test("a token is cut only where no more than the accepted path has numbers, and while presenting only after the type is smaller", () => {
  const box = { width: 1204, height: 292 };
  const opened = (chain) => drawn(treeOfRows(6, chain), box, null, LOOKS.presented);
  const cut = ({ names }) => [...names.values()].some((name) => name.includes("…"));
  const all = Array.from({ length: 16 }, (_, i) => opened(2 + i));
  assert.ok(all.some(cut) && !all.every(cut));
  assert.ok(all.filter(cut).every(({ grid }) => grid.numbers === "path"));
  const smaller = all.filter(({ grid }) => 12 * grid.size * grid.type < 18);
  assert.ok(smaller.some((one) => !cut(one)) && smaller.every(({ grid }) => 12 * grid.size * grid.type > 14));
  assert.ok(all.filter((one) => !smaller.includes(one)).every((one) => !cut(one)));
});

test("the mark of a fork is part of its label, which has space for it in every row", () => {
  for (const [rows, chain, box] of [[8, 11, BOX], [17, 2, BOX], [3, 4, { width: 360, height: 300 }]]) {
    const nodes = treeOfRows(rows, chain).map((one) => ({ ...one, fork: true }));
    const { grid, names } = drawn(nodes, box);
    const labelled = nodes.filter(({ id }) => names.get(id));
    assert.ok(labelled.length > 4 && labelled.every(({ id }) => names.get(id).startsWith(FORK)));
    for (const one of labelled.filter(() => !grid.list)) assert.ok(labelPlace(one, grid, MOST)[0] + 7.3 * grid.size * names.get(one.id).length <= grid.width + 0.1, `${rows} rows, ${one.id}`);
  }
});

test("no label is over a node of its row or another one, or outside of the picture", () => {
  for (const [rows, chain] of [[17, 2], [8, 11], [3, 25], [10, 4]]) {
    const nodes = treeOfRows(rows, chain);
    const { grid, names } = drawn(nodes);
    for (const one of nodes.filter(({ id }) => names.get(id))) {
      const [left, y] = labelPlace(one, grid, MOST);
      const end = left + 7.3 * grid.size * names.get(one.id).length;
      assert.ok(end <= grid.width + 0.1, `${rows} rows, ${one.id}`);
      const covered = nodes.filter((other) => {
        const [x, row] = grid.place(other);
        return x > left && x < end && Math.abs(row - y) < 6 * grid.size;
      });
      assert.deepEqual(covered, []);
    }
  }
});

test("in low rows an edge begins behind the label of the parent and ends before the score", () => {
  const nodes = treeOfRows(12).map((one) => ({ ...one, score: "0.25" }));
  const { grid, names } = drawn(nodes);
  const { shown } = placeScores(nodes, names, grid, MOST);
  const { starts, stops } = edgeEnds(nodes, names, null, shown, grid, MOST);
  const low = nodes.filter(({ y }) => y);
  assert.ok(low.every((one) => starts.get(one.id) > labelPlace(one, grid, MOST)[0]));
  assert.ok(shown.filter(({ y }) => y).every((one) => stops.get(one.id) < grid.place(one)[0]));
  assert.ok(nodes.filter(({ y }) => !y).every(({ id }) => !starts.has(id) && !stops.has(id)));
});

test("the numbers of a node call the prior P and a draft probability q", () => {
  const one = { visits: null, prior: 0.36, folded: 0 };
  assert.equal(numbersOf({ ...one, visits: 4, priorTerm: "prior" }), "N 4 · P 0.36");
  assert.equal(numbersOf({ ...one, priorTerm: "draft-probability" }), "q 0.36");
  assert.equal(numbersOf({ ...one, prior: null, visits: 1, folded: 3 }), "N 1 · +3");
});
