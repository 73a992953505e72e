// The score of a node as a colour.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import { mixed, shadesOf, signOn } from "../../assets/js/shades.js";
import { unjudged } from "../../assets/js/guess.js";
import { moments, searchedStep } from "../../assets/js/search.js";

const tree = (columns) => ({ tree: { tokens: [1, 2, 3], parents: [-1, 0, 0], texts: ["a", "b", "c"], columns }, simulations: [] });

test("the highest score of a draft has the deepest shade, none the palest, and the root has no score", () => {
  const step = tree({ prior: [null, 0.9, 0.1], score: [5, 0.5, 0.25] });
  const { measure, top, of } = shadesOf(step, step, {});
  assert.deepEqual([measure, top, of(0), of(1), of(2)], ["score", 0.5, null, 1, 0.5]);
});

test("a draft without scores is coloured by what it has, and one that has nothing is not", () => {
  const shades = (columns) => shadesOf(tree(columns), tree(columns), {});
  assert.deepEqual([shades({ prior: [null, 0.8, 0.2] }).measure, shades({ prior: [null, 0.8, 0.2] }).of(2)], ["prior", 0.5]);
  assert.equal(shades({ visits: [null, 3, 1] }), null);
  assert.equal(shades({ prior: [null, null, 0.4] }).of(1), null);
});

test("a score without bound is the deepest", () => {
  const step = tree({ score: [null, Infinity, 0.2] });
  const { top, of } = shadesOf(step, step, {});
  assert.deepEqual([top, of(1), of(2)], [0.2, 1, 1]);
});

const traces = new URL("../../assets/traces/", import.meta.url);
const lanes = readdirSync(traces).flatMap((file) => JSON.parse(readFileSync(new URL(file, traces))).lanes);

test("a shade means the same at every moment of a search and at the verdict, and no score of it is beyond the deepest", () => {
  for (const { header, steps } of lanes.filter((lane) => lane.header.method === "aded")) {
    const step = steps.find(({ simulations }) => simulations.length > 10);
    const settings = header.method_settings;
    const { top } = shadesOf(step, step, settings);
    for (let moment = 1; moment < moments(step); moment += 3) {
      const seen = searchedStep(step, moment, settings);
      assert.equal(shadesOf(seen, step, settings)?.top ?? top, top);
      for (const score of seen.tree.columns.score) assert.ok(score === null || score === Infinity || score <= top + 1e-12);
    }
  }
});

test("who guesses sees a draft in the shades that it has without", () => {
  for (const { header, steps } of lanes) {
    for (const step of steps.slice(0, 8)) {
      const [open, covered] = [step, unjudged(step)].map((seen) => shadesOf(seen, step, header.method_settings));
      assert.deepEqual([covered?.measure, covered?.top, covered?.of(1)], [open?.measure, open?.top, open?.of(1)], header.method);
    }
  }
});

test("shades lie on the straight line between two colours, and a sign stands out on each", () => {
  assert.deepEqual([mixed("#000000", "#ffffff", 0), mixed("#000000", "#ffffff", 1), mixed("#102030", "#304050", 0.5)], ["#000000", "#ffffff", "#203040"]);
  assert.deepEqual([signOn("#f4eefa", ["#1d2329", "#ffffff"]), signOn("#5d2a8f", ["#1d2329", "#ffffff"])], ["#1d2329", "#ffffff"]);
});
