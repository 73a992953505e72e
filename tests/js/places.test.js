// Races that were on screen: what a link calls them, and which of them are still there.

import assert from "node:assert/strict";
import test from "node:test";

import { createPlaces, isPlace, placeOf } from "../../assets/js/places.js";

const recorded = (title) => ({ source: "recorded", title });
const file = (title) => ({ source: "file", title });
const run = { id: "3fa9c1d2", source: "run", title: "" };
const other = { id: "77aa0b1c", source: "run", title: "" };

test("a view that names a race is of this race alone, one that names none of any", () => {
  for (const shown of [recorded("a"), file("a"), run]) {
    assert.ok(isPlace({}, shown));
    assert.ok(isPlace(placeOf(shown), shown));
  }
  assert.ok(!isPlace({ race: "a" }, file("a")));
  assert.ok(!isPlace({ file: "a" }, file("b")));
  assert.ok(!isPlace({ run: "1" }, recorded("a")));
  assert.ok(!isPlace({ run: other.id }, run));
});

test("the last four races are kept, each once, with the newest text", () => {
  const places = createPlaces();
  for (const [race, text] of [[run, "first run"], [recorded("a"), "A"], [file("a"), "file"], [other, "second run"], [recorded("b"), "B"]]) places.keep(race, text);
  assert.equal(places.find({ run: other.id }), "second run");
  assert.equal(places.find({ run: run.id }), undefined);
  assert.equal(places.find({ race: "a" }), "A");
  places.keep(recorded("c"), "C");
  assert.equal(places.find({ race: "a" }), undefined);
  assert.equal(places.find({ file: "a" }), "file");
  assert.equal(places.find({}), undefined);
});
