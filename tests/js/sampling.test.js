// Sampling with other settings: order and limits of the settings, bounds, the draw, and rejection sampling.

import assert from "node:assert/strict";
import test from "node:test";

import { distribution, draw, recordedDistribution, resample } from "../../assets/cards/whatif/sampling.js";
import { keyOf, uniform } from "../../assets/page/record/random.js";

const logs = (...p) => p.map(Math.log);
const near = (values, expected) => values.forEach((value, i) => { assert.ok(Math.abs(value - expected[i]) < 1e-9, `${values} and not ${expected}`); });
const OFF = { temperature: 1, top_k: 0, top_p: 1, min_p: 0 };
const run = (settings = {}, changes = {}) => ({ seed: 5, settings: { ...OFF, ...settings }, method_settings: {}, ...changes });
// Four recorded tokens of 0.4, 0.3, 0.1 and 0.1; two others of 0.08 and 0.02.
const ALL = [0.4, 0.3, 0.1, 0.1, 0.08, 0.02];
const LOGITS = { tokens: [4, 2, 7, 9], texts: ["a", "b", "c", "d"], values: logs(0.4, 0.3, 0.1, 0.1), ranked: 4, others: [0.5, 1, 1.5, 2, 1].map((t) => 0.08 ** (1 / t) + 0.02 ** (1 / t)) };
const CHOICE = { node: 0, token: 2, text: "b", probability: 0.3, drafted: true, draw: 0.5, rejection: null, typical: null, logits: LOGITS };
const STEP = { position: 20, tree: { tokens: [1, 2, 9], parents: [-1, 0, 0], texts: ["·", "b", "d"] }, path: [0, 1], choices: [CHOICE] };
const of = (settings) => distribution(CHOICE, run({ top_k: 3 }), { ...OFF, ...settings });

test("at the temperatures whose sums are recorded the distribution is exact", () => {
  const one = of({});
  near([...one.items.map(({ p }) => p), one.others], [0.4, 0.3, 0.1, 0.1, 0.1]);
  const two = of({ temperature: 2 });
  const weights = ALL.map(Math.sqrt);
  const sum = weights.reduce((a, b) => a + b);
  near([...two.items.map(({ p }) => p), two.others], [...weights.slice(0, 4).map((w) => w / sum), (weights[4] + weights[5]) / sum]);
  assert.ok(one.exact && two.exact);
});

test("at other temperatures the other tokens are bounded from above, and every recorded one from both sides", () => {
  for (const temperature of [0.2, 0.45, 0.8, 1.2, 1.7]) {
    const { items, others, exact } = of({ temperature });
    const weights = ALL.map((p) => p ** (1 / temperature));
    const sum = weights.reduce((a, b) => a + b);
    assert.ok(!exact);
    assert.ok(others >= (weights[4] + weights[5]) / sum - 1e-12);
    items.forEach(({ p, most }, i) => { assert.ok(p <= weights[i] / sum + 1e-12 && most >= weights[i] / sum - 1e-12); });
  }
});

test("at temperature 0 the most probable token has all the probability", () => {
  const { items, others } = of({ temperature: 0, top_k: 2, top_p: 0.1 });
  near([...items.map(({ p }) => p), others], [1, 0, 0, 0, 0]);
});

test("top-k and top-p keep ties, top-p the smallest set that reaches it, min-p a fraction of the highest", () => {
  const kept = (settings) => of(settings).items.map(({ cut }) => cut);
  assert.deepEqual(kept({ top_k: 2 }), [null, null, "top-k", "top-k"]);
  assert.deepEqual(kept({ top_k: 3 }), [null, null, null, null]);
  assert.deepEqual(kept({ top_p: 0.69 }), [null, null, "top-p", "top-p"]);
  assert.deepEqual(kept({ top_p: 0.71 }), [null, null, null, null]);
  assert.deepEqual(kept({ top_p: 0.01 }), [null, "top-p", "top-p", "top-p"]);
  assert.deepEqual(kept({ min_p: 0.5 }), [null, null, "min-p", "min-p"]);
  near(of({ top_k: 2 }).items.map(({ p }) => p), [4 / 7, 3 / 7, 0, 0]);
  assert.equal(of({ top_k: 2 }).others, 0);
});

test("top-p applies after top-k, and after the temperature", () => {
  assert.deepEqual(of({ top_k: 2, top_p: 0.56 }).items.map(({ cut }) => cut), [null, "top-p", "top-k", "top-k"]);
  assert.deepEqual(of({ temperature: 2, top_p: 0.41 }).items.map(({ cut }) => cut), [null, null, "top-p", "top-p"]);
});

test("where top-p depends on tokens that are not recorded, the token may be excluded", () => {
  const made = Array.from({ length: 300 }, (_, i) => of({ temperature: 0.7, top_p: 0.7 + i / 1000 }));
  const unsure = made.filter(({ items }) => items.some(({ cut }) => cut === "perhaps"));
  assert.ok(unsure.length > 0 && unsure.length < 60);
  for (const { items, exact } of unsure) {
    assert.ok(!exact);
    assert.ok(items.every(({ p, cut }) => cut === null || p === 0));
  }
});

test("the recorded distribution of a greedy run is that at temperature 1", () => {
  near(recordedDistribution(CHOICE, run({ temperature: 0, top_k: 1 })).items.map(({ p }) => p), [0.4, 0.3, 0.1, 0.1]);
});

test("the draw is the smallest −ln(u)/p", () => {
  const key = keyOf(5n, 21n);
  const { items } = of({});
  const rates = items.map(({ token, p }) => -Math.log(uniform(key, token)) / p);
  assert.equal(draw(items, key).token, items[rates.indexOf(Math.min(...rates))].token);
  assert.equal(resample(STEP, 0, run(), OFF, 5n).token, draw(items, key).token);
  const wide = items.map((item) => ({ ...item, most: 1e6 * item.p }));
  assert.equal(draw(wide, key), undefined);
});

test("what the run drew from all tokens excludes others at a lower temperature with the same seed", () => {
  const key = (seed) => keyOf(BigInt(seed), 21n);
  const rates = (seed, temperature) => ALL.map((p, i) => ({ token: [...LOGITS.tokens, 11, 12][i], rate: -Math.log(uniform(key(seed), [...LOGITS.tokens, 11, 12][i])) / p ** (1 / temperature) }));
  const winner = (seed, temperature) => rates(seed, temperature).reduce((a, b) => (b.rate < a.rate ? b : a)).token;
  const found = Array.from({ length: 400 }, (_, seed) => seed).filter((seed) => LOGITS.tokens.includes(winner(seed, 1))).map((seed) => {
    const header = { ...run(), seed };
    const step = { ...STEP, choices: [{ ...CHOICE, token: winner(seed, 1) }] };
    const at = (temperature) => resample(step, 0, header, { ...OFF, temperature }, BigInt(seed));
    for (const temperature of [0.4, 0.8, 1]) {
      const made = at(temperature);
      if (!made.missed) assert.equal(made.token, winner(seed, temperature));
    }
    assert.equal(at(1).missed, 0);
    assert.ok(at(1.5).missed);
    assert.ok(resample(step, 0, header, { ...OFF, temperature: 0.4 }, BigInt(seed + 1)).missed);
    return at(0.4).missed === 0;
  });
  assert.ok(found.filter(Boolean).length > 0.8 * found.length);
});

test("a drawn token is accepted if it was drafted; another seed draws another token", () => {
  const made = Array.from({ length: 40 }, (_, seed) => resample(STEP, 0, run(), OFF, BigInt(seed)));
  assert.deepEqual(new Set(made.map(({ token }) => token)), new Set(LOGITS.tokens));
  for (const { token, accepted } of made) assert.equal(accepted, [2, 9].includes(token));
});

const trial = (node, token, logits_q, rejection, top_p) => ({ node, token, p: 0.3, q: logits_q[LOGITS.tokens.indexOf(token)], uniform: 0.5, ratio: 1, accepted: false, rejection, top_p, top_q: [], logits_q });
const Q = [0.1, 0.8, 0.1, 0];
const REJECTION = { trials: [trial(1, 2, Q, 0.5, [0.3])], tokens: [2], texts: ["b"], residual: [0.5], residual_probability: 0.5 };
const CHAIN = { ...STEP, tree: { tokens: [1, 2], parents: [-1, 0], texts: ["·", "b"] }, choices: [{ ...CHOICE, rejection: REJECTION }] };

test("rejection sampling keeps q: ratio, acceptance and residual distribution follow the new p", () => {
  const made = Array.from({ length: 60 }, (_, seed) => resample(CHAIN, 0, run(), { ...OFF, top_k: 2 }, BigInt(seed)));
  for (let seed = 0; seed < 20; seed++) assert.equal(resample(CHAIN, 0, { ...run(), seed }, OFF, BigInt(seed)).missed, 0);
  for (const { tests: [{ p, q, ratio, uniform: u, accepted }], token, residual } of made) {
    near([p, q, ratio], [3 / 7, 0.8, 3 / 7 / 0.8]);
    assert.equal(accepted, u <= ratio);
    assert.equal(token, accepted ? 2 : 4);
    if (!accepted) near(residual.map((item) => item.p), [1, 0, 0, 0]);
  }
  assert.deepEqual(new Set(made.map(({ accepted }) => accepted)), new Set([true, false]));
});

test("what depends on an untried child or on tokens that are not recorded is left open", () => {
  const sibling = { ...CHAIN, tree: { tokens: [1, 2, 9], parents: [-1, 0, 0], texts: ["·", "b", "d"] } };
  const made = (step, settings) => Array.from({ length: 60 }, (_, seed) => resample(step, 0, run(), { ...OFF, ...settings }, BigInt(seed)));
  for (const { accepted, token, open } of made(sibling, { top_k: 2 })) assert.deepEqual([token, open], accepted ? [2, undefined] : [null, "untried"]);
  assert.ok(made(CHAIN, { temperature: 1.6 }).some(({ open }) => open === "undecided"));
});
