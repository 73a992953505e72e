// The format of saved races, as in aded/core/trace.py and ui/browser/wire.py: checks, and the JSON lines of which the page consists.

import { layoutOf } from "./treelayout.js";
import { faultOf } from "./schema.js";

// {schema, versions, nesting, fields, nodes, probability, colours, series}: made by ui/browser/trace_format.py from the definitions in Python.
let format = null;

export function setFormat(made) {
  format = made;
}

// The race in a file's text: {race}, or {problem, where} if it is refused: "syntax", "foreign", "version" or "damaged", and the first fault.
export function parseRace(text) {
  const body = parsed(text);
  if (body === undefined) return { problem: "syntax" };
  const kind = new Map([["aded-trace", "trace"], ["aded-race", "race"]]).get(body?.format);
  if (!kind) return { problem: "foreign" };
  if (!format.versions.includes(body.version)) return { problem: "version" };
  const runs = kind === "race" && Array.isArray(body.lanes) ? body.lanes : [];
  for (const part of [body, ...runs]) for (const name of ["format", "version"]) if (part) delete part[name];
  const fault = faultOf(body, kind === "race" ? format.schema : { $ref: "#/$defs/Trace" }, format.schema.$defs, CHECKS, format.fields);
  if (fault !== null) return { problem: "damaged", where: kind + fault };
  const race = kind === "race" ? body : { lanes: [body] };
  return race.lanes.length ? { race } : { problem: "damaged", where: "race.lanes" };
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

// Further checks, by the name of a class in aded/core/trace.py; each returns where the fault is, or null.
const CHECKS = {
  Header: ({ settings, method_settings: own }) => (isPlain(settings) ? (isPlain(own) ? null : ".method_settings") : ".settings"),
  Cost: ({ sizes, contexts, seconds }) => {
    const fits = seconds.length > 0 && sizes.length > 0 && seconds.length === contexts.length && seconds.every((row) => row.length === sizes.length);
    return failing(fits && [sizes, contexts].every((list) => list[0] >= 0 && list.every((value, i) => !i || value > list[i - 1])));
  },
  TreeRecord: ({ tokens, parents, texts, columns, probability, rank, verdict, reason }) => {
    const lists = [parents, texts, probability, rank, verdict, reason, ...Object.values(columns)];
    return failing(tokens.length > 0 && sameLength(tokens, lists) && parents.every((parent, i) => (i ? parent >= 0 && parent < i : parent === -1)));
  },
  RowChange: (row) => failing(!row.learned.length || sameLength(row.learned, [row.tokens])),
  BlockRecord: ({ tests, tokens, texts, p, q, residual }) => failing(tests.length > 0 && sameLength(tokens, [texts, p, residual, q.length ? q : p])),
  LatticeRecord: ({ tokens, texts, heads, rescored }) => failing(sameLength(tokens, [texts, heads, rescored.length ? rescored : heads])),
  LensRecord: ({ layers, eagle, positions }) => {
    const ascending = layers.length > 0 && layers.every((layer, i) => !i || layer > layers[i - 1]);
    return failing(ascending && eagle.every((layer) => layers.includes(layer)) && positions.every((at) => sameLength(layers, Object.values(at))));
  },
  PoolRecord: ({ size, phrases, texts, drafted }) => failing(sameLength(phrases, [texts]) && phrases.every((phrase, i) => sameLength(phrase, [texts[i]])) && drafted >= 0 && drafted <= phrases.length && phrases.length <= size),
  RejectionRecord: ({ trials, tokens, texts, residual, residual_probability: p }) => {
    return failing(sameLength(tokens, [texts, ...trials.flatMap((trial) => [trial.top_p, trial.top_q]), ...(p === null ? [] : [residual])]));
  },
  Step: (step) => failing(isConsistent(step) && isDrawable(step)),
  Trace: ({ steps, token_ids: ids, finish_reason: reason }) => {
    const emitted = steps.flatMap((step) => step.emitted);
    return failing(!reason || (sameLength(emitted, [ids]) && emitted.every((token, i) => token === ids[i])));
  },
};

const failing = (holds) => (holds ? null : "");

function sameLength(list, others) {
  return others.every((other) => other.length === list.length);
}

// Whether a value of any form has only finite numbers, is not nested too deeply and has no object with too many fields.
function isPlain(value, depth = 0) {
  if (depth > format.nesting || value === Number.POSITIVE_INFINITY || value === Number.NEGATIVE_INFINITY) return false;
  if (value === null || typeof value !== "object") return true;
  return (Array.isArray(value) || Object.keys(value).length <= format.fields) && Object.values(value).every((part) => isPlain(part, depth + 1));
}

function isConsistent({ tree, path, choices, emitted, texts, origins, block, lens }) {
  const trials = [...choices.flatMap(({ rejection, typical }) => [...(rejection?.trials ?? []), ...(typical?.trials ?? [])]), ...(block?.tests ?? [])];
  const exists = (node) => node >= 0 && node < tree.tokens.length;
  return path.every(exists) && trials.every(({ node }) => node > 0 && exists(node)) && sameLength(emitted, [texts, origins]) && sameLength(choices, lens ? [lens.positions] : []);
}

// What the page needs beyond that.
function isDrawable(step) {
  const { tree, path, choices, emitted, rows } = step;
  if (path[0] !== 0 || path.some((node, i) => i && tree.parents[node] !== path[i - 1]) || !emitted.length) return false;
  if (choices.some(({ node }) => node < 0 || node >= tree.tokens.length) || rows.some(({ key, key_texts: texts }) => key.length !== 2 || texts.length !== 2)) return false;
  if (!rows.every((row) => sameLength(row.tokens, [row.texts, row.before, row.after]))) return false;
  if (!choices.every((choice) => sameLength(choice.top_tokens, [choice.top_texts, choice.top_probabilities]))) return false;
  return sharesOf(step).every((lists) => lists.every((share) => share === null || (share >= 0 && share <= format.probability)));
}

// All probabilities of a step, and shares of them, as lists.
function sharesOf({ tree, choices, rows, agreement, agreement_after, block, lattice, levels, attended, lens }) {
  const tried = ({ p, q, uniform, ratio, rejection, top_p: tops, top_q: drafts }) => [[p, q, uniform, ratio, rejection], tops, drafts];
  const ofRejection = ({ trials, residual, residual_probability: p }) => [...trials.flatMap(tried), residual, [p]];
  const ofChoice = ({ probability, top_probabilities: tops, rejection, typical }) => [[probability], tops, ...(rejection ? ofRejection(rejection) : []), (typical?.trials ?? []).map(({ p }) => p)];
  const ofBlock = block ? [[block.weight, block.left, block.residual_probability], block.p, block.q, block.residual, ...block.tests.map(({ p, q, weight, left, passes, uniform }) => [p, q, weight, left, passes, uniform])] : [];
  const ofDraft = [...lattice.flatMap(({ heads, rescored }) => [heads, rescored]), ...levels.map(({ cumulative }) => cumulative), ...attended.map(({ weights }) => weights), ...(lens?.positions ?? []).flatMap(({ probabilities, chosen }) => [probabilities, chosen])];
  return [tree.probability, ...ofBlock, ...ofDraft, ...choices.flatMap(ofChoice), ...rows.flatMap(({ before, after, learned }) => [before, after, learned]), ...[...agreement, ...agreement_after].map((near) => [near.total_variation, near.top_1, near.top_4, near.top_12])];
}

// The race as JSON lines, as `ui.browser.wire.to_lines` makes them.
export function linesOf({ lanes: runs }, title) {
  const colours = coloursOf(runs.map(({ header }) => header.method));
  const heads = runs.map(({ header }, i) => ({ header, colours: colours[i], earlier_prompts: null, turn: null }));
  const id = crypto.getRandomValues(new Uint32Array(1))[0].toString(16).padStart(8, "0");
  const steps = runs.flatMap((run, i) => run.steps.map((step) => ({ t: "step", run: i, step: { ...step, seconds: roundedTimes(step.seconds) }, layout: layoutOf(step, format.nodes) })));
  const ends = runs.map(({ prefill_seconds, text, finish_reason, repeat_seconds = [] }, run) => ({ t: "run", run, kept: false, prefill_seconds, text, finish_reason, repeat_seconds }));
  const events = [{ t: "race", id, source: "file", title, settings: null, runs: heads }, ...steps, ...ends, { t: "status", running: false, kept_prompts: {} }];
  return events.map((event) => `${JSON.stringify(event)}\n`).join("");
}

// Colours of each run: those of its method; several runs of a method get colours that are as far apart in the list as possible.
function coloursOf(methods) {
  const { colours, series } = format;
  return methods.map((method, i) => {
    const [place, count] = [methods.slice(0, i), methods].map((list) => list.filter((one) => one === method).length);
    if (count === 1) return Object.hasOwn(colours, method) ? colours[method] : null;
    return series[count > series.length ? place % series.length : halfEven((place * (series.length - 1)) / (count - 1))];
  });
}

// Rounded as in Python: halves to the even number.
function halfEven(value) {
  return value % 1 === 0.5 ? 2 * Math.round(value / 2) : Math.round(value);
}

// Times to a tenth of a microsecond, as the server sends them.
function roundedTimes(seconds) {
  return Object.fromEntries(Object.entries(seconds).map(([phase, time]) => [phase, Number(time.toFixed(7))]));
}
