// Which race is on screen if several were asked for: the last one, whatever arrives later.

import assert from "node:assert/strict";
import test from "node:test";

import "./document.js";
import { emit } from "../../assets/page/core/events.js";
import { setFiles } from "../../assets/page/core/files.js";
import { emptyRace } from "../../assets/page/record/record.js";
import { createOpener } from "../../assets/page/shell/opener.js";

const RUN = "3fa9c1d23fa9c1d2";
const answers = new Map();

globalThis.document.baseURI = "http://localhost/";
globalThis.window = { caches: { match: async () => undefined }, addEventListener() {} };
globalThis.fetch = (address) => new Promise((resolve) => answers.set(address, (text) => resolve({ ok: true, status: 200, text: async () => text })));
setFiles({ races: [{ title: "First", file: "First.jsonl" }] });

const lines = (source, title, id = title, running = false) => [{ t: "race", id, source, title, runs: [] }, { t: "status", running }].map((event) => `${JSON.stringify(event)}\n`).join("");
const settled = () => new Promise((resolve) => setTimeout(resolve));
const state = { race: emptyRace(), tab: "draft" };
const player = { open: (race) => (state.race = race), show() {}, setRun() {} };
const opener = createOpener(state, player, () => {});
const props = { value: lines("file", "own.json") };
let changed = null; // called when the server sends another value
opener.listen(props, (_, listener) => (changed = listener));

// Asks for a race, then opens a file before the answer arrives.
async function overtaken(ask, address, answer) {
  ask();
  await settled();
  opener.show(lines("file", "newer.json"));
  answers.get(address)(answer);
  await settled();
}

test("a live race that is found after a file was opened is not shown", async () => {
  await overtaken(() => emit("openView", { run: RUN, again: true }), `http://localhost/races/${RUN}`, lines("run", "", RUN));
  assert.equal(state.race.title, "newer.json");
});

test("a recorded race that arrives after a file was opened is not shown", async () => {
  await overtaken(() => emit("raceChosen", "First"), "First.jsonl", lines("recorded", "First"));
  assert.equal(state.race.title, "newer.json");
});

test("a live race is not shown either if another link was opened before it was found", async () => {
  emit("openView", { run: RUN, again: true });
  await settled();
  emit("openView", { file: "own.json", again: true });
  answers.get(`http://localhost/races/${RUN}`)(lines("run", "", RUN));
  await settled();
  assert.equal(state.race.title, "own.json");
});

test("a live race that nothing has overtaken is shown", async () => {
  emit("openView", { run: RUN, again: true });
  await settled();
  answers.get(`http://localhost/races/${RUN}`)(lines("run", "", RUN));
  await settled();
  assert.equal(state.race.id, RUN);
});

test("a live race whose connection is lost is kept as a part", async () => {
  const parts = []; // whether each copy is marked as one
  const store = { put: async (_, { headers }) => parts.push(headers.has("x-aded-partial")), keys: async () => [] };
  window.caches.open = async () => store;
  props.value = lines("run", "", "77aa0b1c77aa0b1c", true);
  changed();
  assert.equal(state.race.running, true);
  emit("cut");
  await settled();
  assert.equal(state.race.running, false);
  assert.deepEqual(parts, [true, true]);
});
