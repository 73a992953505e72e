// Predict, then reveal: the target's branch is always offered, and the verification is never visible before.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";

import { branches, score, targetBranch } from "../../assets/cards/prediction/card.js";
import { unverified, unverifiedLayout } from "../../assets/page/record/stepview.js";
import { covered, createPlayer, createState } from "../../assets/page/shell/player.js";
import { emptyRace, readLines } from "../../assets/page/record/record.js";

const folder = new URL("../../assets/traces/", import.meta.url);
const races = readdirSync(folder).map((name) => JSON.parse(readFileSync(new URL(name, folder), "utf-8")));
const steps = races.flatMap(({ lanes }) => lanes.flatMap((run) => run.steps));

test("branches are children of the root, at most five, with the one that the target chose", () => {
  for (const step of steps) {
    const offered = branches(step);
    assert.ok(offered.length <= 5 && new Set(offered).size === offered.length);
    for (const node of offered) assert.equal(step.tree.parents[node], 0);
    if (targetBranch(step) >= 0) assert.ok(offered.includes(targetBranch(step)));
  }
});

test("the target's branch is the one of the walk, or TARGET if it was not drafted", () => {
  for (const step of steps.filter((one) => one.choices.length && one.tree.tokens.length > 1)) {
    const taken = targetBranch(step);
    if (taken >= 0) assert.equal(step.tree.tokens[taken], step.choices[0].token);
    else assert.ok(!step.choices[0].drafted || step.tree.reason.includes("cut at the end"));
  }
});

test("a hidden step contains no verdicts", () => {
  const step = steps.find((one) => one.path.length > 2);
  const verdicts = new Set(unverified(step).tree.verdict);
  assert.deepEqual([...verdicts].sort(), ["root", "unverified"]);
});

test("the layout of a hidden tree does not depend on what was accepted", () => {
  for (const step of steps.filter((one) => one.tree.tokens.length > 3).slice(0, 60)) {
    const nodes = step.tree.tokens.map((_, i) => i);
    const depth = (node) => (node ? 1 + depth(step.tree.parents[node]) : 0);
    const layout = unverifiedLayout(step, { nodes, x: nodes.map(depth), y: nodes.map(() => 0), target: [1, 0], rows: 1 });
    const places = nodes.map((node) => `${layout.x[node]}/${layout.y[node]}`);
    assert.equal(new Set(places).size, nodes.length);
    for (const node of nodes.slice(1)) assert.ok(layout.y[node] >= layout.y[step.tree.parents[node]]);
    assert.deepEqual(unverifiedLayout({ ...step, path: [0], verdict: [] }, layout).y, layout.y);
    assert.equal(layout.target, null);
  }
});

function opened(missed) {
  const runs = races[0].lanes;
  const lines = [
    { t: "race", id: 1, source: "recorded", title: "One", runs: runs.map(({ header }) => ({ header, colours: null })) },
    ...runs.flatMap((run, i) => run.steps.map((step) => ({ t: "step", run: i, step, layout: { rows: 1 } }))),
    { t: "status", running: false },
  ];
  const state = createState(emptyRace());
  const player = createPlayer(state, () => {}, missed);
  return { state, player, race: readLines(emptyRace(), lines.map((line) => `${JSON.stringify(line)}\n`).join("")) };
}

test("while a step is hidden the time is at its start; an answer counts once and reveals it", () => {
  const { state, player, race } = opened();
  player.open(race);
  player.seek(3);
  player.togglePrediction();
  const { ends, steps: played } = race.runs[state.run];
  assert.ok(covered(state));
  assert.equal(state.time, ends[2]);
  player.answer(targetBranch(played[3]));
  assert.ok(!covered(state));
  assert.equal(state.time, ends[3]);
  assert.deepEqual(score(state.predictions, played), { right: 1, count: 1 });
  player.by(1);
  assert.ok(covered(state));
  player.togglePrediction();
  assert.equal(state.predictions, null);
});

test("the view of a link opens when its race is there; parts that do not exist are reported", () => {
  const missed = [];
  const { state, player, race } = opened((what, value) => missed.push([what, value]));
  player.show({ race: "One", run: null, method: "plain", step: 4, node: 999 });
  player.open(race);
  assert.equal(race.runs[state.run].header.method, "plain");
  assert.equal(state.step, 4);
  assert.ok(state.node < 999);
  player.show({ race: "Another", run: null, method: "aded", step: 1, node: null });
  assert.equal(state.step, 4);
  assert.deepEqual(missed, [["node", 999]]);
  player.show({ race: undefined, run: null, method: "nobody", step: 99999, node: 0, bigram: "1 2" });
  assert.equal(state.step, 4);
  assert.deepEqual(missed.slice(1), [["method", "nobody"], ["step", 100000], ["bigram", "1 2"]]);
});

test("the end is that of all runs, the first step is the one of this run", () => {
  const { state, player, race } = opened();
  player.open(race);
  player.home();
  player.end();
  assert.equal(state.step, race.runs[state.run].steps.length - 1);
  assert.equal(state.time, Math.max(...race.runs.map((run) => run.ends[run.ends.length - 1])));
  for (const run of race.runs) assert.ok(run.ends[run.ends.length - 1] <= state.time);
});
