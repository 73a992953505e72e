// The verdict: tokens and forward passes of every run, and texts compared token by token.

import assert from "node:assert/strict";
import test from "node:test";

import { firstDifference, verdict as verdictOf } from "../../assets/cards/verdict/card.js";
import { sentences } from "../../assets/page/core/words.js";
import "./words.js";

const TOKENS = Array.from({ length: 12 }, (_, i) => i + 1);

function run(method, seconds, { tokens = TOKENS, lossless = true, temperature = 0, finish = "length", dtype = "float32" } = {}) {
  const label = { plain: "Plain decoding", aded: "ADED" }[method] || method;
  const steps = tokens.map((token) => ({ emitted: [token], texts: [String(token)] }));
  const ends = tokens.map((_, i) => (seconds * (i + 1)) / tokens.length);
  return { label, header: { method, label, lossless, dtype, settings: { temperature } }, steps, ends, counts: tokens.map((_, i) => i + 1), finish_reason: finish };
}
function verdict(race) {
  const { sentence, details } = verdictOf(race);
  return { sentence, detail: sentences(...details) };
}
const of = (...runs) => verdict({ runs, running: false });
const other = [99, ...TOKENS.slice(1)];

test("tokens and forward passes of all runs are in one sentence, plain decoding last", () => {
  const aded = run("aded", 1, { tokens: TOKENS });
  aded.steps = [0, 3, 6, 8, 10].map((from, i, all) => ({ emitted: TOKENS.slice(from, all[i + 1]), texts: [] }));
  const { sentence, detail } = of(run("plain", 2), aded, run("lookup", 1));
  assert.equal(sentence, "ADED wrote 12 tokens in 5 forward passes, lookup needed 12, plain decoding needed 12.");
  assert.equal(detail, "All three texts are identical. A speed-up is given from 24 tokens on.");
});

test("runs of different lengths are named with their own numbers", () => {
  const { sentence, detail } = of(run("plain", 2), run("aded", 1, { tokens: TOKENS.slice(0, 3) }));
  assert.equal(sentence, "ADED wrote 3 tokens in 3 forward passes, plain decoding 12 tokens in 12.");
  assert.match(detail, /^The texts differ in length; their first 3 tokens are identical\./);
});

test("the first difference is named, by token ids and not by texts", () => {
  assert.match(of(run("plain", 2), run("aded", 1, { tokens: other })).detail, /^The texts differ from token 1 on\./);
  const renamed = run("aded", 1);
  renamed.steps[0].texts = ["another"];
  assert.match(of(run("plain", 2), renamed).detail, /identical/);
  const later = [...TOKENS.slice(0, 8), 99, ...TOKENS.slice(9)];
  const three = [run("plain", 2), run("aded", 1, { tokens: later }), run("lookup", 1, { tokens: other })];
  assert.match(of(...three).detail, /^ADED differs from plain decoding from token 9 on; lookup from token 1 on\./);
  assert.match(of(...three, run("suffix", 1)).detail, /; lookup from token 1 on; the other two texts are identical\./);
  assert.match(of(...three, run("suffix", 1, { tokens: later })).detail, /^ADED and suffix differ from plain decoding from token 9 on; lookup from token 1 on\./);
  assert.match(of(...three.slice(1), run("suffix", 1)).detail, /^Lookup differs from ADED from token 1 on; suffix from token 9 on\./);
  assert.match(
    of(run("plain", 2), run("aded", 1), run("lookup", 1, { tokens: other })).detail,
    /^The text of lookup differs from token 1 on; the other two texts are identical\./,
  );
});

test("a difference is an error for lossless greedy methods, and explained for sampled or lossy ones", () => {
  const detail = (settings) => of(run("plain", 2, settings), run("aded", 1, { ...settings, tokens: other })).detail;
  assert.match(detail({}), /should be identical; here they are not/);
  assert.match(detail({ temperature: 0.7 }), /their distribution is the same/);
  const lossy = of(run("plain", 2), run("aded", 1, { tokens: other, lossless: false })).detail;
  assert.match(lossy, / ADED is a lossy method: its output distribution may differ/);
  assert.doesNotMatch(lossy, /should be identical/);
});

test("a running or stopped race compares the tokens that all runs have written", () => {
  const part = run("plain", 2, { tokens: TOKENS.slice(0, 5), finish: null });
  const { sentence, detail } = verdict({ runs: [part, run("aded", 1)], running: true });
  assert.match(sentence, /^So far: ADED wrote 12 tokens in 12 forward passes, plain decoding 5 tokens in 5\.$/);
  assert.match(detail, /^The first 5 tokens, which both have written, are identical/);
  const stopped = of(run("plain", 2, { tokens: [1], finish: "cancelled" }), run("aded", 1));
  assert.match(stopped.sentence, /^Stopped early\./);
  assert.match(stopped.detail, /^The first token, which both have written, is identical/);
});

test("a run alone is described alone; an empty race has a verdict too", () => {
  const alone = of(run("aded", 1));
  assert.deepEqual([alone.sentence, alone.detail], ["ADED wrote 12 tokens in 12 forward passes.", ""]);
  assert.equal(of().sentence, "No step yet.");
  assert.equal(of(run("plain", 1, { tokens: [] })).sentence, "No step yet.");
});

test("the first difference of two lists", () => {
  const cases = [[[1, 2], [1, 2, 3], null], [[1, 2], [1, 3], 1], [[], [1], null], [[4], [5], 0]];
  for (const [a, b, at] of cases) assert.equal(firstDifference(a, b), at);
});

test("a difference of a method that draws as plain decoding does is explained by rounding in half precision", () => {
  const half = (method, more) => run(method, 1, { dtype: "bfloat16", ...more });
  assert.match(of(half("plain"), half("aded", { tokens: other })).detail, /In bfloat16, forward passes of different size round differently/);
  const sampled = { temperature: 0.8, tokens: other };
  assert.match(of(half("plain", { temperature: 0.8 }), half("aded", sampled)).detail, /In bfloat16/);
  const lossy = half("medusa", { ...sampled, lossless: false });
  assert.match(of(half("plain", { temperature: 0.8 }), half("aded", sampled), lossy).detail, / medusa is a lossy method: .* ADED is lossless, but in bfloat16 forward passes/);
  assert.match(of(half("plain", { temperature: 0.8 }), half("speculative", sampled)).detail, /their distribution is the same/);
});

test("runs that were slower than plain decoding in every repeat are named, once enough tokens are written", () => {
  const tokens = Array.from({ length: 30 }, (_, i) => i + 1);
  const timed = (method, seconds, repeats = []) => ({ ...run(method, seconds, { tokens }), repeats });
  assert.match(of(timed("plain", 1), timed("aded", 2)).detail, /ADED was slower than plain decoding\./);
  assert.match(of(timed("plain", 1, [1, 1]), timed("aded", 2, [1.5, 2]), timed("lookup", 2, [2, 2])).detail, /Drafting was slower than plain decoding\./);
  assert.match(of(timed("plain", 1), timed("aded", 2), timed("lookup", 2), timed("suffix", 1)).detail, /ADED and lookup were slower/);
  assert.doesNotMatch(of(timed("plain", 1, [1, 1]), timed("aded", 2, [0.9, 2])).detail, /slower/);
  assert.doesNotMatch(of(run("plain", 1), run("aded", 2)).detail, /slower/);
});
