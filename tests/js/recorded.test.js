// Recorded races: loaded when they are opened, and reported if they are missing.

import assert from "node:assert/strict";
import test from "node:test";

import { on } from "../../assets/page/core/events.js";
import { setFiles } from "../../assets/page/core/files.js";
import { createRecorded } from "../../assets/page/record/recorded.js";
import { tables } from "./words.js";

const classes = new Set();
globalThis.document = { body: { classList: { contains: (name) => classes.has(name) } } };
const answers = new Map();
const heard = [];
const shown = [];

globalThis.fetch = (file) => new Promise((resolve) => answers.set(file, (text) => resolve({ ok: text !== null, status: 404, text: async () => text })));
for (const name of ["loading", "linkErrors"]) on(name, (what) => heard.push(name === "loading" ? what : what[0][0]));
setFiles({ races: ["First", "Second"].map((title) => ({ title, file: `${title}.jsonl` })) });

const recorded = createRecorded((text) => shown.push(text));
const news = () => heard.splice(0);

test("the first race is opened unless another one is named", async () => {
  const first = recorded.open();
  assert.ok(recorded.loading());
  answers.get("First.jsonl")("one");
  await first;
  const second = recorded.open("Second");
  answers.get("Second.jsonl")("two");
  await second;
  assert.deepEqual(shown.splice(0), ["one", "two"]);
  assert.deepEqual(news(), ["First", null, "Second", null]);
});

test("a race that arrives after another one was opened is not shown", async () => {
  const late = recorded.open("First");
  const next = recorded.open("Second");
  answers.get("Second.jsonl")("two");
  await next;
  answers.get("First.jsonl")("one");
  await late;
  assert.deepEqual(shown.splice(0), ["two"]);
  const cancelled = recorded.open("First");
  recorded.cancel();
  answers.get("First.jsonl")("one");
  await cancelled;
  assert.deepEqual(shown, []);
  assert.deepEqual(news(), ["First", "Second", null, "First", null]);
});

test("a missing file and an unknown title are reported", async () => {
  const missing = recorded.open("First");
  answers.get("First.jsonl")(null);
  await missing;
  await recorded.open("Third");
  assert.ok(!recorded.loading());
  assert.deepEqual(shown, []);
  assert.deepEqual(news(), ["First", "link.missing", null, "link.race"]);
});

test("in an embedded panel, which has no bar, no message advises to choose another race there", async () => {
  classes.add("ax-embed");
  await recorded.open("Third");
  classes.clear();
  assert.deepEqual(news(), ["link.race.embed"]);
  for (const key of ["link.race.embed", "link.missing.embed"]) assert.doesNotMatch(tables.en[key], /\bbar\b/);
});

test("a page that contains its only race opens no other one", async () => {
  setFiles({ races: null });
  await recorded.open();
  await recorded.open("First");
  assert.deepEqual(news(), []);
});
