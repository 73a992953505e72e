// What a head takes over from a step.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { renderFeatures } from "../../assets/cards/features/card.js";
import { tableOf } from "../../assets/page/export/exports.js";
import { parts } from "./document.js";
import { speak } from "./words.js";

const run = JSON.parse(readFileSync(new URL("../../assets/traces/12-which-layer-knows.json", import.meta.url))).lanes.find(({ header }) => header.method === "eagle");
const layers = run.header.method_settings.hidden_layers;

test("every new token has an entry after those of the text, from the hidden states at the token before it", () => {
  speak("en");
  const part = parts();
  let known = run.header.prompt_tokens.length - 1;
  for (const step of run.steps) {
    renderFeatures(part, step, layers);
    const [, ...rows] = tableOf("features");
    assert.deepEqual(rows.map(([slot]) => slot), step.emitted.map((_, i) => known + i));
    assert.deepEqual(rows.map((row) => row[4]), step.emitted);
    assert.deepEqual(rows.slice(1).map((row) => row[2]), step.emitted.slice(0, -1));
    assert.equal(part("features-rows").children.length, step.emitted.length);
    known += step.emitted.length;
  }
});

test("the card says which layers the head reads, and what became of each token", () => {
  const part = parts();
  renderFeatures(part, run.steps[0], layers);
  assert.equal(part("features-card").hidden, false);
  assert.match(part("features-key").textContent, /hidden states after layers 2, 15, 27/);
  assert.deepEqual(part("features-rows").find("span").map((chip) => chip.textContent), [...Array(4).fill("accepted ✓"), "bonus token ■"]);
  renderFeatures(part, run.steps[0], [-1]);
  assert.match(part("features-key").textContent, /the target's last hidden state and/);
});

test("a method whose drafter reads no hidden states has no such card", () => {
  const part = parts();
  for (const none of [undefined, "2", 2]) {
    renderFeatures(part, run.steps[0], none);
    assert.equal(part("features-card").hidden, true);
  }
});
