// The verdict: speed-ups as measured, and texts compared token by token.

import assert from "node:assert/strict";
import test from "node:test";

import { firstDifference, verdict } from "../../assets/js/verdict.js";
import "./words.js";

const TOKENS = Array.from({ length: 12 }, (_, i) => i + 1);

function run(method, seconds, { tokens = TOKENS, lossless = true, temperature = 0, finish = "length" } = {}) {
  const label = { plain: "Plain decoding", aded: "ADED" }[method] || method;
  const steps = tokens.map((token) => ({ emitted: [token], texts: [String(token)] }));
  const ends = tokens.map((_, i) => (seconds * (i + 1)) / tokens.length);
  return { label, header: { method, label, lossless, settings: { temperature } }, steps, ends, counts: tokens.map((_, i) => i + 1), finish_reason: finish };
}
const of = (...runs) => verdict({ runs, running: false });
const other = [99, ...TOKENS.slice(1)];

test("faster, slower and equal runs are reported with their speed-up", () => {
  const against = (seconds) => of(run("plain", seconds), run("aded", 1)).sentence;
  assert.equal(against(1.6), "ADED has a speed-up of 1.6× over plain decoding here; both texts are identical.");
  assert.equal(against(0.8), "ADED is slower than plain decoding here (0.80×); both texts are identical.");
  assert.match(against(1.02), /^ADED is as fast as plain decoding here \(1\.02×\)/);
});

test("several methods are ranked in one sentence, slower ones too", () => {
  const three = (...s) => of(run("plain", s[0]), run("aded", s[1]), run("lookup", s[2])).sentence;
  assert.equal(three(2.4, 1, 2), "ADED has a speed-up of 2.4× over plain decoding here; lookup 1.2×; all three texts are identical.");
  assert.equal(three(1, 0.5, 2), "ADED has a speed-up of 2.0× over plain decoding here; lookup is slower (0.50×); all three texts are identical.");
});

test("the first difference is named, by token ids and not by texts", () => {
  assert.match(of(run("plain", 2), run("aded", 1, { tokens: other })).sentence, /the texts differ from token 1 on\.$/);
  const renamed = run("aded", 1);
  renamed.steps[0].texts = ["another"];
  assert.match(of(run("plain", 2), renamed).sentence, /identical/);
  assert.match(
    of(run("plain", 2), run("aded", 1), run("lookup", 1, { tokens: other })).sentence,
    /the text of lookup differs from token 1 on; the other two texts are identical\.$/,
  );
});

test("a difference is an error for lossless greedy methods, and explained for sampled or lossy ones", () => {
  const detail = (settings) => of(run("plain", 2, settings), run("aded", 1, { ...settings, tokens: other })).detail;
  assert.match(detail({}), /should be identical; here they are not/);
  assert.match(detail({ temperature: 0.7 }), /their distribution is the same/);
  const lossy = of(run("plain", 2), run("aded", 1, { tokens: other, lossless: false })).detail;
  assert.match(lossy, /^ADED is a lossy method: its output distribution may differ/);
  assert.doesNotMatch(lossy, /should be identical/);
});

test("a running or stopped race compares the tokens that all runs have written", () => {
  const part = run("plain", 2, { tokens: TOKENS.slice(0, 5), finish: null });
  const { sentence } = verdict({ runs: [part, run("aded", 1)], running: true });
  assert.match(sentence, /so far/);
  assert.match(sentence, /the first 5 tokens, which both have written, are identical/);
  const stopped = of(run("plain", 2, { tokens: [1], finish: "cancelled" }), run("aded", 1)).sentence;
  assert.match(stopped, /^Stopped early\./);
  assert.match(stopped, /the first token, which both have written, is identical/);
});

test("without plain decoding each run is described alone; an empty race has a verdict too", () => {
  const { sentence } = of(run("aded", 1), run("lookup", 2));
  assert.match(sentence, /^ADED: 12 tokens per second, 1\.0 tokens per step; lookup: /);
  assert.match(sentence, /both texts are identical\.$/);
  assert.match(of(run("aded", 1)).sentence, /^ADED: /);
  assert.equal(of().sentence, "No step yet.");
  assert.equal(of(run("plain", 1, { tokens: [] })).sentence, "No step yet.");
});

test("the first difference of two lists", () => {
  const cases = [[[1, 2], [1, 2, 3], null], [[1, 2], [1, 3], 1], [[], [1], null], [[4], [5], 0]];
  for (const [a, b, at] of cases) assert.equal(firstDifference(a, b), at);
});
