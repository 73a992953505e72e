// The pool of phrases below the draft tree.

import assert from "node:assert/strict";
import test from "node:test";

import { renderPool } from "../../assets/cards/pool/card.js";
import { parts } from "./document.js";
import { speak } from "./words.js";

const POOL = { size: 40, token: 3, text: " in", phrases: [[4, 5], [6]], texts: [[" the", " end"], [" it"]], drafted: 1 };

test("the phrases that begin with the token are listed, those in the draft framed", () => {
  speak("en");
  const part = parts();
  renderPool(part, POOL);
  assert.equal(part("pool-card").hidden, false);
  assert.equal(part("pool-note").textContent, "40 phrases in all; 2 begin with “␣in”, of which 1 are in the draft (framed).");
  const items = part("pool-phrases").children;
  assert.deepEqual(items.map((item) => [item.find("code")[0].textContent, item.attributes["data-drafted"]]), [["␣in ␣the ␣end", "true"], ["␣in ␣it", "false"]]);
});

test("without a pool the card is hidden, and of a large one the rest is counted", () => {
  const part = parts();
  renderPool(part, null);
  assert.equal(part("pool-card").hidden, true);
  const many = Array.from({ length: 23 }, (_, i) => [i]);
  renderPool(part, { ...POOL, phrases: many, texts: many.map(() => [" a"]), drafted: 0 });
  assert.match(part("pool-note").textContent, /3 more phrases are not shown\.$/);
  assert.equal(part("pool-phrases").children.length, 20);
});
