// The table of the lattice of head predictions.

import assert from "node:assert/strict";
import test from "node:test";

import { renderLattice } from "../../assets/cards/lattice/card.js";
import { columnsOf, isRescored } from "../../assets/cards/lattice/columns.js";
import { parts } from "./document.js";
import { speak } from "./words.js";

const HEAD = { tokens: [4, 5, 6], texts: [" a", " b", " c"], heads: [0.5, 0.3, 0.1], rescored: [] };

test("without rescoring a column has the head's most probable tokens", () => {
  const [column] = columnsOf([HEAD], 2);
  assert.deepEqual(column.map(({ token, rescored, best }) => [token, rescored, best]), [[4, null, true], [5, null, false]]);
  assert.equal(isRescored([HEAD]), false);
});

test("a rescored column is sorted by the rescored probabilities and keeps those of the head", () => {
  const rescored = { ...HEAD, rescored: [0.05, 0.15, 0.7] };
  const [first, second] = columnsOf([rescored, HEAD], 3);
  assert.deepEqual(first.map(({ text, head, rescored: after }) => [text, head, after]), [[" c", 0.1, 0.7], [" b", 0.3, 0.15], [" a", 0.5, 0.05]]);
  assert.deepEqual(first.map(({ best }) => best), [true, false, false]);
  assert.deepEqual(second.map(({ token }) => token), [4, 5, 6]);
  assert.equal(isRescored([HEAD, rescored]), true);
});

test("a cell has the token and its probabilities before and after rescoring", () => {
  speak("en");
  const part = parts();
  renderLattice(part, [{ ...HEAD, rescored: [0.05, 0.15, 0.7] }, HEAD]);
  assert.equal(part("lattice-card").hidden, false);
  assert.deepEqual(part("lattice-head").children.map((cell) => cell.textContent), ["head 1", "head 2"]);
  const [first] = part("lattice-rows").children;
  assert.deepEqual(first.children.map((cell) => cell.textContent), ["␣c 0.10 → 0.70", "␣a 0.50"]);
  assert.equal(first.children[0].find("i")[0].style.width, "10%");
  renderLattice(part, []);
  assert.equal(part("lattice-card").hidden, true);
});
