// Numbers with a slider: where it stands for what was typed.

import assert from "node:assert/strict";
import test from "node:test";

import { isGood, notchOf, numberOf } from "../../assets/js/number.js";

const notches = [0, 0.25, 1, 4, 32];

test("the slider stands at the nearest value and at its beginning where there is no number", () => {
  assert.deepEqual(["0", "1", "1.2", "3", "32", "900"].map((text) => notchOf(text, notches)), [1, 3, 3, 4, 5, 5]);
  assert.deepEqual(["", "auto", "lots", "1e999"].map((text) => notchOf(text, notches)), [0, 0, 0, 0]);
});

test("any finite number may be typed, and the word for none", () => {
  assert.equal(numberOf(" 1.5 "), 1.5);
  for (const text of ["", "Auto", "1e-3", "-2"]) assert.ok(isGood(text, "auto"), text);
  for (const text of ["many", "1,5", "Infinity", "${1}"]) assert.ok(!isGood(text, "auto"), text);
});
