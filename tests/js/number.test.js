// Fields for numbers: where the slider stands for what was typed, and what is wrong with it.

import assert from "node:assert/strict";
import test from "node:test";

import { faultOf, faultText, notchOf, numberOf, settled } from "../../assets/js/number.js";
import { setLanguage } from "../../assets/js/words.js";
import "./words.js";

const notches = [0, 0.25, 1, 4, 32];
const temperature = { name: "temperature", least: 0, most: 2, whole: false, nothing: null };
const budget = { name: "budget", least: 1, most: 256, whole: true, nothing: "auto" };
const depth = { name: "depth", least: 1, most: 64, whole: true, nothing: "" };

test("the slider stands at the nearest value and at its beginning where there is no number", () => {
  assert.deepEqual(["0", "1", "1.2", "3", "32", "900", "1e300", "1e999"].map((text) => notchOf(text, notches)), [1, 3, 3, 4, 5, 5, 5, 5]);
  assert.deepEqual(["", "auto", "lots"].map((text) => notchOf(text, notches)), [0, 0, 0]);
});

test("numbers may be typed in any usual way, wide digits too", () => {
  assert.deepEqual([" 1.5 ", "１２．５", ".5", "+3", "1e-3", "5."].map(numberOf), [1.5, 12.5, 0.5, 3, 0.001, 5]);
  for (const text of ["", "many", "1,5", "Infinity", "0x10", "1_0", "${1}"]) assert.equal(numberOf(text), null, text);
});

test("a fault is no number, nothing, out of range or no whole number, and the word for none is no fault", () => {
  assert.deepEqual(["0", "2", "0.35", "2.01", "-1", "1e400", "", "hot"].map((text) => faultOf(text, temperature)), [null, null, null, "range", "range", "range", "empty", "number"]);
  assert.deepEqual(["", "Auto", "256", "257", "1.5", "many"].map((text) => faultOf(text, budget)), [null, null, null, "range", "whole", "number"]);
  assert.deepEqual(["", " ", "auto"].map((text) => faultOf(text, depth)), [null, null, "number"]);
});

test("a fault names the field as it is labelled, the value, the range and what else it may be, in the reader's language", () => {
  assert.equal(faultText("3.5", temperature), "Temperature: 3.5 is out of range. Give a number from 0 to 2.");
  assert.match(faultText("0", budget), /^Draft budget in nodes: 0 .* from 1 to 256, or write auto [^.]*\.$/);
  assert.match(faultText("x", depth), /^Depth: “x” is no number.* from 1 to 64, or leave it empty [^.]*\.$/);
  setLanguage("zh");
  assert.match(faultText("3.5", temperature), /^温度：3\.5 .*0 到 2/);
  setLanguage("en");
  assert.equal(faultText("1", temperature), "");
  assert.ok(faultText("x".repeat(500), depth).length < 160);
});

test("what was typed is settled as the number that is run, and a fault is left to be seen", () => {
  assert.deepEqual(["007", "1e1", " ５ ", "2.0"].map((text) => settled(text, depth)), ["7", "10", "5", "2"]);
  assert.deepEqual(["AUTO", ""].map((text) => settled(text, budget)), ["auto", "auto"]);
  for (const text of ["99", "1.5", "deep"]) assert.equal(settled(text, depth), text);
});
