// Positions and labels of a draft tree in its box.

import assert from "node:assert/strict";
import test from "node:test";

import { numbersOf } from "../../assets/cards/tree/geometry.js";

test("the numbers of a node call the prior P and a draft probability q", () => {
  const node = { visits: null, prior: 0.36, folded: 0 };
  assert.equal(numbersOf({ ...node, visits: 4, priorTerm: "prior" }), "N 4 · P 0.36");
  assert.equal(numbersOf({ ...node, priorTerm: "draft-probability" }), "q 0.36");
  assert.equal(numbersOf({ ...node, prior: null, visits: 1, folded: 3 }), "N 1 · +3");
});
