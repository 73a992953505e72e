// Recorded rows of the matrix: rows so far, rows that changed most, and the neighbourhood of a bigram.

import assert from "node:assert/strict";
import test from "node:test";

import { learnedWithout } from "../../assets/cards/matrix/card.js";
import { changeText, learnedSentence } from "../../assets/cards/learned/card.js";
import { sizesSentence } from "../../assets/cards/sizes/card.js";
import { bytes, fitted, visible } from "../../assets/page/core/dom.js";
import { bucketOf, kindOf } from "../../assets/cards/bigrams/card.js";
import { busiest, currentBigram, nameOf, neighbourhood, bigramOfNode, placed, rowsSoFar, successors } from "../../assets/page/record/bigrams.js";
import { edgeRoutes } from "../../assets/cards/bigrams/edgeroutes.js";
import "./words.js";

const row = (key, next, before = {}) => {
  const tokens = Object.keys(next).map(Number);
  return { key, key_texts: key.map(String), tokens, texts: tokens.map(String), before: tokens.map((t) => before[t] ?? next[t]), after: Object.values(next) };
};
const sizesStep = (base_rows, base_bytes, overlay_rows, overlay_bytes) => ({ base_rows, base_bytes, overlay_rows, overlay_bytes });
const step = (root, ...rows) => ({ tree: { tokens: [root] }, rows });

test("a row has its latest recorded state up to the step, without later changes", () => {
  const steps = [step(2, row([1, 2], { 3: 0.5 })), step(3, row([2, 3], { 4: 1 })), step(4, row([1, 2], { 3: 0.75 }, { 3: 0.5 }))];
  assert.equal(rowsSoFar(steps, 1).get("1 2").row.after[0], 0.5);
  const rows = rowsSoFar(steps, 2);
  assert.deepEqual([...rows.values()].map(({ name, changes, at, now }) => [name, changes, at, now]), [["1 2", 2, 2, true], ["2 3", 1, 1, false]]);
  assert.deepEqual(busiest(rows, 1).map(({ name }) => name), ["1 2"]);
  assert.deepEqual(successors(rows.get("1 2")), [{ token: 3, text: "3", weight: 0.75, learned: null, change: 0.25 }]);
  assert.equal(successors(rows.get("2 3"))[0].change, 0);
});

test("rows of the step on screen are among the most changed ones, even if others changed more often", () => {
  const often = [0, 1].flatMap(() => [1, 2, 3, 4].map((i) => step(i, row([i, i], { 5: 0.5 }))));
  const rows = rowsSoFar([...often, step(9, row([8, 9], { 5: 0.5 }))], often.length);
  assert.deepEqual(busiest(rows, 3).map(({ name, now }) => [name, now]), [["4 4", false], ["3 3", false], ["8 9", true]]);
  assert.equal(busiest(rows, 9).length, 5);
});

test("a node's bigram is its parent's token and its own, if its row is recorded up to the step", () => {
  const tree = { tokens: [3, 4, 5], parents: [-1, 0, 1] };
  const steps = [{ tree, path: [0, 1], emitted: [4, 6], rows: [row([3, 4], { 5: 1 }), row([4, 6], { 7: 1 })] }, { tree, path: [0], emitted: [9], rows: [row([4, 5], { 6: 1 })] }];
  assert.deepEqual([0, 1, 2, -1].map((node) => bigramOfNode(steps, 0, node)), [null, "3 4", null, "4 6"]);
  assert.deepEqual([0, 1, 2, -1].map((node) => bigramOfNode(steps, 1, node)), [null, "3 4", "4 5", null]);
});

test("the current bigram is the one that ends with the root", () => {
  assert.equal(currentBigram(step(3, row([1, 2], {}), row([2, 3], {}))), nameOf([2, 3]));
  assert.equal(currentBigram(step(3)), null);
});

const chain = [step(2, row([1, 2], { 3: 0.6, 9: 0.3, 8: 0.01 }), row([2, 3], { 1: 0.9, 5: 0.05 }), row([3, 1], { 2: 0.8 }), row([7, 1], { 2: 0.4 }), row([6, 7], { 1: 1 }))];

test("a neighbourhood has edges to next bigrams, and back to existing ones", () => {
  const { nodes, edges, folded } = neighbourhood(rowsSoFar(chain, 0), "1 2");
  const depths = Object.fromEntries(nodes.map(({ name, depth }) => [name, depth]));
  assert.deepEqual(depths, { "1 2": 0, "3 1": -1, "7 1": -1, "2 3": 1, "2 9": 1, "3 5": 2 });
  assert.deepEqual(edges.filter(({ tree }) => !tree).map(({ from, to }) => [from, to]), [["2 3", "3 1"]]);
  assert.equal(folded, 1);
  assert.equal(nodes.find(({ name }) => name === "2 9").known, false);
  for (const { from, to } of edges) assert.ok(from in depths && to in depths);
});

test("the same rows give the same graph in any order, and no two nodes have the same position", () => {
  const wide = [step(1, ...Array.from({ length: 40 }, (_, i) => row([0, i], Object.fromEntries(Array.from({ length: 12 }, (_, k) => [100 + i * 12 + k, 0.05 + 0.001 * ((i * 7 + k * 5) % 11)])))), row([9, 0], Object.fromEntries(Array.from({ length: 40 }, (_, i) => [i, 0.02 + i / 1000]))))];
  const turned = [step(1, ...[...wide[0].rows].reverse())];
  const graph = neighbourhood(rowsSoFar(wide, 0), "9 0", 30);
  const other = neighbourhood(rowsSoFar(turned, 0), "9 0", 30);
  assert.deepEqual(graph.nodes.map(({ name }) => name), other.nodes.map(({ name }) => name));
  assert.ok(graph.nodes.length <= 30 && graph.folded > 0);
  const { places, columns, rows } = placed(graph.nodes);
  const taken = [...places.values()].map(({ x, y }) => `${x}/${y}`);
  assert.equal(new Set(taken).size, graph.nodes.length);
  for (const { x, y } of places.values()) assert.ok(x < columns && y < rows);
});

// Boxes of labels as in the graph: above and to the right of a node; left of it before the central bigram.
const labelBox = ([x, y], before) => (before ? [x - 180, y - 9, x - 6, y + 9] : [x + 5, y - 20, x + 123, y - 4]);

test("a route back to an existing bigram crosses no label", () => {
  const wide = 148;
  const row = 22;
  const leading = [0, 1].map((y) => [`l${y}`, { x: 0, y, before: true }]);
  const others = [["m", 1, 0], ["a", 2, 0], ["b", 2, 3], ["c", 3, 0], ["d", 3, 1], ["e", 3, 3], ["f", 4, 0], ["g", 4, 2], ["h", 4, 4], ["i", 2, 5]];
  const places = new Map([...leading, ...others.map(([name, x, y]) => [name, { x, y }])]);
  const grid = { at: (x, y) => [176 + x * wide, 30 + y * row], columns: 5 };
  const names = [...places.keys()];
  const edges = names.slice(2).flatMap((from) => names.map((to) => ({ from, to })));
  const boxes = [...places.values()].map(({ x, y, before }) => labelBox(grid.at(x, y), before));
  edgeRoutes(edges, places, grid).forEach((way, i) => {
    const { from, to } = edges[i];
    if (from !== to) assert.deepEqual([way[0], way[way.length - 1]], [from, to].map((name) => grid.at(places.get(name).x, places.get(name).y)));
    for (const [x, y] of densely(way)) assert.ok(boxes.every(([left, top, right, bottom]) => x < left || x > right || y < top || y > bottom), `${from} to ${to} at ${x} ${y}`);
  });
});

const densely = (way) => way.slice(1).flatMap(([x, y], i) => Array.from({ length: 41 }, (_, k) => [way[i][0] + ((x - way[i][0]) * k) / 40, way[i][1] + ((y - way[i][1]) * k) / 40]));

test("every continuation of a drawn bigram is drawn or counted as folded", () => {
  const rows = rowsSoFar(chain, 0);
  const { nodes, edges, folded } = neighbourhood(rows, "1 2");
  const forward = nodes.filter(({ name, depth }) => depth >= 0 && rows.has(name)).map(({ name }) => name);
  const out = forward.flatMap((name) => successors(rows.get(name)));
  const drawn = edges.filter(({ from }) => forward.includes(from));
  assert.equal(out.length, drawn.length + folded);
});

test("an edge shows its kind and its probability", () => {
  assert.deepEqual([{ change: 0.1, tree: true }, { change: -0.1, tree: false }, { change: 0, tree: true }, { change: 0, tree: false }].map(kindOf), ["up", "again", "plain", "again"]);
  assert.deepEqual([0.9, 0.3, 0.1, 0.01].map(bucketOf), [3, 2, 1, 0]);
});

test("the learned share of a row and the sizes of both parts are stated in sentences", () => {
  const known = { now: true, row: { ...row([1, 2], { 3: 0.6, 4: 0.2 }), learned: [0.6, 0] } };
  assert.match(learnedSentence(known, successors(known)), /75 %/);
  assert.match(sizesSentence(sizesStep(1000, 2_500_000, 1234, 98_700)), /1,234 rows have session counts \(98.7 kB\).*1,000 rows of base counts \(2.5 MB\)/);
  assert.match(sizesSentence(sizesStep(0, 0, 5, 720)), /5 rows have session counts \(720 B\).*no base/);
  assert.deepEqual([999, 1000, 1_500_000].map(bytes), ["999 B", "1.0 kB", "1.5 MB"]);
});

test("wide characters count as two columns when a label is cut", () => {
  assert.equal(fitted("abcdefgh", 8), "abcdefgh");
  assert.equal(fitted("abcdefghi", 8), "abcdefg…");
  assert.equal(fitted("漢字漢字", 8), "漢字漢字");
  assert.equal(fitted("漢字漢字漢", 8), "漢字漢…");
  assert.equal(visible("🙂🙂🙂🙂🙂", 8), "🙂🙂🙂…");
  assert.equal(visible("é".repeat(9), 8), `${"é".repeat(7)}…`);
});

test("a method without changed rows says what it learns and updates, each its own", () => {
  const text = (method, why = "as set") => learnedWithout({ label: "X", header: { method } }, { emitted: [1, 2], budget: { why } });
  const methods = ["plain", "prompt-lookup", "lookahead", "rest", "token-recycling", "suffix", "medusa", "speculative", "specinfer", "aded"];
  assert.equal(new Set(methods.map((method) => text(method))).size, methods.length);
  for (const method of methods) assert.match(text(method), /^X learns .*\.$/);
  assert.match(text("suffix"), /2 new tokens/);
  assert.equal(text("my-own"), "X has no matrix: nothing is learned from a step.");
  assert.match(text("medusa", "automatic: all 4 drafted nodes raise the throughput"), /automatic draft budget counted/);
  assert.doesNotMatch(text("speculative", "automatic: a sampled draft is kept whole, its method chose the size before sampling"), /automatic draft budget/);
});

test("the distance to the target is said to be that of all contexts, not of the row beside it", () => {
  const at = (total_variation) => [{ who: "session", total_variation }];
  const text = (before, after) => changeText({ agreement: at(before), agreement_after: at(after), rows: [{}] });
  assert.equal(text(0.005, 0.006), "This step took the matrix farther from the target after the last tokens (contexts of up to 8): total variation distance 0.005 before, 0.006 after.");
  for (const after of [0.005, 0.003]) assert.match(text(0.005, after), /contexts of up to 8/);
});
