// The agreement curve: values and moving average.

import assert from "node:assert/strict";
import test from "node:test";

import { partsText } from "../../assets/cards/agreement/card.js";
import { MEASURES, mean, movingMean, values } from "../../assets/page/record/agreement.js";
import { PARTS_OF_MATRIX } from "../../assets/page/plot/lines.js";
import "./words.js";

const agreement = (who, total_variation) => ({ who, unseen: false, total_variation, top_1: 1, top_4: 0.5, top_12: 0.25 });
const steps = [{ agreement: [agreement("base", 0.2), agreement("session", 0.1)] }, { agreement: [] }, { agreement: [agreement("base", 0.6)] }];

test("values of a part are in the order of the steps, with null for missing ones", () => {
  assert.deepEqual(values(steps, "base", "total_variation"), [0.2, null, 0.6]);
  assert.deepEqual(values(steps, "overlay", "top_1"), [null, null, null]);
});

test("the moving average ignores missing values and starts with the first ones", () => {
  assert.deepEqual(movingMean([1, 3, null, 5], 2), [1, 2, 3, 5]);
  assert.deepEqual(movingMean([null, 2], 8), [null, 2]);
  assert.equal(mean([]), null);
});

test("every measure and every part of the matrix in a record has a name", () => {
  assert.deepEqual(Object.keys(agreement("base", 0)).slice(2).sort(), [...MEASURES].sort());
  assert.deepEqual(Object.keys(PARTS_OF_MATRIX), ["base", "overlay", "session"]);
});

test("the parts of the matrix are explained, and why one has no row of its own", () => {
  const found = (who, unseen) => ({ who, unseen, total_variation: 1, top_1: 0, top_4: 0, top_12: 0 });
  const text = (...agreement) => partsText({ agreement });
  assert.match(text(found("base", false), found("overlay", false), found("session", false)), /^Base counts come.*searched\.$/);
  assert.match(text(found("base", true), found("overlay", false)), /base counts have no row/);
  assert.match(text(found("base", false), found("overlay", true)), /session counts have no row .* has not occurred/);
  assert.match(text(found("base", false)), /no numbers of “session counts \(learned\)”/);
});
