// The sentence about a turn: what was read, and how the drafters with a memory did beside the first turn.

import assert from "node:assert/strict";
import test from "node:test";

import { obstacleTo, turnText } from "../../assets/page/turns/turns.js";
import { speak } from "./words.js";

function run(label, { tokens = 24, steps = 10, read = 20, kept = 140, first = 2, learned = 1, number = 2 } = {}) {
  return { label, steps: Array.from({ length: steps }, () => ({})), counts: [tokens], earlierPrompts: learned, turn: { number, read, kept, first, before: [], message: "And?" } };
}
const plain = run("Plain decoding", { steps: 24, first: 1, learned: null });
const said = (...runs) => turnText({ runs, running: false });

test("a first turn has no sentence", () => {
  assert.equal(said({ ...plain, turn: null }), "");
});

test("tokens that were read and kept are said once if they are the same for all runs", () => {
  assert.equal(said(plain, run("Medusa", { learned: null })), "Turn 2 read 20 tokens and kept 140 in the KV cache.");
  assert.match(said(run("ADED", { read: 1 })), /^Turn 2 read 1 token and kept 140/);
  assert.equal(said(plain, run("EAGLE", { learned: null, read: 160, kept: 0 })), "Turn 2: Plain decoding read 20 tokens and kept 140; EAGLE read 160 tokens and kept 0.");
});

test("a drafter with a memory is compared with its first turn, also if it does worse", () => {
  assert.match(said(plain, run("ADED")), /cache\. With what it learned, ADED wrote 2\.40 tokens per step: more than in turn 1 \(2\.00, another text\)\.$/);
  assert.match(said(plain, run("ADED", { tokens: 18 })), /ADED wrote 1\.80 tokens per step: fewer than in turn 1 \(2\.00, another text\)\.$/);
  assert.match(said(plain, run("ADED", { tokens: 20 })), /ADED wrote 2\.00 tokens per step, as in turn 1 \(another text\)\.$/);
  assert.match(turnText({ runs: [run("ADED")], running: true }), /ADED has written 2\.40 tokens per step/);
});

test("nothing is said of a memory that was lost, and of a run without steps", () => {
  for (const lost of [{ learned: 0 }, { steps: 0 }, { first: null }]) assert.equal(said(plain, run("ADED", lost)), "Turn 2 read 20 tokens and kept 140 in the KV cache.");
});

test("why a race cannot be continued: a later one has run on this page, or it ran before the page was loaded", () => {
  const own = new Set(["first", "second"]);
  assert.equal(obstacleTo("first", "run", own), "earlier");
  assert.equal(obstacleTo("other", "run", own), "closed");
  assert.equal(obstacleTo("1", "recorded", own), null);
});

test("in Chinese too", () => {
  speak("zh");
  assert.equal(said(plain, run("ADED")), "第 2 轮：读取 20 个词元，KV 缓存保留 140 个。ADED 带着学到的内容，写出每步 2.40 个词元：比第 1 轮多（2.00，文本不同）。");
  speak("en");
});
