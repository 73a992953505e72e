// The picker's rules: never more than the most, ticks kept unless a method lacks a part.

import assert from "node:assert/strict";
import test from "node:test";

import { countText, merged, toggled } from "../../assets/js/picker.js";
import "./words.js";

const methods = ["a", "b", "c", "d"].map((name) => ({ name, unavailable: null }));
const picks = { methods, chosen: ["b", "c"], fewest: 2, most: 3 };

test("a ticked method takes its place in the list's order, a second click takes it away", () => {
  assert.deepEqual(toggled(picks, "a"), ["a", "b", "c"]);
  assert.deepEqual(toggled(picks, "c"), ["b"]);
});

test("no more than the most race", () => {
  assert.deepEqual(toggled({ ...picks, most: 2 }, "a"), ["b", "c"]);
});

test("what the server says of methods leaves the visitor's ticks alone, but for those that cannot run", () => {
  const fresh = { ...picks, chosen: null, methods: methods.map((m) => ({ ...m, unavailable: m.name === "c" ? "no heads" : null })) };
  assert.deepEqual(merged(picks, fresh).chosen, ["b"]);
  assert.deepEqual(merged(picks, { ...fresh, chosen: ["a", "d"] }).chosen, ["a", "d"]);
});

test("the count says when there are too few or no more may be added", () => {
  assert.equal(countText({ ...picks, chosen: ["a"] }), "1: choose 2 to 3");
  assert.equal(countText(picks), "2 of up to 3");
  assert.equal(countText({ ...picks, chosen: ["a", "b", "c"] }), "3, the most that race");
});
