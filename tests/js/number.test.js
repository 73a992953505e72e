// Number fields: the slider position for a typed text, and its errors.

import assert from "node:assert/strict";
import test from "node:test";

import { errorOf, errorText, tickOf, numberOf, shortest } from "../../assets/page/controls/number.js";
import { speak } from "./words.js";

const ticks = [0, 0.25, 1, 4, 32];
const temperature = { name: "temperature", minimum: 0, maximum: 2, integer: false, blank: null };
const budget = { name: "budget", minimum: 1, maximum: 256, integer: true, blank: "auto" };
const depth = { name: "depth", minimum: 1, maximum: 64, integer: true, blank: "" };

test("the slider is at the nearest tick, or at its start without a number", () => {
  assert.deepEqual(["0", "1", "1.2", "3", "32", "900", "1e300", "1e999"].map((text) => tickOf(text, ticks)), [1, 3, 3, 4, 5, 5, 5, 5]);
  assert.deepEqual(["", "auto", "lots"].map((text) => tickOf(text, ticks)), [0, 0, 0]);
});

test("numbers can be typed in all usual forms, with full-width digits too", () => {
  assert.deepEqual([" 1.5 ", "１２．５", ".5", "+3", "1e-3", "5.", "0,7", ",5", "1，5", "0,125"].map(numberOf), [1.5, 12.5, 0.5, 3, 0.001, 5, 0.7, 0.5, 1.5, 0.125]);
  for (const text of ["", "many", "1,000", "1,000,000", "1.5,5", "Infinity", "0x10", "1_0", "${1}"]) assert.equal(numberOf(text), null, text);
});

test("errors are: not a number, empty, out of range, not a whole number; the blank text is no error", () => {
  assert.deepEqual(["0", "2", "0.35", "2.01", "-1", "1e400", "", "hot"].map((text) => errorOf(text, temperature)), [null, null, null, "range", "range", "range", "empty", "number"]);
  assert.deepEqual(["", "Auto", "256", "257", "1.5", "many"].map((text) => errorOf(text, budget)), [null, null, null, "range", "integer", "number"]);
  assert.deepEqual(["", " ", "auto"].map((text) => errorOf(text, depth)), [null, null, "number"]);
});

test("a error names the field, the value, the range and the alternatives, in the user's language", () => {
  assert.equal(errorText("3.5", temperature), "Temperature: 3.5 is out of range. Give a number from 0 to 2.");
  assert.match(errorText("0", budget), /^Draft budget \(nodes\): 0 .* from 1 to 256, or auto [^.]*\.$/);
  assert.match(errorText("x", depth), /^Depth: “x” is not a number.* from 1 to 64, or leave it empty [^.]*\.$/);
  speak("zh");
  assert.match(errorText("3.5", temperature), /^温度：3\.5 .*0 到 2/);
  speak("en");
  assert.equal(errorText("1", temperature), "");
  assert.ok(errorText("x".repeat(500), depth).length < 160);
});

test("typed numbers are normalised, and faulty texts are left unchanged", () => {
  assert.deepEqual(["007", "1e1", " ５ ", "2.0"].map((text) => shortest(text, depth)), ["7", "10", "5", "2"]);
  assert.equal(shortest("0,7", temperature), "0.7");
  assert.deepEqual(["AUTO", ""].map((text) => shortest(text, budget)), ["auto", "auto"]);
  for (const text of ["99", "1.5", "deep"]) assert.equal(shortest(text, depth), text);
});
