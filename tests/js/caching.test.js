// What the cache saves, on made-up lanes and on a race that ships.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { continued, counted, times } from "../../assets/js/caching.js";

const race = JSON.parse(readFileSync(new URL("../../assets/traces/01-a-maths-teacher.json", import.meta.url), "utf-8"));
const plain = (start, passes) => ({ steps: Array.from({ length: passes }, (_, k) => ({ position: start + k, tree: { tokens: [0], parents: [-1] }, emitted: [1] })) });

// Pairs of a mask, cell by cell: the text's tokens one after the other, then the draft's nodes with their ancestors.
function cells(text, parents) {
  const ancestors = (node) => (node < 0 ? 0 : 1 + ancestors(parents[node]));
  const own = Array.from({ length: text }, (_, i) => i + 1).reduce((a, b) => a + b, 0);
  const draft = parents.reduce((sum, _, node) => sum + text + ancestors(node), 0);
  return { own, draft };
}

test("pairs are the cells of the masks, with the cache and without", () => {
  const lane = race.lanes.find(({ header }) => header.method === "aded");
  let kept = cells(lane.steps[0].position, []).own;
  let anew = 0;
  let read = lane.steps[0].position;
  for (const [k, { position, tree }] of lane.steps.entries()) {
    const { own, draft } = cells(position, tree.parents);
    kept += draft;
    anew += own + draft;
    read += tree.tokens.length;
    assert.deepEqual([counted(lane)[k].kept.pairs, counted(lane)[k].anew.pairs, counted(lane)[k].kept.tokens], [kept, anew, read]);
  }
});

test("plain decoding has read every token once with the cache, and every prefix without", () => {
  const [end] = counted(plain(3, 5)).slice(-1);
  assert.deepEqual(end.kept, { tokens: 8, pairs: 36 });
  assert.equal(end.anew.tokens, 4 + 5 + 6 + 7 + 8);
  assert.equal(times(end).tokens, 30 / 8);
});

test("a doubled text has four times the pairs with the cache, and eight times without", () => {
  const lane = plain(1, 4);
  const rows = continued(lane, counted(lane));
  const at = (length) => rows.findLast((row) => row.length <= length);
  assert.ok(Math.abs(at(4096).kept.pairs / at(2048).kept.pairs - 4) < 0.02);
  assert.ok(Math.abs(at(4096).anew.pairs / at(2048).anew.pairs - 8) < 0.05);
  assert.ok(Math.abs(at(4096).anew.tokens / at(2048).anew.tokens - 4) < 0.02);
});
