// Throughput by draft depth: the formula against a simulation, interpolated costs, the optimum.

import assert from "node:assert/strict";
import test from "node:test";

import { measuredSpeed } from "../../assets/cards/throughput/card.js";
import { splitAt } from "../../assets/page/plot/lines.js";
import { depthOf, expectedTokens, fittedCost, optimum, machineCost, measured, measuredDepth, measuredNodes, forwardPasses, throughputTable } from "../../assets/page/record/estimate.js";
import "./words.js";

const near = (value, wanted, error = 1e-9) => assert.ok(Math.abs(value - wanted) <= error, `${value} is not ${wanted}`);
const chain = (depth, accepted, ended = false) => ({
  tree: { tokens: Array(depth + 1).fill(1), parents: Array.from({ length: depth + 1 }, (_, i) => i - 1) },
  path: Array.from({ length: accepted + 1 }, (_, i) => i),
  emitted: Array(accepted + (ended ? 0 : 1)).fill(1),
  origins: [...Array(accepted).fill("draft"), ...(ended ? [] : ["target"])],
  seconds: { draft: 1, verify: 10 + depth, commit: 2, update: 3 },
});

test("expected tokens equal the mean of a simulated walk with the same acceptance rate at every position", () => {
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

test("positions that the walk did not reach count neither as accepted nor as rejected", () => {
  const run = { steps: [chain(3, 3), chain(3, 1), chain(2, 0), chain(4, 2, true), chain(0, 0)] };
  const found = measured(run);
  near(found.alpha, 6 / 8); // rejected after 1 and after 0; not at the leaf, not at the end of the text
  near(found.nodesPerDepth, 1);
  near(found.overhead, 6);
  assert.deepEqual(found.points, [{ depth: 2, steps: 1, tokens: 1 }, { depth: 3, steps: 2, tokens: 3 }, { depth: 4, steps: 1, tokens: 2 }]);
  assert.equal(measured({ steps: [chain(0, 0)] }), null);
});

test("a size beyond the single measured one costs the same", () => {
  near(machineCost({ sizes: [4], contexts: [8], seconds: [[0.5]], padded: false }, 8)(9), 0.5);
});

test("the depth of a draft is that of its longest path", () => {
  assert.equal(depthOf({ parents: [-1, 0, 0, 2, 3, 0] }), 3);
});

test("measured costs are interpolated and extrapolated linearly and never fall; padded ones use the next size", () => {
  const cost = { sizes: [1, 2, 4], contexts: [100, 300], seconds: [[1, 2, 4], [2, 4, 8]], padded: false };
  assert.deepEqual([1, 2, 3, 4, 6].map(machineCost(cost, 100)), [1, 2, 3, 4, 6]);
  assert.deepEqual([1, 4].map(machineCost(cost, 200)), [1.5, 6]);
  assert.deepEqual([1, 3].map(machineCost({ ...cost, padded: true }, 50)), [1, 4]);
  assert.deepEqual([1, 2, 4].map(machineCost({ ...cost, seconds: [[3, 2, 5], [3, 2, 5]] }, 100)), [3, 3, 5]);
});

test("the fitted line goes through forward passes on a line", () => {
  const points = forwardPasses({ runs: [{ steps: [chain(0, 0), chain(4, 1)] }, { steps: [chain(4, 2), chain(9, 0)] }] });
  assert.deepEqual(points.map((p) => [p.nodes, p.count]), [[1, 1], [5, 2], [10, 1]]);
  const cost = fittedCost(points);
  near(cost(1), 10);
  near(cost(20), 29);
});

test("the speed-up is tokens per time; the optimum is its maximum, and the depth where it falls below one", () => {
  const free = throughputTable({ alpha: 0.5, nodesPerDepth: 1, overhead: 0 }, () => 1);
  near(free[3].ratio, 1.875);
  assert.equal(optimum(free).slower, null);
  const dear = throughputTable({ alpha: 0.5, nodesPerDepth: 1, overhead: 0 }, (nodes) => 10 + nodes);
  const { best, slower } = optimum(dear);
  assert.equal(best.depth, dear.reduce((a, b) => (b.ratio > a.ratio ? b : a)).depth);
  assert.ok(dear[slower].ratio < 1 && dear[slower - 1].ratio >= 1);
  assert.ok(optimum(throughputTable({ alpha: 0.1, nodesPerDepth: 8, overhead: 5 }, (nodes) => nodes)).best.ratio < 1);
});

test("a line is dashed beyond what was measured: deeper drafts than those of the race, and larger forward passes", () => {
  const found = { alpha: 0.5, nodesPerDepth: 2, overhead: 0, points: [{ depth: 3 }, { depth: 6 }] };
  const table = throughputTable(found, () => 1);
  assert.equal(measuredNodes({ sizes: [1, 4, 64] }, []), 64);
  assert.equal(measuredNodes(null, [{ nodes: 2 }, { nodes: 9 }]), 9);
  assert.equal(measuredDepth(found, table, 64), 6);
  assert.equal(measuredDepth(found, table, 8), 3); // 1 + 2 · 3 nodes
  assert.equal(measuredDepth(found, table, 0), 0);
  const [x, y] = [[0, 1, 2, 3], [5, 6, 7, 8]];
  assert.deepEqual(splitAt(1, x, y).map(({ x: at, y: to, beyond }) => [at, to, beyond]), [[[0, 1], [5, 6], false], [[1, 2, 3], [6, 7, 8], true]]);
  assert.deepEqual(splitAt(9, x, y).map(({ x: at, beyond }) => [at, beyond]), [[x, false]]);
  assert.deepEqual(splitAt(-1, x, y).map(({ x: at, beyond }) => [at, beyond]), [[x, true]]);
});

test("the draft of a draft model takes time in proportion to its depth, that of other methods does not", () => {
  const steps = [chain(4, 1), chain(4, 2)];
  const own = measured({ steps, header: { method_settings: { draft_model: "small" } } });
  near(own.overhead, 5);
  near(own.perDepth, 0.25);
  const [, first, second] = throughputTable({ alpha: 0.5, nodesPerDepth: 1, overhead: 5, perDepth: 0.25 }, () => 10);
  near(second.seconds - first.seconds, 0.25);
  near(measured({ steps, header: { method_settings: {} } }).perDepth, 0);
});

test("the estimate is beside the measured speed-up, of this run and as the median of its repeats where it differs", () => {
  const run = (end, repeats) => ({ steps: [{ seconds: { draft: 0, verify: end, commit: 0, update: 0 } }], counts: [30], ends: [end], repeats });
  assert.match(measuredSpeed(run(2, []), run(3, [])), /measured: 1\.50×$/);
  assert.match(measuredSpeed(run(2, [2, 2]), run(3, [2.8, 2.6])), /1\.50× in this run, 1\.40× as the median/);
  assert.equal(measuredSpeed(run(2, []), null), "");
});
