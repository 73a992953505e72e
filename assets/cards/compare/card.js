// The last two races compared: changed settings and their results.

import { el, fixed, number, rate, setText, visible } from "../../page/core/dom.js";
import { runStats, plainRun } from "../../page/record/record.js";
import { choice, runLabel } from "../../page/record/enginetext.js";
import { offerExport, registerExport } from "../../page/export/exports.js";
import { keepValue } from "../../page/export/standalone.js";
import { say, sayOr, sentences } from "../../page/core/words.js";

// The part of a finished race that is kept for the comparison.
export function summary(race) {
  const plain = plainRun(race);
  const base = plain ? runStats(plain, plain.steps.length).rate : 0;
  const { prompt, settings } = race.runs[0].header;
  const runs = race.runs.map((run) => {
    const { tokens, rate: speed, perStep } = runStats(run, run.steps.length);
    const { method, label } = run.header;
    return { method, label, methodSettings: run.header.method_settings, tokens, rate: speed, perStep, ratio: base ? speed / base : null };
  });
  return { prompt, settings, runs, stopped: race.runs.some((run) => run.finish_reason === "cancelled") };
}

// Changed settings as {label of the run or null, name, before, after}; runs that only one of the races has are skipped.
export function changes(before, now) {
  const common = differing(before.settings, now.settings).map((change) => ({ label: null, ...change }));
  const ofRuns = now.runs.flatMap((run) => {
    const old = before.runs.find(({ label }) => label === run.label);
    return old ? differing(old.methodSettings, run.methodSettings).map((change) => ({ label: runLabel(run), ...change })) : [];
  });
  return [...common, ...ofRuns.filter(({ name }) => !common.some((change) => change.name === name))];
}

function differing(a, b) {
  const names = [...new Set([...Object.keys(a), ...Object.keys(b)])];
  return names.filter((name) => text(a[name]) !== text(b[name])).map((name) => ({ name, before: text(a[name]), after: text(b[name]) }));
}

function text(value) {
  return value === undefined || value === null ? "–" : typeof value === "object" ? JSON.stringify(value) : String(value);
}

const SAME = { base_matrix: "corpus" }; // settings that follow from another one
const WORDS = { true: "on", false: "off" };

// The label of a setting, and a value as text.
function settingName(name) {
  return sayOr(`control.${SAME[name] ?? name}`, name.replaceAll("_", " "));
}

function settingValue(name, value) {
  if (name === "simulations" && value === "0") return choice("automatic");
  return visible(choice(WORDS[value] ?? value), 30);
}

// A sentence if one of the races, or both, was stopped early.
export function stoppedSentence(before, now) {
  const which = before.stopped && now.stopped ? "both" : now.stopped ? "now" : before.stopped ? "before" : null;
  return which ? say(`compare.stopped.${which}`) : "";
}

export function changesSentence(before, now) {
  const words = changes(before, now).map(({ label, name, before: old, after }) => {
    const values = { name: settingName(name), label, before: settingValue(name, old), after: settingValue(name, after) };
    return say(label ? "compare.of-run" : "compare.change", values);
  });
  if (labels(before) !== labels(now)) words.unshift(say("compare.runs"));
  if (before.prompt !== now.prompt) words.unshift(say("compare.prompt"));
  if (words.length) return say("compare.changed", { changes: words.join(say("verdict.semicolon")) });
  return say(before.stopped || now.stopped ? "compare.unchanged" : "compare.same");
}

function labels(race) {
  return JSON.stringify(race.runs.map((run) => run.label).sort());
}

export function mount({ part, kept, subscribe }) {
  offerExport("compare", { group: "experiment", title: "compare.title", at: part("compare-table"), table: true });
  let races = kept.compare ?? []; // the last two live races
  keepValue("compare", () => races);
  subscribe("quiet", ({ race }) => [race, race.running], ({ race }) => {
    const isNew = !race.running && race.source === "run" && !races.some(({ id }) => id === race.id);
    if (isNew) races = [...races, { id: race.id, ...summary(race) }].slice(-2);
  });
  subscribe("quiet", ({ race }) => (part("measure").open && !race.running ? [races] : null), () => {
    const [before, now] = races.length > 1 ? races : [null, races[0]];
    renderCompare(part, before, now);
    registerExport("compare", { place: () => part("compare-table"), table: () => compareTable(before, now) });
  });
}

function renderCompare(part, before, now) {
  part("compare-card").hidden = !now;
  if (!now) return;
  part("compare-table").hidden = !before;
  setText(part("compare-sentence"), before ? sentences(changesSentence(before, now), stoppedSentence(before, now)) : say("compare.first"));
  if (before) part("compare-rows").replaceChildren(...rows(before, now));
}

function rows(before, now) {
  const all = [...new Set([...now.runs, ...before.runs].map((run) => run.label))];
  const of = (race, label) => race.runs.find((run) => run.label === label);
  return all.map((label) => [of(before, label), of(now, label)]).map(([old, fresh]) => compareRow(runLabel(fresh || old), old, fresh));
}

function compareRow(label, old, now) {
  const speeds = [old, now].map((run) => (run ? rate(run.rate) : "–"));
  const gains = [old, now].map((run) => (run?.ratio ? `${number(run.ratio)}×` : "–"));
  const counts = [old, now].map((run) => (run ? number(run.perStep) : "–"));
  const change = old && now && old.perStep ? now.perStep - old.perStep : 0;
  const kind = Math.abs(change) < 0.005 ? "ax-dim" : change > 0 ? "ax-up" : "ax-down";
  const cells = [...speeds, ...gains, ...counts].map((value) => el("td", { class: "ax-num", text: value }));
  const difference = Math.abs(change) < 0.005 ? "·" : `${change > 0 ? "+" : "−"}${fixed(Math.abs(change), 2)}`;
  return el("tr", {}, el("th", { scope: "row", text: label }), ...cells, el("td", { class: `ax-num ${kind}`, text: difference }));
}

// Two races side by side; cells of a run that only one of them has are empty.
export function compareTable(before, now) {
  const names = ["tokens", "tokens_per_second", "speedup", "tokens_per_step"];
  const numbers = (run) => (run ? [run.tokens, run.rate, run.ratio, run.perStep] : names.map(() => null));
  const labels = [...new Set([...now.runs, ...before.runs].map((run) => run.label))];
  const rows = labels.map((label) => [label, ...[before, now].flatMap((race) => numbers(race.runs.find((run) => run.label === label)))]);
  return [["run", ...["before", "now"].flatMap((race) => names.map((name) => `${race}_${name}`))], ...rows];
}
