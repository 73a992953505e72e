// Predict, then reveal: the true branch is always offered, the verdict never shows before.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";

import { branches, score, truth, unjudged, unjudgedLayout } from "../../assets/js/guess.js";
import { covered, createPlayer, createState } from "../../assets/js/player.js";
import { emptyRace, readLines } from "../../assets/js/record.js";

const folder = new URL("../../assets/traces/", import.meta.url);
const races = readdirSync(folder).map((name) => JSON.parse(readFileSync(new URL(name, folder), "utf-8")));
const steps = races.flatMap(({ lanes }) => lanes.flatMap((lane) => lane.steps));

test("branches are the root's children, five at most, the true one among them", () => {
  for (const step of steps) {
    const offered = branches(step);
    assert.ok(offered.length <= 5 && new Set(offered).size === offered.length);
    for (const node of offered) assert.equal(step.tree.parents[node], 0);
    if (truth(step) >= 0) assert.ok(offered.includes(truth(step)));
  }
});

test("the true branch is the one that the walk took, or none where the draft did not hold it", () => {
  for (const step of steps.filter((one) => one.choices.length && one.tree.tokens.length > 1)) {
    const taken = truth(step);
    if (taken >= 0) assert.equal(step.tree.tokens[taken], step.choices[0].token);
    else assert.ok(!step.choices[0].drafted || step.tree.reason.includes("cut at the end"));
  }
});

test("a covered step holds no verdict", () => {
  const step = steps.find((one) => one.path.length > 2);
  const verdicts = new Set(unjudged(step).tree.verdict);
  assert.deepEqual([...verdicts].sort(), ["root", "unjudged"]);
});

test("the covered tree is tidy and its order does not depend on what was accepted", () => {
  for (const step of steps.filter((one) => one.tree.tokens.length > 3).slice(0, 60)) {
    const nodes = step.tree.tokens.map((_, i) => i);
    const depth = (node) => (node ? 1 + depth(step.tree.parents[node]) : 0);
    const layout = unjudgedLayout(step, { nodes, x: nodes.map(depth), y: nodes.map(() => 0), own: [1, 0], rows: 1 });
    const places = nodes.map((node) => `${layout.x[node]}/${layout.y[node]}`);
    assert.equal(new Set(places).size, nodes.length);
    for (const node of nodes.slice(1)) assert.ok(layout.y[node] >= layout.y[step.tree.parents[node]]);
    assert.deepEqual(unjudgedLayout({ ...step, path: [0], verdict: [] }, layout).y, layout.y);
    assert.equal(layout.own, null);
  }
});

function opened(missed) {
  const { lanes } = races[0];
  const lines = [
    { t: "race", id: 1, source: "recorded", title: "One", lanes: lanes.map(({ header }) => ({ header, colours: null })) },
    ...lanes.flatMap((lane, i) => lane.steps.map((step) => ({ t: "step", lane: i, step, layout: { rows: 1 } }))),
    { t: "status", running: false },
  ];
  const state = createState(emptyRace());
  const player = createPlayer(state, () => {}, missed);
  return { state, player, race: readLines(emptyRace(), lines.map((line) => `${JSON.stringify(line)}\n`).join("")) };
}

test("while a step is covered the clock stands before it; an answer counts once and moves on", () => {
  const { state, player, race } = opened();
  player.open(race);
  player.seek(3);
  player.toggleGuess();
  const { ends, steps: own } = race.lanes[state.lane];
  assert.ok(covered(state));
  assert.equal(state.time, ends[2]);
  player.answer(truth(own[3]));
  assert.ok(!covered(state));
  assert.equal(state.time, ends[3]);
  assert.deepEqual(score(state.guess, own), { right: 1, count: 1 });
  player.by(1);
  assert.ok(covered(state));
  player.toggleGuess();
  assert.equal(state.guess, null);
});

test("a link's view opens when its race is there, and what does not fit is told and left", () => {
  const missed = [];
  const { state, player, race } = opened((what, value) => missed.push([what, value]));
  player.show({ race: "One", run: null, lane: "plain", step: 4, node: 999 });
  player.open(race);
  assert.equal(race.lanes[state.lane].header.method, "plain");
  assert.equal(state.step, 4);
  assert.ok(state.node < 999);
  player.show({ race: "Another", run: null, lane: "aded", step: 1, node: null });
  assert.equal(state.step, 4);
  assert.deepEqual(missed, [["node", 999]]);
  player.show({ race: undefined, run: null, lane: "nobody", step: 99999, node: 0, pair: "1 2" });
  assert.equal(state.step, 4);
  assert.deepEqual(missed.slice(1), [["lane", "nobody"], ["step", 100000], ["pair", "1 2"]]);
});

test("the end is that of all lanes, the first step is this lane's", () => {
  const { state, player, race } = opened();
  player.open(race);
  player.home();
  player.end();
  assert.equal(state.step, race.lanes[state.lane].steps.length - 1);
  assert.equal(state.time, Math.max(...race.lanes.map((lane) => lane.ends[lane.ends.length - 1])));
  for (const lane of race.lanes) assert.ok(lane.ends[lane.ends.length - 1] <= state.time);
});
