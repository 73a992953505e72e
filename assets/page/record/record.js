// The record of a race, rebuilt from JSON lines, with the decode time of each run. Draws nothing.

import { namesById } from "../core/dom.js";
import { runLabel } from "./enginetext.js";

export const TARGET = -1; // id of the bonus or correction token in a drawn tree; it is not a node of the draft

export function emptyRace() {
  return { id: null, source: "", title: "", settings: null, runs: [], running: false, keptPrompts: {}, read: 0 };
}

// Parses the new part of a growing string of JSON lines; another race starts from the beginning. Returns the race.
export function readLines(race, value) {
  const text = value || "";
  const head = text.slice(0, text.indexOf("\n"));
  if (!head) return race;
  const id = JSON.parse(head).id;
  const target = id === race.id && text.length >= race.read ? race : emptyRace();
  const end = text.lastIndexOf("\n") + 1;
  for (const line of text.slice(target.read, end).split("\n")) if (line) apply(target, JSON.parse(line));
  target.read = end;
  return target;
}

// The lines of a running race as if it had been stopped at the last line, for saving it.
export function stoppedLines(text) {
  const [head] = text.split("\n", 1);
  const runs = head ? JSON.parse(head).runs.length : 0;
  const ended = new Set(text.split("\n").filter((line) => line.startsWith('{"t":"run"')).map((line) => JSON.parse(line).run));
  const cut = Array.from({ length: runs }, (_, run) => run).filter((run) => !ended.has(run));
  const ends = cut.map((run) => ({ t: "run", run, prefill_seconds: 0, text: "", finish_reason: "cancelled" }));
  return [text.slice(0, text.lastIndexOf("\n") + 1), ...[...ends, { t: "status", running: false }].map((event) => `${JSON.stringify(event)}\n`)].join("");
}

const TICK = 1e-9; // seconds; smaller durations count as zero

const READERS = {
  race(race, event) {
    Object.assign(race, { id: event.id, source: event.source, title: event.title, settings: event.settings ?? null, runs: event.runs.map(emptyRun) });
  },
  step(race, event) {
    const run = race.runs[event.run];
    run.steps.push(event.step);
    run.layouts.push(event.layout);
    const s = event.step.seconds;
    const took = s.draft + s.verify + s.commit + s.update;
    run.ends.push(last(run.ends, 0) + (took < TICK ? 0 : took));
    run.counts.push(last(run.counts, 0) + event.step.emitted.length);
  },
  run(race, event) {
    const { run, prefill_seconds, text, finish_reason, kept, repeat_seconds } = event;
    const one = race.runs[run];
    Object.assign(one, { prefill_seconds, text, finish_reason, kept: Boolean(kept), repeats: repeat_seconds ?? [] });
    one.loop = loopStart(one.steps.flatMap((step) => step.emitted));
  },
  status(race, event) {
    race.running = event.running;
    race.keptPrompts = event.kept_prompts ?? {};
  },
};

function apply(race, event) {
  READERS[event.t](race, event);
}

function emptyRun({ header, colours, earlier_prompts, turn }) {
  const label = { get: () => runLabel(header), enumerable: true }; // in the current language
  return Object.defineProperty({ header, colours, earlierPrompts: earlier_prompts ?? null, turn: turn ?? null, kept: false, loop: null, repeats: [], steps: [], layouts: [], ends: [], counts: [], prefill_seconds: 0, text: "", finish_reason: null }, "label", label);
}

// A column of a tree, one entry per node; all null if the method does not fill it.
export function column(tree, name) {
  return tree.columns[name] || new Array(tree.tokens.length).fill(null);
}

// What the column "prior" of a method's trees holds, as a glossary term: the prior P of PUCT, or the draft probability q.
export function priorTerm({ method_settings: settings }) {
  return settings.search ? "prior" : "draft-probability";
}

// The cumulative draft probability of a node: the product of the column "prior" along its path; null without one.
export function cumulativeProbability(tree, node) {
  const priors = column(tree, "prior");
  let product = 1;
  for (let at = node; at > 0; at = tree.parents[at]) {
    if (priors[at] === null) return null;
    product *= priors[at];
  }
  return node > 0 ? product : null;
}

// The target's most probable tokens at a choice: {token, text, p}, without those that top-k and top-p excluded.
export function possible({ top_tokens: tokens, top_texts: texts, top_probabilities: probabilities }) {
  return tokens.map((token, k) => ({ token, text: texts[k], p: probabilities[k] })).filter(({ p }) => p > 0);
}

// The rank of a node's token in the target's distribution; null if it has none or its probability is 0.
export function rankOf(tree, node) {
  return tree.probability[node] === 0 ? null : tree.rank[node];
}

export function last(list, otherwise) {
  return list.length ? list[list.length - 1] : otherwise;
}

// The kind of the last token of a step (see `undraftedKind`); null if it is an accepted draft token, because the text ended there.
export function targetTokenKind({ tree, path, origins }) {
  return last(origins) === "target" ? undraftedKind(tree, last(path)) : null;
}

// The kind of a token that the target chose after an accepted node and that was not drafted: "correction" if all drafted children of
// the node were rejected, "bonus" if the whole candidate path was accepted, "plain" if the step had no draft.
export function undraftedKind(tree, node) {
  if (tree.tokens.length === 1) return "plain";
  return tree.parents.includes(node) ? "correction" : "bonus";
}

// The last token of a step with its display text: {token, text}. The text of the step has a character of several tokens at the last of them
// only, so the text comes from the target's choice.
export function targetToken({ emitted, texts, choices }) {
  const token = last(emitted);
  return { token, text: choices.findLast((choice) => choice.token === token)?.text ?? last(texts) };
}

// Names of all tokens of a step, by id: those of its tree, the target's most probable ones, and its last one. Different tokens never look the same.
export function namesOfStep(step, limit) {
  const { tree, choices } = step;
  const { token, text } = targetToken(step);
  const likely = choices.flatMap(({ top_tokens: tokens, top_texts: texts }) => tokens.map((id, k) => [id, texts[k]]));
  const all = [...tree.tokens.map((id, node) => [id, tree.texts[node]]), ...likely, ...choices.map((choice) => [choice.token, choice.text]), [token, text]];
  return namesById(all.map(([id]) => id), all.map(([, shown]) => shown), limit);
}

// The slots of the KV cache of all nodes: the forward pass writes node i to slot position + i; compaction then moves the accepted nodes
// together.
export function slotsOf(step) {
  const start = step.position;
  const written = step.tree.tokens.map((_, node) => ({ node, slot: start + node }));
  const kept = step.path.slice(0, step.emitted.length).map((node, i) => ({ node, slot: start + i, from: start + node }));
  return { start, written, kept, free: written.length - kept.length };
}

// Depth of every node; the root has depth 0.
export function depthsOf(parents) {
  const depths = [];
  for (const parent of parents) depths.push(parent < 0 ? 0 : depths[parent] + 1);
  return depths;
}

export function duration(race) {
  return Math.max(0, ...race.runs.map((run) => last(run.ends, 0)));
}

// Number of steps that a run has finished at a decode time.
export function stepsDone(run, time) {
  let low = 0;
  let high = run.ends.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (run.ends[middle] <= time + 1e-9) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The parts of a step's time, in order.
export const PARTS = ["draft", "verify", "commit", "update"];

// The name of a part in exported tables.
export function partName(part) {
  return part === "commit" ? "compaction" : part;
}

// Statistics of a run after its first `done` steps; parts in seconds.
export function runStats(run, done) {
  const sum = { draft: 0, verify: 0, commit: 0, update: 0 };
  for (const { seconds } of run.steps.slice(0, done)) for (const part of PARTS) sum[part] += seconds[part];
  const tokens = done ? run.counts[done - 1] : 0;
  const seconds = done ? run.ends[done - 1] : 0;
  return { tokens, seconds, steps: done, rate: seconds ? tokens / seconds : 0, perStep: done ? tokens / done : 0, ...sum };
}

// The share of the draft positions reached by verification at which a draft token was accepted; null if nothing was drafted.
export function acceptanceRate(steps) {
  const drafted = steps.filter((step) => step.tree.tokens.length > 1);
  const accepted = drafted.reduce((sum, step) => sum + step.path.length - 1, 0);
  const rejected = drafted.filter((step) => targetTokenKind(step) === "correction").length;
  return drafted.length ? accepted / Math.max(1, accepted + rejected) : null;
}

export const FEW = 24; // tokens from which a speed is judged

// The smallest, the median and the largest speed-up over plain decoding of a race and its repeats; null without repeats.
export function speedSpread(run, base) {
  const count = Math.min(run.repeats.length, base.repeats.length);
  if (!count) return null;
  const share = last(run.counts, 0) / Math.max(1, last(base.counts, 0)); // sampled texts may differ in length
  const times = ({ ends, repeats }) => [last(ends, 0), ...repeats.slice(0, count)];
  const [own, plain] = [times(run), times(base)];
  const ratios = plain.map((seconds, i) => (share * seconds) / own[i]).sort((a, b) => a - b);
  return [ratios[0], (ratios[Math.floor(count / 2)] + ratios[Math.ceil(count / 2)]) / 2, last(ratios, 0)];
}

export function plainRun(race) {
  return race.runs.find((run) => run.header.method === "plain") || null;
}

// Name of a run in links and tables: its method, with a number from the second run of a method on.
export function runName(runs, index) {
  const { method } = runs[index].header;
  const before = runs.slice(0, index).filter((run) => run.header.method === method).length;
  return before ? `${method}~${before + 1}` : method;
}

// The first run that drafts; of a race that has ended, one with steps if there is any.
export function draftingRun({ runs, running }) {
  const drafts = ({ header }) => header.method !== "plain";
  const shows = ({ steps }) => running || steps.length > 0;
  const places = [(run) => drafts(run) && shows(run), shows, drafts].map((is) => runs.findIndex(is));
  return Math.max(0, places.find((at) => at >= 0) ?? 0);
}

// A step that shows much: the longest accepted path, early steps first.
export function exampleStep(run) {
  let best = 0;
  run.steps.forEach((step, i) => {
    if (weight(step) > weight(run.steps[best])) best = i;
  });
  return best;
}

function weight(step) {
  return Math.min(step.path.length, 5) * 1000 + Math.min(step.tree.tokens.length, 40);
}

const VERSION = 4; // of the trace format, as in aded/core/trace.py

// The race in the format of `aded.core.trace`.
export function toFile(race) {
  const runs = race.runs.map((run) => ({
    format: "aded-trace",
    version: VERSION,
    header: run.header,
    steps: run.steps,
    prefill_seconds: run.prefill_seconds,
    text: run.text,
    token_ids: run.steps.flatMap((step) => step.emitted),
    finish_reason: run.finish_reason,
    repeat_seconds: run.repeats,
  }));
  return JSON.stringify({ format: "aded-race", version: VERSION, lanes: runs });
}

const MAX_PERIOD = 48; // longest period in tokens
const REPETITIONS = 3; // repetitions that make a loop
const MIN_LOOP = 36; // tokens that a loop covers at least

// The number of tokens after which the text only repeats its last tokens, a loop of a small model that any method drafts easily; null if it
// does not.
function loopStart(tokens) {
  for (let period = 1; period <= MAX_PERIOD; period++) {
    let start = tokens.length - period;
    while (start > 0 && tokens[start - 1] === tokens[start - 1 + period]) start--;
    if (tokens.length - start >= Math.max(REPETITIONS * period, MIN_LOOP)) return start + period;
  }
  return null;
}
