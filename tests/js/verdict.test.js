// The verdict in words: never faster than measured, never identical where a token differs.

import assert from "node:assert/strict";
import test from "node:test";

import { firstDifference, verdict } from "../../assets/js/verdict.js";
import "./words.js";

const TOKENS = Array.from({ length: 12 }, (_, i) => i + 1);

function lane(method, seconds, { tokens = TOKENS, lossless = true, temperature = 0, finish = "length" } = {}) {
  const label = { plain: "Plain decoding", aded: "ADED" }[method] || method;
  const steps = tokens.map((token) => ({ emitted: [token], texts: [String(token)] }));
  const ends = tokens.map((_, i) => (seconds * (i + 1)) / tokens.length);
  return { label, header: { method, label, lossless, settings: { temperature } }, steps, ends, counts: tokens.map((_, i) => i + 1), finish_reason: finish };
}
const of = (...lanes) => verdict({ lanes, running: false });
const other = [99, ...TOKENS.slice(1)];

test("faster is said with the ratio, slower plainly, equal as equal", () => {
  const against = (seconds) => of(lane("plain", seconds), lane("aded", 1)).sentence;
  assert.equal(against(1.6), "ADED is 1.6 times plain decoding here; both texts are identical.");
  assert.equal(against(0.8), "ADED is not faster: 0.80 times plain decoding here; both texts are identical.");
  assert.match(against(1.02), /^ADED is as fast as plain decoding here \(1\.02 times\)/);
});

test("several methods are ranked in one sentence, losers too", () => {
  const three = (...s) => of(lane("plain", s[0]), lane("aded", s[1]), lane("lookup", s[2])).sentence;
  assert.equal(three(2.4, 1, 2), "ADED is 2.4 times plain decoding here; lookup 1.2 times; all three texts are identical.");
  assert.equal(three(1, 0.5, 2), "ADED is 2.0 times plain decoding here; lookup is not faster: 0.50 times; all three texts are identical.");
});

test("the first difference is named, by ids and not by texts", () => {
  assert.match(of(lane("plain", 2), lane("aded", 1, { tokens: other })).sentence, /the texts differ from token 1 on\.$/);
  const renamed = lane("aded", 1);
  renamed.steps[0].texts = ["another"];
  assert.match(of(lane("plain", 2), renamed).sentence, /identical/);
  assert.match(
    of(lane("plain", 2), lane("aded", 1), lane("lookup", 1, { tokens: other })).sentence,
    /the text of lookup differs from token 1 on; the other two texts are identical\.$/,
  );
});

test("a difference is a fault where greedy and lossless, and explained where sampled or lossy", () => {
  const detail = (settings) => of(lane("plain", 2, settings), lane("aded", 1, { ...settings, tokens: other })).detail;
  assert.match(detail({}), /should not differ: here they did/);
  assert.match(detail({ temperature: 0.7 }), /the distribution/);
  const lossy = of(lane("plain", 2), lane("aded", 1, { tokens: other, lossless: false })).detail;
  assert.match(lossy, /^ADED may change the text: not a lossless method\./);
  assert.doesNotMatch(lossy, /should not/);
});

test("a running or stopped race compares what all lanes have written", () => {
  const part = lane("plain", 2, { tokens: TOKENS.slice(0, 5), finish: null });
  const { sentence } = verdict({ lanes: [part, lane("aded", 1)], running: true });
  assert.match(sentence, /so far/);
  assert.match(sentence, /the first 5 tokens, which both have written, are identical/);
  const stopped = of(lane("plain", 2, { tokens: [1], finish: "cancelled" }), lane("aded", 1)).sentence;
  assert.match(stopped, /^Stopped midway\./);
  assert.match(stopped, /the first token, which both have written, is identical/);
});

test("without plain decoding every lane is described; an empty race has a verdict too", () => {
  const { sentence } = of(lane("aded", 1), lane("lookup", 2));
  assert.match(sentence, /^ADED: 12 tokens a second, 1\.0 tokens a forward pass; lookup: /);
  assert.match(sentence, /both texts are identical\.$/);
  assert.match(of(lane("aded", 1)).sentence, /^ADED: /);
  assert.equal(of().sentence, "No step yet.");
  assert.equal(of(lane("plain", 1, { tokens: [] })).sentence, "No step yet.");
});

test("the first difference of two lists", () => {
  const cases = [[[1, 2], [1, 2, 3], null], [[1, 2], [1, 3], 1], [[], [1], null], [[4], [5], 0]];
  for (const [a, b, at] of cases) assert.equal(firstDifference(a, b), at);
});
