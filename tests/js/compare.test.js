// Two runs side by side, and a drafter's memory over several.

import assert from "node:assert/strict";
import test from "node:test";

import { changes, changesSentence, stoppedSentence, summary } from "../../assets/js/compare.js";
import { laneName } from "../../assets/js/record.js";
import { successiveSentence, taken } from "../../assets/js/successive.js";
import { setLanguage } from "../../assets/js/words.js";
import "./words.js";

const near = (who, total_variation) => ({ who, total_variation, top_1: 0.25, top_4: 0.5, top_12: 0.75 });
const step = (count, tv) => ({
  emitted: Array(count).fill(1),
  seconds: { draft: 0, verify: 1, commit: 0, update: 0 },
  agreement: tv === undefined ? [] : [near("base", 0.8), near("session", tv)],
});
const lane = (method, label, own, counts, more = {}) => ({
  label,
  header: { method, label, prompt: more.prompt || "p", settings: { temperature: more.temperature || 0 }, method_settings: own },
  steps: counts.map((n) => step(n, more.tv)),
  ends: counts.map((_, i) => i + 1),
  counts: counts.map((_, i) => counts.slice(0, i + 1).reduce((a, b) => a + b)),
  remembers: more.remembers ?? null,
  taught: more.taught ?? true,
});
const race = (own, more = {}) => ({ kept: more.kept ?? {}, lanes: [lane("plain", "Plain", {}, [1, 1], more), lane("aded", "ADED", own, [2, 4], more)] });

test("a summary has each lane's speed against plain decoding", () => {
  const { lanes } = summary(race({ c1: 1 }));
  assert.deepEqual(lanes.map((one) => [one.label, one.perPass, one.ratio]), [["Plain", 1, 1], ["ADED", 3, 3]]);
});

test("what was set otherwise is named, and nothing else", () => {
  const [before, now] = [summary(race({ c1: 1, depth: 4 })), summary(race({ c1: 2, depth: 4 }, { temperature: 0.5 }))];
  assert.deepEqual(changes(before, now), [
    { label: null, name: "temperature", before: "0", after: "0.5" },
    { label: "ADED", name: "c1", before: "1", after: "2" },
  ]);
  assert.match(changesSentence(before, now), /Temperature 0 → 0.5; ADED: c₁ \(prior\) 1 → 2/);
  assert.match(changesSentence(before, { ...now, lanes: now.lanes.slice(1) }), /other lanes/);
  assert.match(changesSentence(now, now), /Nothing was changed/);
  assert.match(changesSentence(before, summary(race({ c1: 1, depth: 4 }, { prompt: "q" }))), /another prompt/);
});

test("a run that was stopped midway is said to be so", () => {
  const whole = race({ c1: 1 });
  const cut = { ...whole, lanes: whole.lanes.map((one, i) => ({ ...one, finish_reason: i ? "cancelled" : "length" })) };
  const said = (one, other) => stoppedSentence(summary(one), summary(other));
  assert.equal(said(whole, whole), "");
  assert.match(said(whole, cut), /^This run was stopped/);
  assert.match(said(cut, whole), /^The run before was stopped/);
  assert.match(said(cut, cut), /^Both runs were stopped/);
  assert.doesNotMatch(changesSentence(summary(whole), summary(cut)), /noise/);
});

test("settings go by their labels and values by words, in the reader's language", () => {
  const before = summary(race({ search: "mcts", feedback: true, simulations: 0, base_matrix: true, other_thing: 1 }));
  const now = summary(race({ search: "best-first", feedback: false, simulations: 12, base_matrix: false, other_thing: 2 }));
  const said = changesSentence(before, now);
  for (const part of ["Search MCTS → best-first", "Feedback yes → no", "Simulations automatic → 12", "Base matrix yes → no", "other thing 1 → 2"]) assert.ok(said.includes(part), said);
  setLanguage("zh");
  assert.match(changesSentence(before, now), /反馈 是 → 否/);
  setLanguage("en");
});

test("a series grows with what a drafter remembers and begins again when it has forgotten", () => {
  const run = (remembers, tv, more = {}) => race({ keep: true }, { remembers, tv, kept: { plain: remembers + 1 }, ...more });
  const series = [run(0, 0.6), run(1, 0.5), run(2, 0.4)].reduce(taken, []);
  assert.deepEqual(series.map((row) => row.session.total_variation), [0.6, 0.5, 0.4]);
  assert.deepEqual(series[0].base, { total_variation: 0.8, top_1: 0.25, top_4: 0.5, top_12: 0.75 });
  assert.match(successiveSentence(series), /3 prompts.*at 0.400.*0.400 nearer.*\(0.800\).*first prompt it was 0.200 nearer/);
  const again = taken(series, run(0, 0.7));
  assert.equal(again.length, 1);
  assert.match(successiveSentence(again), /one prompt.*before that is forgotten\.$/);
  assert.doesNotMatch(successiveSentence(taken([], run(0, 0.7))), /forgotten/);
});

test("a series stands as long as what was learned is kept, and a prompt that taught nothing adds no row", () => {
  const series = taken([], race({ keep: true }, { remembers: 0, tv: 0.6, kept: { plain: 1 } }));
  const without = (kept) => race({}, { kept });
  assert.equal(taken(series, without({ plain: 1 })), series);
  assert.deepEqual(taken(series, without({})), []);
  const stopped = { remembers: 1, tv: 0.6, taught: false };
  assert.equal(taken(series, race({ keep: true }, { ...stopped, kept: { plain: 1 } })), series);
  assert.deepEqual(taken(series, race({ keep: true }, { ...stopped, remembers: 0 })), []);
});

test("lanes of one method have names of their own", () => {
  const { lanes } = { lanes: [lane("plain", "P", {}, [1]), lane("aded", "A", {}, [1]), lane("aded", "B", {}, [1])] };
  assert.deepEqual(lanes.map((_, i) => laneName(lanes, i)), ["plain", "aded", "aded~2"]);
});
