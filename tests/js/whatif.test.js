// The panel of other sampling settings: the choice of a node, the sentence, the rows, and what the record does not allow.

import assert from "node:assert/strict";
import test from "node:test";

import { recordedSettings, resample } from "../../assets/cards/whatif/sampling.js";
import { choiceOf, obstacle, whatIfRows, whatIfText } from "../../assets/cards/whatif/card.js";

import { speak } from "./words.js";

const TEXTS = Array.from({ length: 14 }, (_, i) => ` w${i}`);
const VALUES = TEXTS.map((_, i) => Math.log(2 ** -(i + 1)));
const LOGITS = { tokens: TEXTS.map((_, i) => i), texts: TEXTS, values: VALUES, ranked: 14, others: [2 ** -28, 2 ** -14, 2 ** -9, 2 ** -6, 2 ** -14] };
const choice = (node, token, changes) => ({ node, token, text: TEXTS[token], probability: 2 ** -(token + 1), drafted: true, draw: 0.5, rejection: null, typical: null, logits: LOGITS, ...changes });
const HEADER = { seed: 1, settings: { temperature: 1, top_k: 0, top_p: 1, min_p: 0 }, method_settings: {} };
const STEP = {
  position: 9,
  path: [0, 1],
  tree: { tokens: [5, 0, 1, 3], parents: [-1, 0, 0, 1], texts: [" w5", " w0", " w1", " w3"] },
  choices: [choice(0, 0), choice(1, 12, { drafted: false })],
};
const made = (settings, i = 0, seed = 1n) => resample(STEP, i, HEADER, { ...recordedSettings(HEADER), ...settings }, seed);
const result = (token, changes) => ({ ...made({}), token, text: TEXTS[token], accepted: token < 2, missed: 0, ...changes });

test("a node belongs to its own choice, else to that of its nearest accepted ancestor; the undrafted token to the last", () => {
  assert.deepEqual([0, 1, 2, 3, -1].map((node) => choiceOf(STEP, node)), [0, 1, 0, 1, 1]);
});

test("an older record, typical acceptance and a seed beyond the page's integers allow no other settings", () => {
  assert.equal(obstacle(choice(0, 0), HEADER), null);
  assert.equal(obstacle({ ...choice(0, 0), logits: undefined }, HEADER), "absent");
  assert.equal(obstacle(undefined, HEADER), "absent");
  assert.equal(obstacle({ ...choice(0, 0), typical: {} }, HEADER), "typical");
  assert.equal(obstacle(choice(0, 0), { ...HEADER, seed: 2 ** 53 }), "seed");
});

test("the sentence says what changes, and what follows for the draft", () => {
  const text = (...rest) => whatIfText(STEP, ...rest);
  assert.equal(text(0, result(0), ""), "With the settings of the run, the target chooses “␣w0”, as recorded.");
  assert.equal(text(0, result(0), "top-k 5"), "With top-k 5, the target would still choose “␣w0”.");
  assert.equal(text(0, result(1), "seed 2"), "With seed 2, the target would choose “␣w1” instead of “␣w0”. It was drafted, so it would be accepted.");
  assert.equal(text(0, result(7), "seed 2"), "With seed 2, the target would choose “␣w7” instead of “␣w0”. The drafted token “␣w0” would be rejected here.");
  assert.equal(text(1, result(7), "seed 2"), "With seed 2, the target would choose “␣w7” instead of “␣w12”.");
  assert.match(text(0, result(null, { open: "undecided", others: 0.25 }), "seed 2"), /cannot be known: .* not recorded\. .* have 0\.7500 of the probability\.$/);
});

test("a choice among tokens that are not all recorded is not said to be known", () => {
  const uncertain = result(1, { missed: 0.8 });
  assert.match(whatIfText(STEP, 0, uncertain, "seed 2"), /^With seed 2, the choice cannot be known: the recorded tokens have 0\.2000 of the probability with these settings\. If the choice is among them, it is “␣w1”\.$/);
  assert.match(whatIfText(STEP, 0, { ...uncertain, exact: false }, "seed 2"), /tokens have at least 0\.2000 of/);
  assert.match(whatIfText(STEP, 0, result(1, { missed: 1e-6 }), "seed 2"), /cannot be known: the recorded tokens have more than 0\.9999/);
  const marks = (made) => whatIfRows(STEP, 0, made, HEADER).flatMap(({ token, chosen, leading }) => (chosen || leading ? [[token, chosen]] : []));
  assert.deepEqual([marks(uncertain), marks(result(1))], [[[1, false]], [[1, true]]]);
});

test("the table has the most probable tokens, the chosen and the recorded one, and the sum of all others", () => {
  const rows = whatIfRows(STEP, 1, made({ top_k: 11 }, 1), HEADER);
  assert.deepEqual(rows.map(({ token }) => token), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, null]);
  assert.deepEqual(rows.filter(({ was }) => was).map(({ token, cut, p }) => [token, cut, p]), [[12, "top-k", 0]]);
  assert.deepEqual(rows.filter(({ drafted }) => drafted).map(({ token }) => token), [3]);
  for (const name of ["p", "recorded"]) assert.ok(Math.abs(rows.reduce((sum, row) => sum + row[name], 0) - 1) < 1e-9);
  assert.ok(rows.filter(({ chosen, leading }) => chosen && !leading).length === 1);
  assert.equal(rows.at(-1).count, 3); // recorded, but not in a row of their own
});

test("after a test the table has q of the first child that was tried", () => {
  const logits_q = TEXTS.map((_, i) => (i ? 0.5 ** i : 0));
  const trial = { node: 1, token: 0, p: 0.5, q: 0.5, uniform: 0.9, ratio: 1, accepted: false, rejection: 0.5, top_p: [], top_q: [], logits_q };
  const step = { ...STEP, choices: [choice(0, 0, { rejection: { trials: [trial], tokens: [], texts: [], residual: [], residual_probability: null } })] };
  const rows = whatIfRows(step, 0, made({}), HEADER);
  assert.deepEqual(rows.slice(0, 3).map(({ q }) => q), [0, 0.5, 0.25]);
  assert.ok(Math.abs(rows.reduce((sum, row) => sum + row.q, 0) - 1) < 1e-9);
  assert.equal(whatIfRows(STEP, 0, made({}), HEADER)[0].q, null);
});

test("the sentence is in Chinese too", () => {
  speak("zh");
  assert.equal(whatIfText(STEP, 0, result(7), "top-k 5"), "若 top-k 5，目标模型会选择“␣w7”，而不是“␣w0”。草稿词元“␣w0”在这里会被拒绝。");
  speak("en");
});
