// Values of a lesson: of its facts, calculated, and read from the record of the race that a part shows. Draws nothing.

import { fixed } from "../core/dom.js";
import { expectedTokens } from "../record/estimate.js";
import { acceptanceRate, column, depthsOf, last, plainRun, runName, runStats, draftingRun, speedSpread } from "../record/record.js";
import { moments, puctOf, searchedStep } from "../record/search.js";

const stats = ({ run }) => runStats(run, run.steps.length);
const accepted = ({ origins }) => origins.filter((origin) => origin === "draft").length;
const sum = (list) => list.reduce((total, one) => total + one, 0);
const ofColumn = (name) => ({ step, node }) => column(step.tree, name)[node];
const ofScore = (name) => ({ step, node, run }) => puctOf(step.tree, node, run.header.method_settings)?.[name] ?? null;
const ofTrial = (name) => ({ step, node }) => trialOf(step, node)?.[name] ?? null;

// What can be read, by name; each gets {race, run, step, node, path}.
export const RECORD = {
  steps: ({ run }) => run.steps.length,
  tokens: (place) => stats(place).tokens,
  "tokens-per-step": (place) => stats(place).perStep,
  accepted: ({ run }) => sum(run.steps.map(accepted)),
  "accepted-per-step": ({ run }) => sum(run.steps.map(accepted)) / run.steps.length,
  "acceptance-rate": ({ run }) => acceptanceRate(run.steps),
  "tokens-per-second": (place) => stats(place).rate,
  "speed-up": speedUp,
  "run-field": ({ run, path }) => fieldOf(run, path),
  "tokens-by-step": ({ run }) => run.steps.map(({ emitted }) => emitted.length),
  "accepted-by-step": ({ run }) => run.steps.map(accepted),
  drafted: ({ step }) => step.tree.tokens.length - 1,
  "accepted-in-step": ({ step }) => accepted(step),
  "tokens-in-step": ({ step }) => step.emitted.length,
  simulations: ({ step }) => step.simulations.length,
  "residual-probability": ({ step }) => step.block?.residual_probability ?? last(step.choices)?.rejection?.residual_probability ?? null,
  "step-field": ({ step, path }) => fieldOf(step, path),
  token: ({ step, node }) => step.tree.texts[node],
  depth: ({ step, node }) => depthsOf(step.tree.parents)[node],
  prior: ofColumn("prior"),
  visits: ofColumn("visits"),
  value: ({ step, node }) => column(step.tree, "value")[node] ?? 0,
  "parent-visits": ofScore("parent"),
  exploration: ofScore("explore"),
  score: ofScore("score"),
  "target-probability": ({ step, node }) => step.tree.probability[node],
  "target-rank": ({ step, node }) => step.tree.rank[node],
  p: ofTrial("p"),
  q: ofTrial("q"),
  ratio: ofTrial("ratio"),
  uniform: ofTrial("uniform"),
  rejection: ofTrial("rejection"),
};

export const COMPUTE = {
  add: (a, b) => a + b,
  subtract: (a, b) => a - b,
  multiply: (a, b) => a * b,
  divide: (a, b) => a / b,
  power: (a, b) => a ** b,
  smaller: Math.min,
  larger: Math.max,
  logarithm: Math.log,
  root: Math.sqrt,
  "expected-tokens": expectedTokens,
};

// The speed-up of a run over plain decoding, as the page shows it: the median of it and its repeats; null without plain decoding.
export function speedUp({ race, run }) {
  const plain = plainRun(race);
  return plain ? (speedSpread(run, plain)?.[1] ?? stats({ run }).rate / stats({ run: plain }).rate) : null;
}

function trialOf({ choices, block }, node) {
  return [...choices.flatMap(({ rejection }) => rejection?.trials ?? []), ...(block?.tests ?? [])].find((trial) => trial.node === node);
}

function fieldOf(whole, path) {
  return path.split(/[.[\]]+/).filter(Boolean).reduce((part, key) => part?.[key], whole) ?? null;
}

// The run, step and node that a reference means; what it leaves out is that of `shown`. A step that does not exist is null.
export function placeOf(race, reference, shown) {
  const names = race.runs.map((_, i) => runName(race.runs, i));
  const method = reference.method ?? shown.method ?? null;
  const at = method === null ? draftingRun(race) : names.indexOf(method);
  const run = race.runs[at] ?? null;
  const recorded = run?.steps[(reference.step ?? shown.step ?? 0) - 1] ?? null;
  const own = (reference.step ?? shown.step) === shown.step; // a reference to another step means the end of its search
  const moment = reference.moment ?? (own ? shown.moment : null) ?? null;
  const replayed = moment !== null && recorded?.simulations.length && moment <= moments(recorded);
  const step = replayed ? searchedStep(recorded, moment, run.header.method_settings) : recorded;
  return { race, run, recorded, step, node: reference.node ?? shown.node ?? null, path: reference.path };
}

// A value as a number, a text or a list; null if the record does not have it. `facts`: of the lesson.
export function resolved(value, { race, facts, shown }) {
  const of = (part) => resolved(part, { race, facts, shown });
  if (typeof value === "number") return value;
  if (typeof value === "string") return of(facts[value].value);
  if (value.compute) {
    const parts = value.of.map(of);
    const made = parts.includes(null) ? null : COMPUTE[value.compute](...parts);
    return Number.isFinite(made) ? made : null;
  }
  const place = race && placeOf(race, value, shown);
  if (!place?.run) return null;
  try {
    return RECORD[value.record](place) ?? null;
  } catch {
    return null; // the step or the node does not exist
  }
}

// Whether a value needs the record of a race.
export function needsRace(value, facts) {
  if (typeof value === "string") return needsRace(facts[value].value, facts);
  return typeof value === "object" && (Boolean(value.record) || value.of.some((part) => needsRace(part, facts)));
}

// A value as text: two decimals, none for whole numbers, or as many as the fact says.
export function shownValue(value, { digits = null, percent = false } = {}) {
  if (value === null || value === undefined) return "…";
  if (typeof value !== "number") return String(value);
  const shown = percent ? 100 * value : value;
  const text = fixed(shown, digits ?? (Number.isInteger(shown) ? 0 : 2)).replace("-", "−");
  return percent ? `${text} %` : text;
}

// The number of decimals that a typed answer needs to be within a tolerance.
export function digitsFor(tolerance) {
  return tolerance > 0 ? Math.max(0, Math.min(6, Math.ceil(-Math.log10(tolerance)))) : 0;
}
