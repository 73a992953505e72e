// Sampling of a recorded choice with other settings, as in aded/sampling: the distribution, the draw, and rejection sampling.
// Draws nothing.

import { keyOf, uniform } from "../../page/record/random.js";

const TEMPERATURES = [0.5, 1, 1.5, 2]; // as in aded/core/trace.py
const MAX_GREEDY = 1e-5; // temperatures up to this one mean greedy decoding
const ACCEPT_STREAM = 0x6163636570740000n; // XORed into the seed for the random numbers of acceptance tests

// The settings that a run was recorded with: {temperature, top_k, top_p, min_p}.
export function recordedSettings({ settings: { temperature = 0, top_k = 0, top_p = 1, min_p = 0 } }) {
  return { temperature, top_k, top_p, min_p };
}

// The settings of the distribution that the record shows: all sampling settings, at temperature 0 none of them.
export function shownSettings(header) {
  const settings = recordedSettings(header);
  return isGreedy(settings) ? { temperature: 1, top_k: 0, top_p: 1, min_p: 0 } : settings;
}

export function recordedDistribution(choice, header) {
  return distribution(choice, header, shownSettings(header));
}

export function isGreedy({ temperature }) {
  return temperature <= MAX_GREEDY;
}

// The target's distribution at a choice with other settings, in the order of the engine: temperature, top-k, top-p, min-p. Temperatures
// above 2 need a run with at least that temperature. Returns {items, others, exact, asRecorded}. `items`: {token, text, p, most, cut} for
// each recorded token: p and most are bounds of its probability, equal if `exact`; cut is the setting that excludes it, "perhaps" if that
// depends on tokens that are not recorded, or null. `others`: the probability of these uncertain tokens and of all tokens that are not
// recorded, an upper bound unless `exact`.
export function distribution(choice, header, settings) {
  const { tokens, texts, values } = choice.logits;
  const recorded = recordedSettings(header);
  const asRecorded = Object.keys(recorded).every((name) => recorded[name] === settings[name]);
  const made = isGreedy(settings) ? { weights: values.map((_, i) => Number(i === 0)), cut: values.map(() => null), most: 0, least: 0 } : filtered(choice.logits, recorded.temperature, settings);
  if (asRecorded && !isGreedy(settings)) keepRecorded(made, choice);
  const kept = keptWeight(made);
  const total = kept + made.most;
  const known = (i) => (asRecorded && !isGreedy(settings) && !made.cut[i] ? recordedP(choice, tokens[i]) : null);
  const items = tokens.map((token, i) => ({ token, text: texts[i], p: known(i) ?? keptOf(made, i) / total, most: keptOf(made, i) / (kept + made.least), cut: made.cut[i] }));
  return { items, others: made.most / total, exact: made.most === made.least, asRecorded };
}

// Weights of the recorded tokens relative to that of the most probable one, what excludes them, and bounds of the weight of all others.
function filtered(logits, recorded, { temperature, top_k, top_p, min_p }) {
  const { values, ranked } = logits;
  const [least, most] = otherTokens(logits, recorded, temperature);
  const made = { weights: values.map((value) => Math.exp((value - values[0]) / temperature)), cut: values.map(() => null), ranked, least, most };
  if (top_k) exclude(made, "top-k", (i) => top_k <= ranked && values[i] < values[top_k - 1], top_k <= ranked);
  if (top_p < 1) applyTopP(made, top_p);
  const improbable = (i) => values[i] - values[0] < Math.log(min_p) * temperature;
  if (min_p) exclude(made, "min-p", improbable, improbable(ranked - 1));
  made.most += made.weights.reduce((sum, weight, i) => sum + (made.cut[i] === "perhaps" ? weight : 0), 0);
  return made;
}

// Lower and upper bound of the weight of the tokens that are not recorded, relative to that of the most probable token; equal at the
// recorded temperatures. The logarithm of this weight is a convex function of 1/T, and its slope is at most the log-probability of the
// last of the most probable tokens.
function otherTokens({ values, ranked, others }, recorded, temperature) {
  const at = 1 / temperature;
  const steepest = values[ranked - 1];
  const known = [...new Map([...TEMPERATURES, recorded > MAX_GREEDY ? recorded : 1].map((t, i) => [1 / t, Math.log(others[i])]))]
    .map(([x, log]) => ({ x, log }))
    .filter(({ log }) => log > -Infinity)
    .sort((a, b) => a.x - b.x);
  if (!known.length) return [0, 0];
  const line = (a, b) => a.log + ((at - a.x) / (b.x - a.x)) * (b.log - a.log);
  const from = ({ x, log }) => log + (at - x) * steepest;
  const next = known.findIndex(({ x }) => x >= at);
  const i = next < 0 ? known.length : next;
  const [before, below, above] = [known[i - 2], known[i - 1], known[i]];
  const least = [above && from(above), before && line(before, below)].filter((log) => log !== undefined);
  const most = [below && from(below), below && above && line(below, above)].filter((log) => log !== undefined);
  const bounds = above?.x === at ? [above.log, above.log] : [Math.max(...least), Math.min(...most)];
  return bounds.map((log) => Math.exp(log - values[0] * at));
}

const keptOf = ({ weights, cut }, i) => (cut[i] ? 0 : weights[i]);

function keptWeight(made, end = made.weights.length) {
  let sum = 0;
  for (let i = 0; i < end; i++) sum += keptOf(made, i);
  return sum;
}

// Excludes recorded tokens, and all others or, because it is unknown which of them, none.
function exclude(made, name, excluded, all) {
  made.cut = made.cut.map((cut, i) => cut ?? (excluded(i) ? name : null));
  made.least = 0;
  if (all) made.most = 0;
}

// A token is excluded if the more probable ones reach top-p. Where this depends on the others, the token is counted among them.
function applyTopP(made, limit) {
  const sums = made.weights.map((weight) => keptWeight(made, Math.min(made.weights.indexOf(weight), made.ranked)));
  const [least, most] = [made.least, made.most].map((others) => limit * (keptWeight(made) + others));
  const name = (i) => (i === 0 || sums[i] < least ? null : sums[i] < most ? "perhaps" : "top-p");
  const all = keptWeight(made, made.ranked) >= most;
  made.cut = made.cut.map((cut, i) => cut ?? name(i));
  Object.assign(made, { least: 0, most: all ? 0 : made.most });
}

// A token's probability as the record shows it; null if it does not.
function recordedP({ token, probability, top_tokens = [], top_probabilities, rejection }, one) {
  if (one === token) return probability;
  if (top_tokens.includes(one)) return top_probabilities[top_tokens.indexOf(one)];
  const p = rejection?.trials.length ? rejection.trials[0].top_p : rejection?.residual;
  return p?.[rejection.tokens.indexOf(one)] ?? null;
}

// With the settings of the run, the record says the chosen token's probability, and so the weight of all tokens together, and which of
// the tokens beyond the most probable ones were excluded.
function keepRecorded(made, choice) {
  const { token, probability, logits } = choice;
  made.cut = made.cut.map((cut, i) => (recordedP(choice, logits.tokens[i]) === 0 ? (cut ?? "top-p") : recordedP(choice, logits.tokens[i]) ? null : cut));
  const i = logits.tokens.indexOf(token);
  if (keptOf(made, i) > 0) made.most = made.least = Math.max(0, made.weights[i] / probability - keptWeight(made));
}

const rate = (token, p, key) => -Math.log(uniform(key, token)) / p;

// The token with the smallest −ln(u)/p of some items {token, p, most}; null if all have probability 0, undefined if the bounds of their
// probabilities do not decide it.
export function draw(items, key) {
  const best = items.filter(({ p }) => p > 0).reduce((a, b) => (a === null || rate(b.token, b.p, key) < rate(a.token, a.p, key) ? b : a), null);
  const beaten = ({ token, most }) => rate(token, most, key) >= rate(best.token, best.p, key);
  return best === null || items.every((item) => item === best || beaten(item)) ? best : undefined;
}

// What the target chooses at the i-th choice of a step with other settings and a seed, if the draft stays as it is:
//   items, others, exact, asRecorded: the distribution
//   token, text: the chosen token; null if the record does not contain what decides it
//   open: why it is null: "untried", the draft probability of the next child is not recorded, or "undecided", tokens are not recorded
//   accepted: whether it is a drafted child that is accepted
//   tests: of rejection sampling, as recorded: {node, token, p, q, uniform, ratio, accepted}
//   residual: probabilities that a correction or bonus token is drawn with, like `items`; empty without rejection sampling
//   missed: upper bound of the probability that a token was drawn that is not recorded; 0 if that is excluded
export function resample(step, i, header, settings, seed) {
  const choice = step.choices[i];
  const made = { ...distribution(choice, header, settings), accepted: false, tests: [], residual: [], missed: 0 };
  const position = BigInt(step.position + 1 + i);
  if (choice.rejection) {
    const found = { ...made, ...rejectionSampled(step, choice, made, seed, position) };
    return made.asRecorded && seed === BigInt(header.seed) ? { ...found, missed: 0 } : found;
  }
  const alike = made.items.map((item) => ({ ...item, most: item.p })); // a common factor of all probabilities does not matter
  const { token, text } = isGreedy(settings) ? made.items[0] : (draw(alike, keyOf(seed, position)) ?? made.items[0]);
  const accepted = step.tree.parents.some((parent, node) => parent === choice.node && step.tree.tokens[node] === token);
  return { ...made, token, text, accepted, missed: isUnbeaten(step, i, header, settings, seed, token) ? 0 : made.others };
}

// Whether no token that is not recorded can have been drawn instead, because each of them lost the draw of the run, which had the same random
// numbers. With a lower temperature and the same or stricter limits all of them become less probable relative to those above them. In logarithms,
// −ln(u) of each is at least that of the run's token plus the difference of their weights in the run.
function isUnbeaten(step, i, header, settings, seed, token) {
  const recorded = recordedSettings(header);
  const { tokens, values, ranked } = step.choices[i].logits;
  const limit = (top_k) => top_k || Infinity;
  const stricter = settings.temperature <= recorded.temperature && limit(settings.top_k) <= limit(recorded.top_k) && settings.top_p <= recorded.top_p && settings.min_p >= recorded.min_p;
  const coupled = header.method_settings.verification !== "rejection" && seed === BigInt(header.seed);
  if (isGreedy(recorded) || isGreedy(settings) || !stricter || !coupled) return false;
  const key = keyOf(seed, BigInt(step.position + 1 + i));
  const rateOf = (one, temperature) => Math.log(-Math.log(uniform(key, one))) - values[tokens.indexOf(one)] / temperature;
  const least = rateOf(step.choices[i].token, recorded.temperature) + values[ranked - 1] * (1 / recorded.temperature - 1 / settings.temperature);
  return rateOf(token, settings.temperature) <= least;
}

const open = (why) => ({ token: null, text: null, open: why });

function rejectionSampled({ tree }, { node, rejection, logits }, made, seed, position) {
  const tests = [];
  let left = made; // the distribution, after rejections the residual distribution
  for (const [rank, trial] of rejection.trials.entries()) {
    const x = logits.tokens.indexOf(trial.token);
    const { p, most } = left.items[x] ?? { p: 0, most: 0 };
    const [u, q] = [uniform(keyOf(seed ^ ACCEPT_STREAM, position), rank), trial.logits_q[x] ?? trial.q];
    const accepted = u * q <= p;
    tests.push({ node: trial.node, token: trial.token, p, q: trial.q, uniform: u, ratio: Math.min(1, p / trial.q), accepted });
    if (accepted) return { token: trial.token, text: tree.texts[trial.node], accepted, tests };
    if (u * q <= most) return { ...open("undecided"), tests };
    left = residual(left, trial, made.asRecorded);
  }
  if (tests.length < tree.parents.filter((parent) => parent === node).length) return { ...open("untried"), tests };
  const drawn = draw(left.items, keyOf(seed, position));
  return { ...(drawn ? { token: drawn.token, text: drawn.text } : open("undecided")), tests, residual: left.items, missed: left.others };
}

// max(0, p − q), normalised, as bounds; q of tokens that are not recorded is unknown.
function residual({ items, others }, { logits_q: q, rejection }, asRecorded) {
  const rest = items.map((item, k) => ({ ...item, p: Math.max(0, item.p - q[k]), most: Math.max(0, item.most - q[k]) }));
  const sum = (name) => rest.reduce((total, item) => total + item[name], 0);
  const listed = sum("p");
  const beyond = asRecorded ? Math.max(0, rejection - listed) : others;
  if (listed + beyond === 0) return { items, others }; // possible only by rounding
  const [least, most] = asRecorded ? [rejection, rejection] : [listed, sum("most") + others];
  return { items: rest.map((item) => ({ ...item, p: item.p / most, most: item.most / least })), others: beyond / (listed + beyond) };
}
