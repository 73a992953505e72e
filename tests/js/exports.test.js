// Exports: only what is completely on screen can be saved.

import assert from "node:assert/strict";
import test from "node:test";

import { registerExport, availableExports, pictureOf, tableOf } from "../../assets/js/exports.js";

const seen = { getClientRects: () => [1] };
const hidden = { getClientRects: () => [] };
const names = () => availableExports().map(({ name, picture, table }) => [name, picture, table]);

test("hidden, undrawn or empty exports are not available", () => {
  const table = () => [["head"], [1]];
  registerExport("both", { group: "race", title: "a", place: () => seen, picture: () => [hidden, seen], table });
  registerExport("hidden", { group: "race", title: "b", place: () => hidden, picture: () => [seen], table });
  registerExport("nowhere", { group: "race", title: "c", place: () => null, table });
  registerExport("undrawn", { group: "step", title: "d", place: () => seen, picture: () => [seen, null], table });
  registerExport("unseen", { group: "step", title: "e", place: () => seen, picture: () => [hidden] });
  assert.deepEqual(names(), [["both", true, true], ["undrawn", false, true]]);
  assert.deepEqual(tableOf("both"), [["head"], [1]]);
  assert.deepEqual(pictureOf("both"), { title: "a", parts: [hidden, seen] });
});

test("an export replaces an earlier one of the same name", () => {
  registerExport("both", { group: "race", title: "a", place: () => hidden, table: () => [] });
  assert.deepEqual(names(), [["undrawn", false, true]]);
});
