// The candidates of a beam search by level.

import assert from "node:assert/strict";
import test from "node:test";

import { renderLevels } from "../../assets/cards/levels/card.js";
import { parts } from "./document.js";
import { speak } from "./words.js";

const LEVEL = { candidates: 8, tokens: [4, 5], texts: [" a", " b"], parent_texts: [" r", " r"], cumulative: [0.5, 0.25], kept: [true, false] };

test("every level has its candidates after their parents, those that were cut marked", () => {
  speak("en");
  const part = parts();
  renderLevels(part, [LEVEL, { ...LEVEL, candidates: 64 }]);
  assert.equal(part("levels-card").hidden, false);
  assert.deepEqual(part("levels-head").children.map((cell) => cell.textContent), ["level 1: 1 of 8", "level 2: 1 of 64"]);
  const [first, second] = part("levels-rows").children.map((row) => row.children[0]);
  assert.deepEqual([first, second].map((cell) => cell.textContent), ["␣r → ␣a 0.50", "␣r → ␣b 0.25"]);
  assert.deepEqual([first, second].map((cell) => [cell.attributes["data-kept"], cell.attributes.title]), [["true", "kept"], ["false", "cut"]]);
});

test("without a beam search the card is hidden", () => {
  const part = parts();
  renderLevels(part, []);
  assert.equal(part("levels-card").hidden, true);
});
