// The agreement curve: values and moving average.

import assert from "node:assert/strict";
import test from "node:test";

import { fartherText, partsText } from "../../assets/cards/agreement/card.js";
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
  assert.match(text(found("base", false), found("overlay", false), found("session", false)), /^Base counts come.*searched, over contexts of up to 8 tokens\.$/);
  assert.match(text(found("base", true), found("overlay", false)), /base counts have no row/);
  assert.match(text(found("base", false), found("overlay", true)), /session counts have no row .* has not occurred/);
  assert.match(text(found("base", false)), /no numbers of “session counts \(learned\)”/);
});

test("where session counts moved the mixture away from the target, a sentence has both distances and the reason", () => {
  const found = (who, total_variation, unseen = false) => ({ ...agreement(who, total_variation), unseen });
  const row = { key: [1, 2], key_texts: [" the", " list"], tokens: [3], texts: ["x"], before: [0], after: [1] };
  const step = (rows, ...all) => ({ agreement: all, rows, tree: { tokens: [2] } });
  const text = (earlier, ...all) => fartherText([...Array.from({ length: earlier }, () => step([row])), step([row], ...all)], earlier);
  const away = [found("base", 0.639), found("session", 0.697)];
  assert.match(text(1, ...away, found("overlay", 0.9)), /^Before the matrix learned from this step, .* distance 0\.697, with base counts alone 0\.639\. 1 earlier step of this run changed the row of ␣the ␣list\. Few observations .* a short context/);
  assert.match(text(2, ...away), / 2 earlier steps .* Few observations/);
  assert.match(text(0, ...away), /0\.639\. Few observations/);
  assert.match(text(2, ...away, found("overlay", 1, true)), /0\.639\. This bigram has not occurred in the session/);
  assert.equal(text(2, found("base", 0.7), found("session", 0.6)), "");
  assert.equal(text(2, found("base", 0.7), found("session", 0.70001)), "");
  assert.equal(text(0, found("session", 0.6)), "");
  const parts = [found("base", 0.6), found("overlay", 1, true)];
  assert.deepEqual([partsText({ agreement: parts }, true), partsText({ agreement: parts })].map((all) => all.includes("not occurred")), [false, true]);
});
