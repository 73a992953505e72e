// The score of a node as a colour.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { mixed, shadesOf, signOn } from "../../assets/js/shades.js";
import { moments, searchedStep } from "../../assets/js/search.js";

const tree = (columns) => ({ tree: { tokens: [1, 2, 3], parents: [-1, 0, 0], texts: ["a", "b", "c"], columns }, simulations: [] });

test("the highest score of a draft has the deepest shade, none the palest, and the root has no score", () => {
  const { measure, top, of } = shadesOf(tree({ prior: [null, 0.9, 0.1], score: [5, 0.5, 0.25] }), null, {});
  assert.deepEqual([measure, top, of(0), of(1), of(2)], ["score", 0.5, null, 1, 0.5]);
});

test("a draft without scores is coloured by what it has, and one that has nothing is not", () => {
  assert.equal(shadesOf(tree({ prior: [null, 0.9, 0.1] }), null, {}).measure, "prior");
  assert.equal(shadesOf(tree({ visits: [null, 3, 1] }), null, {}), null);
  assert.equal(shadesOf(tree({ prior: [null, null, 0.4] }), null, {}).of(1), null);
});

test("a score without bound is the deepest", () => {
  const { top, of } = shadesOf(tree({ score: [null, Infinity, 0.2] }), null, {});
  assert.deepEqual([top, of(1), of(2)], [0.2, 1, 1]);
});

test("a shade means the same at every moment of a search, and no score of it is beyond the deepest", () => {
  const [race] = [JSON.parse(readFileSync(new URL("../../assets/traces/01-a-maths-teacher.json", import.meta.url)))];
  const lane = race.lanes.find(({ header }) => header.method === "aded");
  const step = lane.steps.find(({ simulations }) => simulations.length > 10);
  const settings = lane.header.method_settings;
  const tops = new Set();
  for (let moment = 1; moment < moments(step); moment++) {
    const seen = searchedStep(step, moment, settings);
    const shades = shadesOf(seen, step, settings);
    tops.add(shades?.top);
    for (const score of seen.tree.columns.score) assert.ok(score === null || score <= shades.top + 1e-12);
  }
  assert.equal([...tops].filter((top) => top !== undefined).length, 1);
});

test("shades lie on the straight line between two colours, and a sign stands out on each", () => {
  assert.deepEqual([mixed("#000000", "#ffffff", 0), mixed("#000000", "#ffffff", 1), mixed("#102030", "#304050", 0.5)], ["#000000", "#ffffff", "#203040"]);
  assert.deepEqual([signOn("#f4eefa", ["#1d2329", "#ffffff"]), signOn("#5d2a8f", ["#1d2329", "#ffffff"])], ["#1d2329", "#ffffff"]);
});
