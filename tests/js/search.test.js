// The replay of a search, checked against what the engine recorded: the bundled races are the oracle.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";

import { PHASES, canReplay, moments, phaseAt, scoreText, searchNote, searchText, searchedStep } from "../../assets/js/search.js";
import "./words.js";

const folder = new URL("../../assets/traces/", import.meta.url);
const lanes = readdirSync(folder)
  .filter((name) => name.endsWith(".json"))
  .flatMap((name) => JSON.parse(readFileSync(new URL(name, folder), "utf-8")).lanes)
  .filter((lane) => lane.steps.some((step) => step.simulations.length));
const published = (lane) => lane.header.method_settings.preset === "paper";
const searched = lanes.flatMap((lane) =>
  lane.steps.filter((step) => canReplay(step, lane.header.method_settings)).map((step) => ({ lane, step, settings: lane.header.method_settings })),
);
const near = (a, b) => Math.abs(a - b) <= 1e-4 * Math.max(1, Math.abs(a));

test("nearly every recorded search can be counted again", () => {
  const all = lanes.flatMap((lane) => lane.steps.filter((step) => step.simulations.length));
  assert.ok(all.length > 100);
  assert.ok(searched.length >= 0.95 * all.length);
});

test("the last moment has the visits, means and scores that the engine recorded", () => {
  for (const { lane, step, settings } of searched) {
    const { columns } = searchedStep(step, moments(step), settings).tree;
    for (const [node, visits] of step.tree.columns.visits.entries()) assert.equal(columns.visits[node], visits || 0);
    for (const [node, value] of step.tree.columns.value.entries()) assert.ok(value === null || near(columns.value[node], value));
    for (const [node, score] of step.tree.columns.score.entries()) assert.ok(score === null || near(columns.score[node], score), lane.header.label);
  }
});

test("the selection goes to a child whose score no unvisited sibling exceeds", () => {
  let decisions = 0;
  for (const { step, settings } of searched) {
    for (let k = 1; k <= Math.min(20, step.simulations.length); k++) {
      const seen = searchedStep(step, PHASES.length * (k - 1) + 1, settings);
      const { selected } = step.simulations[k - 1];
      for (const node of selected.slice(1).filter((n) => n >= 0)) {
        const parent = step.tree.parents[node];
        const rivals = seen.tree.parents.flatMap((p, n) => (p === parent && n !== node && !seen.tree.columns.visits[n] ? [n] : []));
        for (const rival of rivals) {
          decisions++;
          assert.ok(seen.tree.columns.score[node] >= seen.tree.columns.score[rival] - 1e-6);
        }
      }
    }
  }
  assert.ok(decisions > 1000);
});

test("counts rise in the last phase of a simulation alone, children appear with the expansion", () => {
  const { step, settings } = searched.find(({ lane }) => !published(lane));
  const states = Array.from({ length: moments(step) + 1 }, (_, moment) => searchedStep(step, moment, settings));
  states.slice(1).forEach((state, i) => {
    const { phase } = phaseAt(i + 1);
    const root = (s) => s.tree.columns.visits[0];
    const drawn = (s) => s.exists.filter(Boolean).length;
    assert.equal(root(state) - root(states[i]), PHASES[phase] === "backup" ? 1 : 0);
    if (PHASES[phase] !== "expansion") assert.equal(drawn(state), drawn(states[i]));
  });
  assert.deepEqual(states[0].exists.filter(Boolean).length, 1);
  assert.ok(states.at(-1).exists.every(Boolean));
});

test("a moment is a simulation and a phase", () => {
  assert.deepEqual([0, 1, 4, 5].map(phaseAt), [
    { k: 0, phase: -1 },
    { k: 1, phase: 0 },
    { k: 1, phase: 3 },
    { k: 2, phase: 0 },
  ]);
});

test("each moment is said in words", () => {
  const { step, settings } = searched[0];
  const words = [0, 1, 2, 3, 4, null].map((moment) => searchText(step, moment, settings));
  assert.equal(new Set(words).size, 6);
  for (const text of words) assert.match(text, /^[^\n]+\.$/);
  assert.equal(scoreText(Infinity), "∞");
});

test("a method without a search, and a draft that lost a part of one, say so", () => {
  const { lane, step } = searched[0];
  const bare = { ...step, simulations: [] };
  assert.equal(searchNote(step, lane.header), "");
  assert.match(searchNote(bare, { ...lane.header, label: "Mine", method: "mine", method_settings: {} }), /Mine drafts without a search/);
  assert.match(searchNote(bare, { ...lane.header, method: "rest", method_settings: {} }), /in the datastore/);
  assert.match(searchNote(bare, { ...lane.header, method: "plain", method_settings: {} }), /drafts nothing/);
  assert.match(searchNote(bare, { ...lane.header, method_settings: { search: "greedy" } }), /greedy/);
  assert.match(searchNote({ ...step, simulations: step.simulations.slice(2) }, lane.header), /lost a part/);
});
