// Exports: tables of the page, and pictures of what is completely on screen.

import assert from "node:assert/strict";
import test from "node:test";

import { registerExport, availableExports, pictureOf, tableOf } from "../../assets/page/export/exports.js";

const element = (display, rects, role = null) => ({ display, getClientRects: () => rects, getAttribute: () => role, parentElement: null });
const seen = element("block", [1]);
const hidden = element("none", []);
const inTab = { ...element("block", []), parentElement: element("none", [], "tabpanel") };
globalThis.getComputedStyle = ({ display }) => ({ display });
globalThis.document = { body: null };
const names = () => availableExports().map(({ name, picture, table }) => [name, picture, table]);

test("hidden, undrawn or empty exports are not available", () => {
  const table = () => [["head"], [1]];
  registerExport("both", { group: "race", title: "a", place: () => seen, picture: () => [hidden, seen], table });
  registerExport("hidden", { group: "race", title: "b", place: () => hidden, picture: () => [seen], table });
  registerExport("nowhere", { group: "race", title: "c", place: () => null, table });
  registerExport("undrawn", { group: "step", title: "d", place: () => seen, picture: () => [seen, null], table });
  registerExport("unseen", { group: "step", title: "e", place: () => seen, picture: () => [hidden] });
  registerExport("tab", { group: "step", title: "f", place: () => inTab, picture: () => [inTab], table });
  assert.deepEqual(names(), [["both", true, true], ["undrawn", false, true], ["tab", false, true]]);
  assert.deepEqual(tableOf("both"), [["head"], [1]]);
  assert.deepEqual(pictureOf("both"), { title: "a", parts: [hidden, seen] });
});

test("an export replaces an earlier one of the same name", () => {
  registerExport("both", { group: "race", title: "a", place: () => hidden, table: () => [] });
  assert.deepEqual(names(), [["undrawn", false, true], ["tab", false, true]]);
});
