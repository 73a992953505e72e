// The record on the page: statistics, decode times and the saved file.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { PARTS, cumulativeProbability, emptyRace, runStats, possible, rankOf, readLines, stepsDone, stoppedLines, toFile, speedSpread } from "../../assets/page/record/record.js";
import { perToken, sharesText } from "../../assets/cards/timing/times.js";
import "./words.js";

const seconds = { draft: 0.1, verify: 0.6, commit: 0.1, update: 0.2 };
const step = (emitted) => ({ emitted, seconds, tree: { tokens: [0], columns: {} } });
const line = (event) => `${JSON.stringify(event)}\n`;
const head = line({ t: "race", id: 7, source: "run", title: "", runs: ["plain", "aded"].map((method) => ({ header: { method, label: method } })) });
const first = head + line({ t: "step", run: 1, step: step([5, 6]), layout: {} });

test("a growing string is parsed once, a new race starts from the beginning", () => {
  const race = readLines(emptyRace(), first);
  assert.equal(readLines(race, first + line({ t: "step", run: 1, step: step([7]), layout: {} })), race);
  assert.deepEqual(race.runs[1].counts, [2, 3]);
  assert.notEqual(readLines(race, head.replace('"id":7', '"id":8')), race);
});

test("the statistics of a run are sums over its finished steps", () => {
  const run = readLines(emptyRace(), first + line({ t: "step", run: 1, step: step([7]), layout: {} })).runs[1];
  const now = runStats(run, 2);
  assert.equal(now.tokens, 3);
  assert.equal(now.perStep, 1.5);
  for (const part of PARTS) assert.ok(Math.abs(now[part] - 2 * seconds[part]) < 1e-12);
  assert.equal(stepsDone(run, 1), 1);
  assert.equal(stepsDone(run, 0.99), 0);
});

test("the parts of a token's time add up to its time", () => {
  const run = readLines(emptyRace(), first).runs[1];
  const cost = perToken(runStats(run, 1));
  assert.ok(Math.abs(cost.total - 0.5) < 1e-12);
  assert.equal(sharesText(cost), "draft 10 · verify 60 · KV-cache compaction 10 · update 20 %");
  assert.equal(sharesText(perToken(runStats(run, 0))), "");
  assert.equal(sharesText(perToken(runStats(run, 1), true)), "verify 60 · host (decoding loop) 40 %"); // plain decoding drafts and updates nothing
});

test("runs keep their order in the file", () => {
  const { runs } = readLines(emptyRace(), first);
  assert.equal(JSON.parse(toFile({ runs })).lanes[0].header.method, "plain");
});

test("a race is saved in the version of aded/core/trace.py, with the measured costs", () => {
  const cost = { sizes: [1, 2], contexts: [8], seconds: [[0.1, 0.2]], padded: true };
  const written = readFileSync(new URL("../../aded/core/trace.py", import.meta.url), "utf-8");
  const race = readLines(emptyRace(), line({ t: "race", id: 9, source: "run", title: "", runs: [{ header: { method: "plain", label: "Plain", cost } }] }));
  const saved = JSON.parse(toFile(race));
  assert.equal(saved.version, Number(/^VERSION = (\d+)$/m.exec(written)[1]));
  assert.equal(saved.lanes[0].version, saved.version);
  assert.deepEqual(saved.lanes[0].header.cost, cost);
});

test("a long label is cut on the page and complete in the file", () => {
  const label = "W".repeat(2000);
  const race = readLines(emptyRace(), line({ t: "race", id: 9, source: "file", title: "", runs: [{ header: { method: "plain", label } }] }));
  assert.equal(race.runs[0].label.length, 60);
  assert.equal(JSON.parse(toFile(race)).lanes[0].header.label, label);
});

test("steps shorter than the clock resolution count as zero", () => {
  const none = { draft: 5e-324, verify: 5e-324, commit: 0, update: 0 };
  const race = readLines(emptyRace(), head + line({ t: "step", run: 0, step: { ...step([5]), seconds: none }, layout: {} }));
  assert.deepEqual(race.runs[0].ends, [0]);
  assert.equal(runStats(race.runs[0], 1).rate, 0);
});

test("a race that is saved while it runs ends there: runs that had not ended are cancelled", () => {
  const ended = line({ t: "run", run: 0, prefill_seconds: 1, text: "a", finish_reason: "eos" });
  const race = readLines(emptyRace(), stoppedLines(`${first}${ended}${line({ t: "status", running: true })}{"t":"st`));
  assert.equal(race.running, false);
  assert.deepEqual(race.runs.map((run) => run.finish_reason), ["eos", "cancelled"]);
  assert.deepEqual(race.runs[1].counts, [2]);
  assert.equal(stoppedLines(""), '{"t":"status","running":false}\n');
});

test("a token with probability 0 is no candidate and has no rank", () => {
  const choice = { top_tokens: [4, 7, 0], top_texts: ["a", "b", "c"], top_probabilities: [0.9, 0.1, 0] };
  assert.deepEqual(possible(choice), [{ token: 4, text: "a", p: 0.9 }, { token: 7, text: "b", p: 0.1 }]);
  const tree = { probability: [null, 0, 0.2], rank: [null, 11, 2] };
  assert.deepEqual([0, 1, 2].map((node) => rankOf(tree, node)), [null, null, 2]);
});

test("the cumulative draft probability is the product along the path", () => {
  const tree = { tokens: [1, 2, 3, 4], parents: [-1, 0, 1, 0], columns: { prior: [null, 0.5, 0.25, null] } };
  assert.deepEqual([0, 1, 2, 3].map((node) => cumulativeProbability(tree, node)), [null, 0.5, 0.125, null]);
  assert.equal(cumulativeProbability({ ...tree, columns: {} }, 2), null);
});

test("the range of a speed-up contains that of the run on screen", () => {
  const timed = (seconds, repeats) => ({ ends: [seconds / 2, seconds], counts: [5, 10], repeats });
  assert.deepEqual(speedSpread(timed(2, [2, 4]), timed(4, [3, 4])), [1, 1.5, 2]);
  assert.deepEqual(speedSpread(timed(1, [2]), timed(4, [4])), [2, 3, 4]);
  assert.equal(speedSpread(timed(2, []), timed(4, [])), null);
});
