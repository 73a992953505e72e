// Races that were on screen: their names in links, and which are still kept.

import assert from "node:assert/strict";
import test from "node:test";

import { createRaceHistory, isRace, raceIdOf } from "../../assets/page/record/racehistory.js";

const recorded = (title) => ({ source: "recorded", title });
const file = (title) => ({ source: "file", title });
const run = { id: "3fa9c1d23fa9c1d2", source: "run", title: "" };
const other = { id: "77aa0b1c77aa0b1c", source: "run", title: "" };

test("a view that names a race matches only that race; one without a name matches any", () => {
  for (const shown of [recorded("a"), file("a"), run]) {
    assert.ok(isRace({}, shown));
    assert.ok(isRace(raceIdOf(shown), shown));
  }
  assert.ok(!isRace({ race: "a" }, file("a")));
  assert.ok(!isRace({ file: "a" }, file("b")));
  assert.ok(!isRace({ run: "1" }, recorded("a")));
  assert.ok(!isRace({ run: other.id }, run));
});

test("the last four races are kept, each once, with their latest text", () => {
  const history = createRaceHistory();
  for (const [race, text] of [[run, "first run"], [recorded("a"), "A"], [file("a"), "file"], [other, "second run"], [recorded("b"), "B"]]) history.keep(race, text);
  assert.equal(history.find({ run: other.id }), "second run");
  assert.equal(history.find({ run: run.id }), undefined);
  assert.equal(history.find({ race: "a" }), "A");
  history.keep(recorded("c"), "C");
  assert.equal(history.find({ race: "a" }), undefined);
  assert.equal(history.find({ file: "a" }), "file");
  assert.equal(history.find({}), undefined);
});
