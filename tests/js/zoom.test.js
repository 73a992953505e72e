// The part of the time that a chart shows.

import assert from "node:assert/strict";
import test from "node:test";

import { drawnOut, farther, isNearest, nearer, taken } from "../../assets/cards/timing/zoom.js";

test("zooming in halves the part around the time, within the whole, down to a smallest part", () => {
  assert.deepEqual(nearer(null, 4, 8), [2, 6]);
  assert.deepEqual(nearer(null, 0, 8), [0, 4]);
  assert.deepEqual(nearer(null, 7, 8), [4, 8]);
  assert.deepEqual(nearer(null, 8, 8), [2, 6]); // at the end of the race the part is centred
  assert.deepEqual(nearer([0, 4], 7, 8), [1, 3]);
  let span = null;
  for (let k = 0; k < 20; k++) span = nearer(span, 3, 8);
  assert.ok(Math.abs(span[1] - span[0] - 8 / 64) < 1e-9 && span[0] <= 3 && span[1] >= 3);
  assert.ok(isNearest(span, 8) && !isNearest([2, 6], 8) && !isNearest(null, 8));
});

test("zooming out doubles the part up to the whole", () => {
  assert.deepEqual(farther([2, 4], 3, 8), [1, 5]);
  assert.equal(farther([2, 6], 3, 8), null);
  assert.equal(farther(null, 3, 8), null);
});

test("a part selected by dragging lies within the whole, in both directions", () => {
  assert.deepEqual(drawnOut(5, 3, 8), [3, 5]);
  assert.deepEqual(drawnOut(-1, 2, 8), [0, 2]);
  assert.equal(drawnOut(-1, 9, 8), null);
  const [from, to] = drawnOut(7.999, 8.2, 8);
  assert.ok(to <= 8 && to - from >= 8 / 64 - 1e-9);
});

test("the part moves only when the time leaves it", () => {
  assert.deepEqual(taken([2, 4], 3, 3.5, 8), [2, 4]);
  assert.deepEqual(taken([2, 4], 3, 6, 8), [5, 7]);
  assert.deepEqual(taken([2, 4], 3, 0, 8), [0, 2]);
  assert.deepEqual(taken([2, 4], 8, 8, 8), [2, 4]);
});
