// Saved races that are opened in the browser: what is refused, and why.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { emit } from "../../assets/page/core/events.js";
import { createOpening, read } from "../../assets/page/shell/openfile.js";
import { emptyRace, readLines, toFile } from "../../assets/page/record/record.js";
import { setFormat } from "../../assets/page/record/traceformat.js";
import { formatOfPython } from "./pythonformat.js";
import { parts } from "./document.js";
import { tables } from "./words.js";

setFormat(formatOfPython());
const BUNDLED = new URL("../../assets/traces/08-the-published-search.json", import.meta.url);
const bundled = () => JSON.parse(readFileSync(BUNDLED, "utf-8"));

// The messages about a file, and the lines of its race, if it is shown.
async function opened(content, name = "race.json") {
  let lines = null;
  const part = typeof content === "string" || content instanceof Uint8Array ? content : JSON.stringify(content);
  const messages = await read(new File([part], name), (text) => (lines = text));
  assert.ok(messages.every(([key]) => key in tables.en && key in tables.zh));
  assert.equal(lines === null, messages.length > 0);
  return { lines, kinds: messages.map(([key]) => key), messages };
}

// The bundled race with a change.
function changed(change) {
  const race = bundled();
  change(race, race.lanes[0], race.lanes[1].steps.find((step) => step.path.length > 2));
  return race;
}

test("a saved race is shown, and saved again it is the same race", async () => {
  const { lines } = await opened(bundled());
  const race = readLines(emptyRace(), lines);
  assert.equal(race.source, "file");
  assert.equal(race.title, "race.json");
  assert.equal(race.running, false);
  const again = await opened(toFile(race));
  const [, ...events] = lines.split("\n");
  assert.deepEqual(again.lines.split("\n").slice(1), events);
  assert.notEqual(readLines(emptyRace(), again.lines).id, race.id);
});

test("a single trace is a race with one run", async () => {
  const { lines } = await opened({ format: "aded-trace", version: 4, ...bundled().lanes[1] });
  assert.equal(readLines(emptyRace(), lines).runs.length, 1);
});

test("a race of an older version lacks fields, which are empty", async () => {
  const race = changed((file) => {
    file.version = 1;
    for (const run of file.lanes) {
      delete run.header.cost;
      for (const step of run.steps) {
        for (const name of ["size", "rows", "simulations", "agreement"]) delete step[name];
        for (const choice of step.choices) for (const name of ["rejection", "typical", "draw"]) delete choice[name];
      }
    }
  });
  const { runs } = readLines(emptyRace(), (await opened(race)).lines);
  const { size, rows, choices } = runs[1].steps[0];
  assert.deepEqual([size, rows, choices[0].rejection, runs[0].header.cost], [null, [], null, null]);
});

for (const [what, content, name, kinds] of [
  ["that is not JSON", "{", "race.json", ["file.syntax", "file.remedy"]],
  ["that is empty", "", "race.json", ["file.syntax", "file.remedy"]],
  ["that is not UTF-8", Uint8Array.of(0x22, 0xff, 0x22), "race.json", ["file.syntax", "file.remedy"]],
  ["with another name", "{}", "race.txt", ["file.kind", "file.remedy"]],
  ["that is too large", new Uint8Array((16 << 20) + 1), "RACE.JSON", ["file.large"]],
  ["of another kind", "[1, 2]", "race.json", ["file.foreign", "file.remedy"]],
  ["of null", "null", "race.json", ["file.foreign", "file.remedy"]],
  ["of a format that is the name of a method", { format: "constructor", version: 4 }, "race.json", ["file.foreign", "file.remedy"]],
  ["of a later version", { format: "aded-race", version: 99, lanes: [] }, "race.json", ["file.version", "file.remedy"]],
]) {
  test(`a file ${what} is refused`, async () => {
    const { kinds: found, messages } = await opened(content, name);
    assert.deepEqual(found, kinds);
    assert.ok(messages.every(([, values]) => !("name" in values) || values.name === name));
  });
}

for (const [where, change] of [
  ["race.lanes", (file) => (file.lanes = [])],
  ["race.lanes", (file) => (file.lanes = {})],
  ["race.lanes", (file) => delete file.lanes],
  ["race.x", (file) => (file.x = 1)],
  ["race.lanes[0]", (file) => (file.lanes[0] = "x")],
  ["race.lanes[0].header", (_, run) => delete run.header],
  ["race.lanes[0].header.seed", (_, run) => (run.header.seed = true)],
  ["race.lanes[0].header.seed", (_, run) => (run.header.seed = 1.5)],
  ["race.lanes[0].header.label", (_, run) => (run.header.label = "\ud800")],
  ["race.lanes[0].header.constructor", (_, run) => (run.header.constructor = 1)],
  ["race.lanes[0].header.versions.aded", (_, run) => (run.header.versions.aded = 1)],
  ["race.lanes[0].header.versions", (_, run) => (run.header.versions = Object.fromEntries(Array.from({ length: 1001 }, (_, i) => [`x${i}`, ""])))],
  ["race.lanes[0].header.settings", (_, run) => (run.header.settings.a = [[[[[[[[[[]]]]]]]]]])],
  ["race.lanes[0].finish_reason", (_, run) => (run.finish_reason = "bored")],
  ["race.lanes[0]", (_, run) => run.token_ids.push(1)],
  ["race.lanes[0].prefill_seconds", (_, run) => (run.prefill_seconds = -1)],
  ["race.lanes[0].steps[0].seconds.draft", (_, run) => (run.steps[0].seconds.draft = 1e7)],
  ["race.lanes[0].steps[0].tree.probability[0]", (_, run) => (run.steps[0].tree.probability[0] = "x")],
  ["race.lanes[0].steps[0].tree", (_, run) => (run.steps[0].tree.parents[0] = 0)],
  ["race.lanes[0].steps[0].tree", (_, run) => (run.steps[0].tree.columns.visits = [1, 2, 3, 4])],
  ["race.lanes[0].steps[0].tree.columns.prior[0]", (_, run) => (run.steps[0].tree.columns.prior = ["x"])],
]) {
  test(`a damaged file is refused with the place ${where}: ${String(change).slice(0, 60)}`, async () => {
    const { messages } = await opened(changed(change));
    assert.deepEqual(messages.map(([key]) => key), ["file.damaged", "file.where", "file.remedy"]);
    assert.equal(messages[1][1].where, where);
  });
}

for (const change of [
  (step) => (step.path = []),
  (step) => (step.path = [0, 2, 1]),
  (step) => Object.assign(step, { emitted: [], texts: [], origins: [] }),
  (step) => step.origins.pop(),
  (step) => (step.choices[0].node = 999),
  (step) => (step.choices[0].probability = 1.5),
  (step) => step.choices[0].top_texts.pop(),
  (step) => (step.choices[0].typical = { entropy: 1, threshold: 0.1, trials: [{ node: 1, p: 2, typical: true }] }),
  (step) => (step.choices[0].rejection = { trials: [], tokens: [1], texts: [], residual: [], residual_probability: null }),
  (step) => (step.rows = [{ key: [1], key_texts: ["a"], tokens: [], texts: [], before: [], after: [], learned: [] }]),
  (step) => (step.rows = [{ key: [1, 2], key_texts: ["a", "b"], tokens: [1], texts: ["x"], before: [0.1], after: [1e308], learned: [] }]),
  (step) => (step.agreement = [{ who: "base", unseen: false, total_variation: 1e9, top_1: 0, top_4: 0, top_12: 0 }]),
]) {
  test(`a step that cannot be drawn is refused: ${String(change).slice(8, 70)}`, async () => {
    const { kinds, messages } = await opened(changed((...[, , step]) => change(step)));
    assert.equal(kinds[0], "file.damaged");
    assert.match(messages[1][1].where, /^race\.lanes\[1\]\.steps\[\d+\]/);
  });
}

for (const [where, change] of [
  ["race.lanes[0].prefill_seconds", (_, run) => (run.prefill_seconds = "huge")],
  ["race.lanes[0].header.settings", (_, run) => (run.header.settings.a = ["huge"])],
]) {
  test(`a number at ${where} that is not finite is refused`, async () => {
    const { messages } = await opened(JSON.stringify(changed(change)).replace('"huge"', "1e999"));
    assert.equal(messages[1]?.[1].where, where);
  });
}

test("a file that cannot be read is reported", async () => {
  const file = { name: "race.json", size: 1, arrayBuffer: () => Promise.reject(new Error("gone")) };
  assert.equal((await read(file, assert.fail))[0][0], "file.missing");
});

test("a long chain in a tree is laid out in time, and what is deeply nested is refused", async () => {
  const count = 200_000;
  const race = changed((_, run) => {
    const list = (make) => Array.from({ length: count }, (_, i) => make(i));
    const { tree } = run.steps[0];
    Object.assign(tree, { tokens: list(() => 1), parents: list((i) => i - 1), texts: list(() => ""), columns: {}, probability: list(() => null), rank: list(() => null), verdict: list((i) => (i ? "unreached" : "root")), reason: list((i) => (i ? "parent not accepted" : "root")) });
  });
  const { runs } = readLines(emptyRace(), (await opened(race)).lines);
  assert.equal(runs[0].layouts[0].nodes.length + runs[0].layouts[0].hidden, count);
  assert.deepEqual((await opened("[".repeat(1e6) + "]".repeat(1e6))).kinds[0], "file.foreign");
});

test("a file that is opened during a race is refused until another race is shown, also if the page is told of this race late", async () => {
  const state = { race: { id: "live", running: true } };
  const part = parts();
  const made = [];
  part("open").after = (input) => made.push(input);
  part("race-head").after = (error) => made.push(error);
  createOpening(part, state, () => assert.fail("no race is opened"));
  const [input, error] = made;
  part("save-menu").open = true;
  input.files = [new File(["{}"], "race.json")];
  await input.listeners.change();
  assert.equal(part("save-menu").open, false, "the menu does not cover the message");
  assert.match(error.textContent, /A race is running/);
  emit("shown", { race: state.race });
  assert.match(error.textContent, /A race is running/);
  emit("shown", { race: { id: "other" } });
  assert.equal(error.textContent, "");
});

// The input of a new button that opens files, the element of its messages, the titles of the races that were opened, and a file whose bytes
// arrive when `arrive` is called.
function chooser(state) {
  const part = parts();
  const made = [];
  const titles = [];
  part("open").after = (input) => made.push(input);
  part("race-head").after = (error) => made.push(error);
  createOpening(part, state, (lines) => titles.push(readLines(emptyRace(), lines).title));
  const bytes = new TextEncoder().encode(JSON.stringify(bundled()));
  const file = { name: "slow.json", size: 1 };
  file.arrayBuffer = () => new Promise((resolve) => (file.arrive = () => resolve(bytes)));
  const choose = (one) => {
    made[0].files = [one];
    return made[0].listeners.change();
  };
  return { choose, error: made[1], titles, file, bytes };
}

test("of several files the last one is opened, also if another one is read later", async () => {
  const { choose, titles, file, bytes } = chooser({ race: emptyRace() });
  const late = choose(file);
  await choose({ name: "quick.json", size: 1, arrayBuffer: async () => bytes });
  file.arrive();
  await late;
  assert.deepEqual(titles, ["quick.json"]);
});

test("a file is refused if a race has started while it was read", async () => {
  const state = { race: emptyRace() };
  const { choose, error, titles, file } = chooser(state);
  const late = choose(file);
  state.race = { id: "live", running: true };
  file.arrive();
  await late;
  assert.deepEqual(titles, []);
  assert.match(error.textContent, /A race is running/);
});
