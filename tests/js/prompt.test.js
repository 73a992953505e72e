// The length of the prompt at its field.

import assert from "node:assert/strict";
import test from "node:test";

import { lengthNote } from "../../assets/page/controls/prompt.js";
import { speak } from "./words.js";

test("nothing is said of a prompt that is much shorter than the maximum", () => {
  for (const length of [0, 17_999]) assert.deepEqual(lengthNote("x".repeat(length), 20_000), { text: "", over: false });
});

test("near the maximum the length is said, and beyond it what to do", () => {
  assert.deepEqual(lengthNote("x".repeat(18_000), 20_000), { text: "18,000 of 20,000 characters", over: false });
  assert.equal(lengthNote("x".repeat(20_000), 20_000).over, false);
  assert.deepEqual(lengthNote("x".repeat(20_001), 20_000), { text: "The prompt has 20,001 characters, the maximum is 20,000; shorten it.", over: true });
});

test("a character of two code units is one character, as for the server", () => {
  assert.deepEqual(lengthNote("🙂".repeat(10), 10), { text: "10 of 10 characters", over: false });
  assert.equal(lengthNote("🙂".repeat(5), 10).text, "");
});

test("in Chinese too", () => {
  speak("zh");
  assert.equal(lengthNote("字".repeat(10), 10).text, "10 / 10 个字符");
  assert.equal(lengthNote("字".repeat(11), 10).text, "提示词有 11 个字符，上限为 10 个；请缩短。");
  speak("en");
});
