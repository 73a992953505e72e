// The score of a node as a colour.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import { mixed, scoreColours, contrasting } from "../../assets/cards/tree/scorecolours.js";
import { unverified } from "../../assets/page/record/stepview.js";
import { moments, searchedStep } from "../../assets/page/record/search.js";

const tree = (columns) => ({ tree: { tokens: [1, 2, 3], parents: [-1, 0, 0], texts: ["a", "b", "c"], columns }, simulations: [] });

test("the highest score is the darkest, 0 the lightest, and the root has no score", () => {
  const step = tree({ prior: [null, 0.9, 0.1], score: [5, 0.5, 0.25] });
  const { measure, top, of } = scoreColours(step, step, {});
  assert.deepEqual([measure, top, of(0), of(1), of(2)], ["score", 0.5, null, 1, 0.5]);
});

test("a draft without scores is coloured by value or prior, and one without these is not", () => {
  const colours = (columns) => scoreColours(tree(columns), tree(columns), {});
  assert.deepEqual([colours({ prior: [null, 0.8, 0.2] }).measure, colours({ prior: [null, 0.8, 0.2] }).of(2)], ["prior", 0.5]);
  assert.equal(colours({ visits: [null, 3, 1] }), null);
  assert.equal(colours({ prior: [null, null, 0.4] }).of(1), null);
});

test("an infinite score is the darkest", () => {
  const step = tree({ score: [null, Infinity, 0.2] });
  const { top, of } = scoreColours(step, step, {});
  assert.deepEqual([top, of(1), of(2)], [0.2, 1, 1]);
});

const traces = new URL("../../assets/traces/", import.meta.url);
const runs = readdirSync(traces).flatMap((file) => JSON.parse(readFileSync(new URL(file, traces))).lanes);

test("a colour means the same at every moment of a search and after verification, and no score exceeds the scale", () => {
  for (const { header, steps } of runs.filter((run) => run.header.method === "aded")) {
    const step = steps.find(({ simulations }) => simulations.length > 10);
    const settings = header.method_settings;
    const { top } = scoreColours(step, step, settings);
    for (let moment = 1; moment < moments(step); moment += 3) {
      const seen = searchedStep(step, moment, settings);
      assert.equal(scoreColours(seen, step, settings)?.top ?? top, top);
      for (const score of seen.tree.columns.score) assert.ok(score === null || score === Infinity || score <= top + 1e-12);
    }
  }
});

test("a hidden step has the same colours as a verified one", () => {
  for (const { header, steps } of runs) {
    for (const step of steps.slice(0, 8)) {
      const [open, covered] = [step, unverified(step)].map((seen) => scoreColours(seen, step, header.method_settings));
      assert.deepEqual([covered?.measure, covered?.top, covered?.of(1)], [open?.measure, open?.top, open?.of(1)], header.method);
    }
  }
});

test("colours are interpolated between two ends, and signs contrast with each", () => {
  assert.deepEqual([mixed("#000000", "#ffffff", 0), mixed("#000000", "#ffffff", 1), mixed("#102030", "#304050", 0.5)], ["#000000", "#ffffff", "#203040"]);
  assert.deepEqual([contrasting("#f4eefa", ["#1d2329", "#ffffff"]), contrasting("#5d2a8f", ["#1d2329", "#ffffff"])], ["#1d2329", "#ffffff"]);
});
