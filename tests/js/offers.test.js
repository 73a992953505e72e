// What can be saved at the moment: what is on screen, whole, and nothing else.

import assert from "node:assert/strict";
import test from "node:test";

import { offer, offered, pictureOf, tableOf } from "../../assets/js/offers.js";

const seen = { getClientRects: () => [1] };
const hidden = { getClientRects: () => [] };
const names = () => offered().map(({ name, picture, table }) => [name, picture, table]);

test("what is hidden, not drawn yet or empty is not offered", () => {
  const table = () => [["head"], [1]];
  offer("both", { group: "race", title: "a", place: () => seen, picture: () => [hidden, seen], table });
  offer("hidden", { group: "race", title: "b", place: () => hidden, picture: () => [seen], table });
  offer("nowhere", { group: "race", title: "c", place: () => null, table });
  offer("undrawn", { group: "step", title: "d", place: () => seen, picture: () => [seen, null], table });
  offer("unseen", { group: "step", title: "e", place: () => seen, picture: () => [hidden] });
  assert.deepEqual(names(), [["both", true, true], ["undrawn", false, true]]);
  assert.deepEqual(tableOf("both"), [["head"], [1]]);
  assert.deepEqual(pictureOf("both"), { title: "a", parts: [hidden, seen] });
});

test("an offer under the same name takes the place of the one before", () => {
  offer("both", { group: "race", title: "a", place: () => hidden, table: () => [] });
  assert.deepEqual(names(), [["undrawn", false, true]]);
});
