// Comparison of two races, and a drafter's learning over several.

import assert from "node:assert/strict";
import test from "node:test";

import { changes, changesSentence, stoppedSentence, summary } from "../../assets/cards/compare/card.js";
import { runName } from "../../assets/page/record/record.js";
import { emit } from "../../assets/page/core/events.js";
import { extended, mount, promptSeriesSentence } from "../../assets/cards/series/card.js";
import { parts } from "./document.js";
import { speak } from "./words.js";

const near = (who, total_variation) => ({ who, total_variation, top_1: 0.25, top_4: 0.5, top_12: 0.75 });
const step = (count, tv) => ({
  emitted: Array(count).fill(1),
  seconds: { draft: 0, verify: 1, commit: 0, update: 0 },
  agreement: tv === undefined ? [] : [near("base", 0.8), near("session", tv)],
});
const run = (method, label, methodSettings, counts, more = {}) => ({
  label,
  header: { method, label, prompt: more.prompt || "p", settings: { temperature: more.temperature || 0 }, method_settings: methodSettings },
  steps: counts.map((n) => step(n, more.tv)),
  ends: counts.map((_, i) => i + 1),
  counts: counts.map((_, i) => counts.slice(0, i + 1).reduce((a, b) => a + b)),
  earlierPrompts: more.earlierPrompts ?? null,
  kept: more.kept ?? true,
});
const race = (methodSettings, more = {}) => ({ keptPrompts: more.keptPrompts ?? {}, runs: [run("plain", "Plain", {}, [1, 1], more), run("aded", "ADED", methodSettings, [2, 4], more)] });

test("a summary has each run's speed-up over plain decoding", () => {
  const { runs } = summary(race({ c1: 1 }));
  assert.deepEqual(runs.map((one) => [one.label, one.perStep, one.ratio]), [["Plain", 1, 1], ["ADED", 3, 3]]);
});

test("changed settings are named, and no others", () => {
  const [before, now] = [summary(race({ c1: 1, depth: 4 })), summary(race({ c1: 2, depth: 4 }, { temperature: 0.5 }))];
  assert.deepEqual(changes(before, now), [
    { label: null, name: "temperature", before: "0", after: "0.5" },
    { label: "ADED", name: "c1", before: "1", after: "2" },
  ]);
  assert.match(changesSentence(before, now), /Temperature 0 → 0.5; ADED: c₁ \(prior\) 1 → 2/);
  assert.match(changesSentence(before, { ...now, runs: now.runs.slice(1) }), /other methods/);
  assert.match(changesSentence(now, now), /Nothing was changed/);
  assert.match(changesSentence(before, summary(race({ c1: 1, depth: 4 }, { prompt: "q" }))), /another prompt/);
});

test("a race that was stopped early is reported", () => {
  const whole = race({ c1: 1 });
  const cut = { ...whole, runs: whole.runs.map((one, i) => ({ ...one, finish_reason: i ? "cancelled" : "length" })) };
  const said = (one, other) => stoppedSentence(summary(one), summary(other));
  assert.equal(said(whole, whole), "");
  assert.match(said(whole, cut), /^This race was stopped/);
  assert.match(said(cut, whole), /^The race before was stopped/);
  assert.match(said(cut, cut), /^Both races were stopped/);
  assert.doesNotMatch(changesSentence(summary(whole), summary(cut)), /noise/);
});

test("settings and values are shown by their labels, in the user's language", () => {
  const before = summary(race({ search: "mcts", feedback: true, simulations: 0, base_matrix: true, other_thing: 1 }));
  const now = summary(race({ search: "best-first", feedback: false, simulations: 12, base_matrix: false, other_thing: 2 }));
  const said = changesSentence(before, now);
  for (const part of ["Search MCTS → best-first", "Feedback yes → no", "Simulations automatic → 12", "Base matrix yes → no", "other thing 1 → 2"]) assert.ok(said.includes(part), said);
  speak("zh");
  assert.match(changesSentence(before, now), /反馈 是 → 否/);
  speak("en");
});

test("a series grows with each prompt, and starts again when the drafter has forgotten", () => {
  const run = (earlierPrompts, tv, more = {}) => race({ keep: true }, { earlierPrompts, tv, keptPrompts: { plain: earlierPrompts + 1 }, ...more });
  const series = [run(0, 0.6), run(1, 0.5), run(2, 0.4)].reduce(extended, []);
  assert.deepEqual(series.map((row) => row.session.total_variation), [0.6, 0.5, 0.4]);
  assert.deepEqual(series[0].base, { total_variation: 0.8, top_1: 0.25, top_4: 0.5, top_12: 0.75 });
  assert.match(promptSeriesSentence(series), /3 prompts.*was 0.400.*0.400 smaller.*\(0.800\).*first prompt it was 0.200 smaller/);
  const again = extended(series, run(0, 0.7));
  assert.equal(again.length, 1);
  assert.match(promptSeriesSentence(again), /one prompt.*before was deleted\.$/);
  assert.doesNotMatch(promptSeriesSentence(extended([], run(0, 0.7))), /deleted/);
});

test("a series lasts as long as the server keeps what was learned, and a prompt whose counts were not kept adds no row", () => {
  const series = extended([], race({ keep: true }, { earlierPrompts: 0, tv: 0.6, keptPrompts: { plain: 1 } }));
  const without = (keptPrompts) => race({}, { keptPrompts });
  assert.equal(extended(series, without({ plain: 1 })), series);
  assert.deepEqual(extended(series, without({})), []);
  const stopped = { earlierPrompts: 1, tv: 0.6, kept: false };
  assert.equal(extended(series, race({ keep: true }, { ...stopped, keptPrompts: { plain: 1 } })), series);
  assert.deepEqual(extended(series, race({ keep: true }, { ...stopped, earlierPrompts: 0 })), []);
});

test("a live race that a link has opened again is not part of what was learned on this page", () => {
  const [part, subscribers] = [parts(), []];
  mount({ part, trigger: null, kept: {}, changed() {}, subscribe: (_, select, draw) => subscribers.push({ select, draw }) });
  const [seen, drawn] = subscribers;
  const ended = (id) => ({ ...race({ keep: true }, { earlierPrompts: 0, tv: 0.6, keptPrompts: { plain: 1 } }), id, source: "run", running: false });
  const rows = (id) => {
    seen.draw({ race: ended(id) });
    part("measure").open = true;
    return drawn.select({ race: ended(id) })[0].length;
  };
  assert.equal(rows("before"), 0);
  emit("running", "now");
  emit("running", null);
  assert.equal(rows("now"), 1);
});

test("several runs of one method have different names", () => {
  const { runs } = { runs: [run("plain", "P", {}, [1]), run("aded", "A", {}, [1]), run("aded", "B", {}, [1])] };
  assert.deepEqual(runs.map((_, i) => runName(runs, i)), ["plain", "aded", "aded~2"]);
});
