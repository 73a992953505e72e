// Where drafting pays: the formula against a simulation, the cost between its points, the limits.

import assert from "node:assert/strict";
import test from "node:test";

import { depthOf, expectedTokens, fittedCost, limits, machineCost, measured, passes, payingTable } from "../../assets/js/paying.js";

const near = (value, wanted, error = 1e-9) => assert.ok(Math.abs(value - wanted) <= error, `${value} is not ${wanted}`);
const chain = (depth, accepted, ended = false) => ({
  tree: { tokens: Array(depth + 1).fill(1), parents: Array.from({ length: depth + 1 }, (_, i) => i - 1) },
  path: Array.from({ length: accepted + 1 }, (_, i) => i),
  emitted: Array(accepted + (ended ? 0 : 1)).fill(1),
  origins: [...Array(accepted).fill("draft"), ...(ended ? [] : ["target"])],
  seconds: { draft: 1, verify: 10 + depth, commit: 2, update: 3 },
});

test("the expected tokens are the mean of a walk that accepts each level with the same probability", () => {
  let seed = 7;
  const random = () => {
    seed = (seed * 16807) % 2147483647;
    return seed / 2147483647;
  };
  for (const [alpha, depth] of [[0.5, 3], [0.8, 6], [0, 4], [1, 5]]) {
    const walk = () => { let n = 0; while (n < depth && random() < alpha) n += 1; return n + 1; };
    const mean = Array.from({ length: 40000 }, walk).reduce((a, b) => a + b, 0) / 40000;
    near(mean, expectedTokens(alpha, depth), 0.04);
  }
});

test("a level that the walk never stood before counts neither as accepted nor as refused", () => {
  const lane = { steps: [chain(3, 3), chain(3, 1), chain(2, 0), chain(4, 2, true), chain(0, 0)] };
  const found = measured(lane);
  near(found.alpha, 6 / 8); // refused after 1 and after 0; not at the leaf, not at the end of the text
  near(found.spread, 1);
  near(found.host, 6);
  assert.deepEqual(found.points, [{ depth: 2, steps: 1, tokens: 1 }, { depth: 3, steps: 2, tokens: 3 }, { depth: 4, steps: 1, tokens: 2 }]);
  assert.equal(measured({ steps: [chain(0, 0)] }), null);
});

test("a size beyond the largest that was measured costs what that one does", () => {
  near(machineCost({ sizes: [4], contexts: [8], seconds: [[0.5]], padded: false }, 8)(9), 0.5);
});

test("the depth of a draft is that of its deepest path", () => {
  assert.equal(depthOf({ parents: [-1, 0, 0, 2, 3, 0] }), 3);
});

test("a measured cost stands at its sizes, straight between and beyond them, never falling; a padded one goes to the next size", () => {
  const cost = { sizes: [1, 2, 4], contexts: [100, 300], seconds: [[1, 2, 4], [2, 4, 8]], padded: false };
  assert.deepEqual([1, 2, 3, 4, 6].map(machineCost(cost, 100)), [1, 2, 3, 4, 6]);
  assert.deepEqual([1, 4].map(machineCost(cost, 200)), [1.5, 6]);
  assert.deepEqual([1, 3].map(machineCost({ ...cost, padded: true }, 50)), [1, 4]);
  assert.deepEqual([1, 2, 4].map(machineCost({ ...cost, seconds: [[3, 2, 5], [3, 2, 5]] }, 100)), [3, 3, 5]);
});

test("the line through a race's passes is the one that they lie on", () => {
  const points = passes({ lanes: [{ steps: [chain(0, 0), chain(4, 1)] }, { steps: [chain(4, 2), chain(9, 0)] }] });
  assert.deepEqual(points.map((p) => [p.nodes, p.passes]), [[1, 1], [5, 2], [10, 1]]);
  const cost = fittedCost(points);
  near(cost(1), 10);
  near(cost(20), 29);
});

test("speed is tokens against time, and the limits are its highest place and where it falls below one", () => {
  const free = payingTable({ alpha: 0.5, spread: 1, host: 0 }, () => 1);
  near(free[3].ratio, 1.875);
  assert.equal(limits(free).stops, null);
  const dear = payingTable({ alpha: 0.5, spread: 1, host: 0 }, (nodes) => 10 + nodes);
  const { best, stops } = limits(dear);
  assert.equal(best.depth, dear.reduce((a, b) => (b.ratio > a.ratio ? b : a)).depth);
  assert.ok(dear[stops].ratio < 1 && dear[stops - 1].ratio >= 1);
  assert.ok(limits(payingTable({ alpha: 0.1, spread: 8, host: 5 }, (nodes) => nodes)).best.ratio < 1);
});
