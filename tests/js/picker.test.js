// Rules of the method picker: never more than the maximum; the selection is kept unless a method cannot run.

import assert from "node:assert/strict";
import test from "node:test";

import { parts } from "./document.js";
import { on } from "../../assets/page/core/events.js";
import { countText, merged, mountPicker, toggled } from "../../assets/page/controls/picker.js";
import "./words.js";

const methods = ["a", "b", "c", "d"].map((name) => ({ name, unavailable: null }));
const picks = { methods, chosen: ["b", "c"], min: 2, max: 3 };

test("a selected method is inserted in list order, a second click removes it", () => {
  assert.deepEqual(toggled(picks, "a"), ["a", "b", "c"]);
  assert.deepEqual(toggled(picks, "c"), ["b"]);
});

test("no more than the maximum can be selected", () => {
  assert.deepEqual(toggled({ ...picks, max: 2 }, "a"), ["b", "c"]);
});

test("an update from the server keeps the selection, except methods that cannot run", () => {
  const fresh = { ...picks, chosen: null, methods: methods.map((m) => ({ ...m, unavailable: m.name === "c" ? "no heads" : null })) };
  assert.deepEqual(merged(picks, fresh).chosen, ["b"]);
  assert.deepEqual(merged(picks, { ...fresh, chosen: ["a", "d"] }).chosen, ["a", "d"]);
});

test("the count reports too few methods and the maximum", () => {
  assert.equal(countText({ ...picks, chosen: ["a"] }), "1: select 2 to 3");
  assert.equal(countText(picks), "2 of up to 3");
  assert.equal(countText({ ...picks, chosen: ["a", "b", "c"] }), "3, the maximum");
});

test("a number of methods that can run is announced, so that a message about it is closed", () => {
  const part = parts();
  globalThis.window = { innerWidth: 1280 };
  const told = [];
  on("corrected", (keys) => told.push(keys));
  const rows = methods.map((method) => ({ ...method, label: method.name, lossless: true }));
  const props = { value: JSON.stringify({ methods: rows, chosen: ["a"], min: 2, max: 3 }) };
  const element = { querySelector: (selector) => part(selector), querySelectorAll: () => [] };
  for (const name of ["list", "box"]) part(`[data-part="${name}"]`).querySelectorAll = () => [];
  mountPicker(element, props, () => {});
  assert.deepEqual(told, []);
  part('[data-part="list"]').listeners.change({ target: { value: "b" } });
  assert.deepEqual(told, [["notice.methods", "notice.few"]]);
});
