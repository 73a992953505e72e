// The logit lens: the cells, the sentence, and the table; entropy and forks from the recorded logits.

import assert from "node:assert/strict";
import test from "node:test";

import { lensText, renderLens, showSubject } from "../../assets/cards/lens/card.js";
import { entropyBounds, isFork } from "../../assets/page/record/entropy.js";
import { parts } from "./document.js";
import { speak } from "./words.js";

const at = (ranks) => ({ tokens: [7, 8, 4], texts: [" x", " y", " a"], probabilities: [0.5, 0.25, 0.9], chosen: [0.1, 0.2, 0.9], ranks });
const LENS = { layers: [2, 15, 30], eagle: [2, 15], positions: [at([9, 2, 1]), at([4, 1, 1]), at([1, 3, 2])] };
const STEP = { lens: LENS, tree: { tokens: [3, 4, 5], texts: [" r", " a", " b"] }, choices: [0, 1, 2].map((node) => ({ node, token: 4, text: " a" })) };

test("a cell has the token of the layer, its probability, and a tick or the rank of the target's token", () => {
  speak("en");
  const part = parts();
  renderLens(part, STEP);
  assert.equal(part("lens-card").hidden, false);
  assert.deepEqual(part("lens-head").children.map((cell) => cell.textContent), ["layer", "␣r → ␣a", "␣a → ␣a", "␣b → ␣a"]);
  const rows = part("lens-rows").children.map((row) => row.children.map((cell) => cell.textContent));
  assert.equal(part("lens-rows").children[0].children[1].style["--heat"], "50%");
  assert.deepEqual(rows[0], ["2 ◂ EAGLE-3", "␣x 0.50 #9", "␣x 0.50 #4", "␣x 0.50 ✓"]);
  assert.deepEqual(rows[1], ["15 ◂ EAGLE-3", "␣y 0.25 #2", "␣y 0.25 ✓ ▼", "␣y 0.25 #3"]);
  assert.deepEqual(rows[2], ["30", "␣a 0.90 ✓ ▼", "␣a 0.90 ✓", "␣a 0.90 #2"]);
});

test("the sentence names the layer from which on more than half of the positions have the target's token", () => {
  speak("en");
  assert.equal(lensText(LENS), "From layer 30 of 30 on, the target's token is the most probable one at 2 of 3 positions. EAGLE-3 reads layers 2, 15.");
  assert.match(lensText({ ...LENS, positions: [at([4, 1, 1]), at([9, 1, 1]), at([1, 1, 1])] }), /^From layer 15 of 30 on, .* at 3 of 3 positions/);
  assert.match(lensText({ ...LENS, positions: [at([1, 1, 2]), at([9, 1, 1]), at([1, 1, 2])] }), /^From layer 30 of 30 on, .* at 1 of 3 positions/);
  speak("zh");
  assert.equal(lensText(LENS), "从第 30 层起（共 30 层），在 3 个位置中的 2 个，目标模型选的词元一直最可能。EAGLE-3 读取第 2, 15 层。");
  speak("en");
});

test("the lens is open in a recorded race that is about it, and closed again in the next one", () => {
  const card = { dataset: {}, open: false };
  const race = (source, lens) => ({ source, runs: [{ steps: [{ lens: null }, { lens }] }] });
  for (const [source, lens, open] of [["recorded", LENS, true], ["recorded", null, false], ["run", LENS, false]]) {
    showSubject(card, race(source, lens));
    assert.deepEqual([card.open, card.dataset.subject], [open, String(open)]);
  }
  card.open = true; // by the user
  showSubject(card, race("run", LENS));
  assert.equal(card.open, true);
});

test("without a recorded lens the card is hidden", () => {
  const part = parts();
  renderLens(part, { ...STEP, lens: null });
  assert.equal(part("lens-card").hidden, true);
});

// A geometric distribution of which the first tokens are recorded.
const sums = (from, t) => Array.from({ length: 200 }, (_, i) => 2 ** (-(i + 1) / t)).slice(from).reduce((sum, p) => sum + p, 0);
const logitsOf = (count) => ({ values: Array.from({ length: count }, (_, i) => -(i + 1) * Math.LN2), others: [0.5, 1, 1.5, 2, 1].map((t) => sums(count, t)) });

test("the bounds of the entropy contain it, and meet if all tokens are recorded", () => {
  for (const count of [1, 3, 10]) {
    const [least, most] = entropyBounds(logitsOf(count));
    assert.ok(least <= 2 && 2 <= most, `${least} ${most}`);
    assert.ok(most - least < 2 ** (1 - count));
  }
  const [least, most] = entropyBounds({ values: [-Math.LN2, -Math.LN2], others: [0, 0, 0, 0, 0] });
  assert.deepEqual([least, most].map((bits) => bits.toFixed(9)), ["1.000000000", "1.000000000"]);
});

test("a fork is a choice whose second token is at least half as probable as its first", () => {
  const choice = (...p) => ({ logits: { values: p.map(Math.log) } });
  assert.deepEqual([choice(0.5, 0.26), choice(0.5, 0.24), choice(1), { logits: null }, undefined].map(isFork), [true, false, false, false, false]);
});
