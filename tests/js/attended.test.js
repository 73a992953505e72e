// The slots of the target's KV cache to which a head attended most.

import assert from "node:assert/strict";
import test from "node:test";

import { renderAttended } from "../../assets/cards/attended/card.js";
import { parts } from "./document.js";
import { speak } from "./words.js";

const FIRST = { positions: [7, 2], tokens: [4, 5], texts: [" a", " b"], weights: [0.5, 0.25] };

test("every drafted token has a column with its slots, the most attended first", () => {
  speak("en");
  const part = parts();
  renderAttended(part, [FIRST, { ...FIRST, positions: [2], tokens: [5], texts: [" b"], weights: [0.75] }], [" x"]);
  assert.equal(part("attended-card").hidden, false);
  assert.deepEqual(part("attended-head").children.map((cell) => cell.textContent), ["␣x", "token 2"]);
  assert.equal(part("attended-rows").children[0].children[0].find("i")[0].style.width, "66.66666666666666%");
  const cells = part("attended-rows").children.map((row) => row.children.map((cell) => cell.textContent));
  assert.deepEqual(cells, [["␣a slot 7 · 0.50", "␣b slot 2 · 0.75"], ["␣b slot 2 · 0.25", ""]]);
});

test("without such a head the card is hidden", () => {
  const part = parts();
  renderAttended(part, [], []);
  assert.equal(part("attended-card").hidden, true);
});
