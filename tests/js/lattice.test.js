// The table of the lattice of head predictions.

import assert from "node:assert/strict";
import test from "node:test";

import { columnsOf, isRescored } from "../../assets/cards/lattice/columns.js";

const HEAD = { tokens: [4, 5, 6], texts: [" a", " b", " c"], heads: [0.5, 0.3, 0.1], rescored: [] };

test("without rescoring a column has the head's most probable tokens", () => {
  const [column] = columnsOf([HEAD], 2);
  assert.deepEqual(column.map(({ token, rescored, best }) => [token, rescored, best]), [[4, null, true], [5, null, false]]);
  assert.equal(isRescored([HEAD]), false);
});

test("a rescored column is sorted by the rescored probabilities and keeps those of the head", () => {
  const rescored = { ...HEAD, rescored: [0.05, 0.15, 0.7] };
  const [first, second] = columnsOf([rescored, HEAD], 3);
  assert.deepEqual(first.map(({ text, head, rescored: after }) => [text, head, after]), [[" c", 0.1, 0.7], [" b", 0.3, 0.15], [" a", 0.5, 0.05]]);
  assert.deepEqual(first.map(({ best }) => best), [true, false, false]);
  assert.deepEqual(second.map(({ token }) => token), [4, 5, 6]);
  assert.equal(isRescored([HEAD, rescored]), true);
});
