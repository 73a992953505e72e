// Races that were on screen: their names in links, and which are still kept.

import assert from "node:assert/strict";
import test from "node:test";

import "./document.js";
import { createKeeper, createRaceHistory, findRace, isRace, raceIdOf } from "../../assets/page/record/racehistory.js";

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

test("a race is kept now and then while it runs, and as a whole when it has ended", async () => {
  const kept = [];
  let now = 0;
  const { copy } = createKeeper(async (id, lines, partial) => kept.push([id, lines, partial]), () => now);
  const settled = () => new Promise((resolve) => setTimeout(resolve));
  const at = async (seconds, race, lines) => {
    now = 1000 * seconds;
    copy(race, lines);
    await settled();
  };
  const [running, ended] = [true, false].map((on) => ({ id: run.id, running: on }));
  await at(0, running, "one");
  await at(1, running, "two"); // too early
  await at(3, running, "three");
  await at(4, ended, "all");
  await at(4.1, { id: other.id, running: true }, "another");
  await at(8, { id: other.id, running: true }, "x".repeat(5e6)); // a long one is kept less often
  assert.deepEqual(kept, [[run.id, "one", true], [run.id, "three", true], [run.id, "all", false], [other.id, "another", true]]);
});

const LINES = ['{"t":"race","id":"3fa9c1d23fa9c1d2","runs":[{},{}]}', '{"t":"step","run":0}', '{"t":"step","run":1}', '{"t":"step","run":0}', '{"t":"status","running":true}', ""].join("\n");

test("a race that had not ended is found as a part of it, unless the server has all of it", async () => {
  const stored = new Map();
  const answer = { status: 204, text: "" };
  globalThis.document.baseURI = "http://localhost/";
  const ofTab = new Map();
  globalThis.window = { sessionStorage: { getItem: (name) => ofTab.get(name) ?? null, setItem: (name, value) => ofTab.set(name, value) }, caches: { match: async (address) => stored.get(address)?.clone(), open: async () => ({ put: async (address, response) => stored.set(address, response.clone()), keys: async () => [...stored.keys()], delete: async (key) => stored.delete(key) }) } };
  globalThis.fetch = async () => ({ status: answer.status, text: async () => answer.text });
  createKeeper().copy({ id: run.id, running: true }, LINES);
  await new Promise((resolve) => setTimeout(resolve));
  const found = await findRace(run.id);
  assert.equal(found.partial, 3);
  assert.match(found.lines, /"run":1,.*"finish_reason":"cancelled".*\n\{"t":"status","running":false\}\n$/);
  createKeeper().copy({ id: run.id, running: true }, LINES);
  await new Promise((resolve) => setTimeout(resolve));
  Object.assign(answer, { status: 200, text: "whole" });
  assert.deepEqual(await findRace(run.id), { lines: "whole", partial: null });
  assert.equal(await findRace("1"), null);
});

test("a race that is left while it runs has all steps that had arrived, also those after its last copy", async () => {
  globalThis.fetch = async () => ({ status: 204 });
  const late = `${LINES}{"t":"step","run":0}\n`;
  const { copy, leave } = createKeeper();
  copy({ id: other.id, running: true }, LINES);
  await new Promise((resolve) => setTimeout(resolve));
  leave({ id: other.id, running: true }, late);
  assert.equal((await findRace(other.id)).partial, 4);
  assert.equal((await findRace(run.id)).partial, 3, "the steps of another race are not added");
  createKeeper().leave({ id: "aa", running: false }, late);
  const unseen = "0123456789abcdef";
  createKeeper().leave({ id: unseen, running: true }, late); // before any copy was written
  assert.equal((await findRace(unseen)).partial, 4);
  globalThis.fetch = async () => ({ status: 200, text: async () => `${LINES}{"t":"run","run":0,"finish_reason":"cancelled"}\n` });
  assert.equal((await findRace(unseen)).partial, 4, "the server has fewer steps");
});
