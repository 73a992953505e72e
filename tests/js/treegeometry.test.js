// Positions and labels of a draft tree in its box.

import assert from "node:assert/strict";
import test from "node:test";

import { FORK, numbersOf } from "../../assets/cards/tree/columnwidths.js";
import { edgeEnds, edgePoints, polesOf } from "../../assets/cards/tree/edges.js";
import { LOOKS, RING, diameter, geometry, labelPlace, labelsOf, numbersBeside, numbersPlace, placeScores, scorePlace, scrolledTo } from "../../assets/cards/tree/geometry.js";

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

const PRESENTED = { width: 1204, height: 292 };

test("a tree opens as large as it fits into its box, also with large type", () => {
  for (const [box, looks] of [[BOX, LOOKS.page], [{ width: 1020, height: 390 }, LOOKS.page], [PRESENTED, LOOKS.presented]]) {
    for (const rows of [1, 5, 17, 24, 40]) {
      const { grid } = drawn(treeOfRows(rows), box, null, looks);
      assert.ok(grid.width * grid.type <= box.width + 0.01 && grid.height * grid.type <= box.height + 0.01, `${rows} rows`);
      assert.equal(grid.scale, 1);
    }
  }
  assert.equal(geometry(PRESENTED, treeOfRows(3), null, LOOKS.presented).type, LOOKS.presented.type);
  assert.ok(geometry(BOX, treeOfRows(400), null).scale > 1);
});

test("while presenting no text is smaller than asked, but in low rows, where it is reduced by a third before a label is left out", () => {
  const texts = ({ grid }, y) => [12 * grid.fonts({ y }).size * grid.type, 10 * grid.fonts({ y }).small * grid.type];
  const sizes = [];
  for (let rows = 1; rows < 45; rows++) {
    const opened = drawn(treeOfRows(rows), PRESENTED, null, LOOKS.presented);
    const least = Math.min(...texts(opened, 1));
    assert.ok(Math.min(...texts(opened, 0)) >= 18 - 0.01, "the first row");
    assert.ok(least >= (rows <= 12 ? 18 : 12) - 0.01, `${rows} rows`);
    assert.ok(least < 12.01 || [...opened.names.values()].every(Boolean), `${rows} rows`);
    assert.ok(opened.grid.nodes.filter(({ y }) => !y).every(({ id }) => opened.names.get(id)), `${rows} rows`);
    sizes.push(least);
  }
  assert.ok([...sizes.keys()].every((i) => !i || sizes[i] <= sizes[i - 1] + 0.01));
  assert.ok(sizes[18] > 12 && sizes.at(-1) < 12.01);
});

test("labels that would touch another one are left out, last those of the path and of its children", () => {
  for (const rows of [24, 30, 40]) {
    const placed = treeOfRows(rows).map((one) => (one.y ? { ...one, x: 1 + (one.id % 2), visits: 8, parent: 90 } : one));
    const nodes = placed.map((one) => (one.y === 7 ? { ...one, visits: 2, parent: 1 } : one));
    const { grid, names } = drawn(nodes, PRESENTED, null, LOOKS.presented);
    const labelled = grid.nodes.filter(({ id }) => names.get(id));
    for (const one of labelled.filter(({ y }) => y)) {
      const [left, y] = labelPlace(one, grid, MOST);
      const touched = labelled.filter((other) => other !== one && Math.abs(labelPlace(other, grid, MOST)[1] - y) < 11 * grid.fonts(one).size && labelPlace(other, grid, MOST)[0] === left);
      assert.deepEqual(touched, []);
    }
    assert.ok(labelled.length < nodes.length);
    for (const one of nodes.filter(({ y }) => y === 0 || y === 7)) assert.ok(names.get(one.id), `${rows} rows, ${one.id}`);
  }
});

// The space of the label of a node: {left, end, top, bottom}, from the top of its letters to their bottom.
function spaceOfLabel(one, { grid, names }) {
  const [left, y] = labelPlace(one, grid, MOST);
  return { left, end: left + 7.3 * grid.fonts(one).size * names.get(one.id).length, top: y - 5.5 * grid.fonts(one).size, bottom: y + 5.5 * grid.fonts(one).size };
}

test("an edge to another row does not cross the label of the parent, nor its numbers", () => {
  for (const [rows, box, looks] of [[4, BOX, LOOKS.page], [17, BOX, LOOKS.page], [24, BOX, LOOKS.page], [4, PRESENTED, LOOKS.presented], [17, PRESENTED, LOOKS.presented]]) {
    const opened = drawn(treeOfRows(rows), box, null, looks);
    const { grid } = opened;
    for (const parent of grid.nodes.filter(({ id, x }) => opened.names.get(id) && x < 3)) {
      const [from, space] = [grid.place(parent), spaceOfLabel(parent, opened)];
      for (const row of [1, 2, 5, 9].map((by) => parent.y + by)) {
        for (const [x, y] of edgePoints(from, grid.place({ x: parent.x + 1, y: row }))) {
          assert.ok(x < space.left || y < space.top || y > space.bottom || x > space.end, `${rows} rows, ${parent.id} to ${row}`);
          if (grid.numbers === "below") assert.ok(x < numbersPlace(parent, grid, MOST)[0] || y > from[1] + 18 || y < from[1] + 4);
        }
      }
    }
  }
});

test("an edge ends at its node, straight in a row, and the edges of a node do not cross", () => {
  assert.deepEqual(edgePoints([10, 5], [90, 5]), [[10, 5], [70, 5], [90, 5]]);
  const [upper, lower] = [25, 45].map((y) => edgePoints([10, 5], [90, y]));
  for (const points of [upper, lower]) assert.deepEqual(points[0], [10, 5]);
  assert.deepEqual([upper.at(-1), lower.at(-1)], [[90, 25], [90, 45]]);
  assert.ok(upper.every(([x, y], i) => x === lower[i][0] && (!i || y < lower[i][1])));
});

test("labels of a long path are on levels, each one above its mark and joined to it by a line", () => {
  for (const [box, looks, count] of [[BOX, LOOKS.page, 13], [PRESENTED, LOOKS.presented, 17]]) {
    const nodes = [...Array(count).keys()].map((x) => ({ ...node(x, x, 0), verdict: x ? "accepted" : "root" }));
    const opened = drawn([...nodes, node(count, 1, 1)], box, null, looks);
    const { grid, names } = opened;
    assert.ok(grid.levels > 1);
    const poles = polesOf(grid.nodes, names, grid, MOST);
    assert.equal(poles.length, count);
    for (const [i, one] of nodes.entries()) {
      const [[x, y], space, { x: at, from, to }] = [grid.place(one), spaceOfLabel(one, opened), poles[i]];
      assert.ok(space.left <= x && x <= space.left + 7.3 * grid.fonts(one).size, "the first letter is above the mark");
      assert.ok(at === x && from < y && to < from && to >= space.bottom);
      assert.ok(y - space.bottom > 0.5 * (diameter(one, MOST, grid.marks) + RING), "the ring does not reach the label");
    }
    const numbers = numbersIn(opened);
    for (const one of nodes.filter(({ id }) => numbers.get(id))) {
      const [{ left, top }, length] = [spaceOfLabel(one, opened), names.get(one.id).length + 1];
      const end = left + 7.3 * grid.fonts(one).size * length + 6 * grid.fonts(one).small * numbers.get(one.id).length;
      assert.deepEqual(poles.filter(({ x, to }) => x > left + 7.3 * grid.fonts(one).size && x < end && to < top), [], "no line crosses numbers");
    }
  }
});

test("the ring of the selected node covers neither its label nor its numbers nor its score", () => {
  for (const [rows, box, looks] of [[2, BOX, LOOKS.page], [4, BOX, LOOKS.page], [17, BOX, LOOKS.page], [3, PRESENTED, LOOKS.presented], [14, PRESENTED, LOOKS.presented], [8, { width: 360, height: 300 }, LOOKS.page]]) {
    const opened = drawn(treeOfRows(rows), box, null, looks);
    const { grid, names } = opened;
    for (const one of grid.nodes.filter(({ id }) => names.get(id))) {
      const [[x, y], radius, { left, bottom }] = [grid.place(one), 0.5 * (diameter(one, MOST, grid.marks) + RING), spaceOfLabel(one, opened)];
      assert.ok(Math.hypot(left - x, Math.min(0, bottom - y)) >= radius, `${rows} rows, ${one.id}`);
      if (grid.numbers === "below") assert.ok(Math.hypot(numbersPlace(one, grid, MOST)[0] - x, 11 - 4) >= radius);
      assert.ok(x - scorePlace(one, grid, MOST)[0] >= radius);
    }
  }
});

test("a score is on its own edge, also above other rows", () => {
  for (const rows of [2, 6, 12]) {
    const nodes = treeOfRows(rows).map((one) => ({ ...one, score: one.id ? "0.25" : null }));
    const { grid, names } = drawn(nodes);
    const { shown } = placeScores(nodes, names, grid, MOST);
    assert.ok(shown.some(({ y }) => y === 0) && shown.some(({ y }) => y));
    for (const one of shown) assert.equal(scorePlace(one, grid, MOST)[1], grid.place(one)[1]);
  }
});

test("no score of a list is cut off, however deep it is", () => {
  for (const depth of [2, 6, 20]) {
    const nodes = [...Array(depth).keys()].map((x) => ({ ...node(x, x, 0), verdict: x ? "accepted" : "root", visits: MOST, score: x ? "0.250" : null }));
    const { grid, names } = drawn(nodes, { width: 360, height: 300 });
    const { shown } = placeScores(grid.nodes, names, grid, MOST);
    assert.equal(shown.length, depth - 1);
    for (const one of shown) assert.ok(scorePlace(one, grid, MOST)[0] >= 6.02 * 5 * grid.fonts(one).small);
    assert.ok(grid.nodes.every((one) => grid.place(one)[0] > 12 && grid.place(one)[0] <= 360 - 150));
  }
});

test("a score that would cover the mark of the parent is not shown", () => {
  const nodes = [...Array(26).keys()].map((x) => ({ ...node(x, x, 0), score: x ? "0.250" : null }));
  const { grid, names } = drawn(nodes);
  assert.deepEqual(placeScores(nodes, names, grid, MOST).shown, []);
});

test("a node is scrolled into view by the shortest way: the root stays in view if it can", () => {
  const box = { left: 0, top: 0, width: 340, height: 300 };
  assert.deepEqual(scrolledTo(box, [60, 200]), [0, 0]);
  assert.deepEqual(scrolledTo(box, [100, 500]), [0, 260]);
  assert.deepEqual(scrolledTo({ ...box, top: 400 }, [100, 200]), [0, 170]);
  assert.deepEqual(scrolledTo({ ...box, left: 500 }, [900, 100]), [680, 0]);
});

test("twenty rows have labels and numbers, and in lower rows only the accepted path has numbers", () => {
  const { grid, names } = drawn(treeOfRows(17));
  assert.equal(grid.numbers, "beside");
  assert.ok([...names.values()].every((name) => name && !name.includes("…")));
  const low = drawn(treeOfRows(40));
  assert.equal(low.grid.numbers, "path");
  assert.ok(10 * low.grid.fonts({ y: 1 }).small >= 8);
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
  const smaller = all.filter(({ grid }) => 12 * grid.fonts({ y: 1 }).size * grid.type < 18);
  assert.ok(smaller.some((one) => !cut(one)) && smaller.every(({ grid }) => 12 * grid.fonts({ y: 1 }).size * grid.type > 14));
  assert.ok(all.filter((one) => !smaller.includes(one)).every((one) => !cut(one)));
});

test("the mark of a fork is part of its label, which has space for it in every row", () => {
  for (const [rows, chain, box] of [[8, 11, BOX], [17, 2, BOX], [3, 4, { width: 360, height: 300 }]]) {
    const nodes = treeOfRows(rows, chain).map((one) => ({ ...one, fork: true }));
    const { grid, names } = drawn(nodes, box);
    const labelled = nodes.filter(({ id }) => names.get(id));
    assert.ok(labelled.length > 4 && labelled.every(({ id }) => names.get(id).startsWith(FORK)));
    for (const one of labelled.filter(() => !grid.list)) assert.ok(labelPlace(one, grid, MOST)[0] + 7.3 * grid.fonts(one).size * names.get(one.id).length <= grid.width + 0.1, `${rows} rows, ${one.id}`);
  }
});

test("no label is over a node of its row or another one, or outside of the picture", () => {
  for (const [rows, chain] of [[17, 2], [8, 11], [3, 25], [10, 4]]) {
    const nodes = treeOfRows(rows, chain);
    const { grid, names } = drawn(nodes);
    for (const one of nodes.filter(({ id }) => names.get(id))) {
      const [left, y] = labelPlace(one, grid, MOST);
      const end = left + 7.3 * grid.fonts(one).size * names.get(one.id).length;
      assert.ok(end <= grid.width + 0.1, `${rows} rows, ${one.id}`);
      const covered = nodes.filter((other) => {
        const [x, row] = grid.place(other);
        return x > left && x < end && Math.abs(row - y) < 6 * grid.fonts(one).size;
      });
      assert.deepEqual(covered, []);
    }
  }
});

test("an edge ends before the score and, in low rows, begins behind the label of the parent", () => {
  const nodes = treeOfRows(12).map((one) => ({ ...one, score: "0.25" }));
  const { grid, names } = drawn(nodes);
  const { shown } = placeScores(nodes, names, grid, MOST);
  const { starts, stops } = edgeEnds(nodes, names, null, shown, grid, MOST);
  const low = nodes.filter(({ y }) => y);
  assert.ok(low.every((one) => starts.get(one.id) > labelPlace(one, grid, MOST)[0]));
  assert.ok(shown.length && shown.every((one) => stops.get(one.id) < grid.place(one)[0]));
  assert.ok(nodes.filter(({ y }) => !y).every(({ id }) => !starts.has(id)));
});

test("the numbers of a node call the prior P and a draft probability q", () => {
  const one = { visits: null, prior: 0.36, folded: 0 };
  assert.equal(numbersOf({ ...one, visits: 4, priorTerm: "prior" }), "N 4 · P 0.36");
  assert.equal(numbersOf({ ...one, priorTerm: "draft-probability" }), "q 0.36");
  assert.equal(numbersOf({ ...one, prior: null, visits: 1, folded: 3 }), "N 1 · +3");
});
