// Savings by the KV cache, on constructed runs and on a bundled race.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { extrapolated, measuredReads, ratios } from "../../assets/cards/kvcache/savings.js";

const race = JSON.parse(readFileSync(new URL("../../assets/traces/01-a-maths-teacher.json", import.meta.url), "utf-8"));
const plain = (start, steps) => ({ steps: Array.from({ length: steps }, (_, k) => ({ position: start + k, tree: { tokens: [0], parents: [-1] }, emitted: [1] })) });

// Query-key pairs counted cell by cell in the mask: the context's tokens, then the draft's nodes with their ancestors.
function cells(text, parents) {
  const ancestors = (node) => (node < 0 ? 0 : 1 + ancestors(parents[node]));
  const context = Array.from({ length: text }, (_, i) => i + 1).reduce((a, b) => a + b, 0);
  const draft = parents.reduce((sum, _, node) => sum + text + ancestors(node), 0);
  return { context, draft };
}

test("query-key pairs equal the cells of the attention masks, with the cache and without", () => {
  const run = race.lanes.find(({ header }) => header.method === "aded");
  let cached = cells(run.steps[0].position, []).context;
  let uncached = 0;
  let read = run.steps[0].position;
  for (const [k, { position, tree }] of run.steps.entries()) {
    const { context, draft } = cells(position, tree.parents);
    cached += draft;
    uncached += context + draft;
    read += tree.tokens.length;
    assert.deepEqual([measuredReads(run)[k].cached.pairs, measuredReads(run)[k].uncached.pairs, measuredReads(run)[k].cached.tokens], [cached, uncached, read]);
  }
});

test("plain decoding processes every token once with the cache, and every prefix without", () => {
  const [end] = measuredReads(plain(3, 5)).slice(-1);
  assert.deepEqual(end.cached, { tokens: 8, pairs: 36 });
  assert.equal(end.uncached.tokens, 4 + 5 + 6 + 7 + 8);
  assert.equal(ratios(end).tokens, 30 / 8);
});

test("a context twice as long has four times the pairs with the cache, and eight times without", () => {
  const run = plain(1, 4);
  const rows = extrapolated(run, measuredReads(run));
  const at = (length) => rows.findLast((row) => row.length <= length);
  assert.ok(Math.abs(at(4096).cached.pairs / at(2048).cached.pairs - 4) < 0.02);
  assert.ok(Math.abs(at(4096).uncached.pairs / at(2048).uncached.pairs - 8) < 0.05);
  assert.ok(Math.abs(at(4096).uncached.tokens / at(2048).uncached.tokens - 4) < 0.02);
});
