// Replay of the search, checked against the engine's records in the bundled races.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";

import { PHASES, canReplay, moments, phaseAt, scoreText, searchNote, searchText, searchedStep } from "../../assets/page/record/search.js";
import { createSearch } from "../../assets/cards/tree/searchplayer.js";
import { parts } from "./document.js";
import "./words.js";

const folder = new URL("../../assets/traces/", import.meta.url);
const runs = readdirSync(folder)
  .filter((name) => name.endsWith(".json"))
  .flatMap((name) => JSON.parse(readFileSync(new URL(name, folder), "utf-8")).lanes)
  .filter((run) => run.steps.some((step) => step.simulations.length));
const published = (run) => run.header.method_settings.preset === "paper";
const searched = runs.flatMap((run) =>
  run.steps.filter((step) => canReplay(step, run.header.method_settings)).map((step) => ({ run, step, settings: run.header.method_settings })),
);
const near = (a, b) => Math.abs(a - b) <= 1e-4 * Math.max(1, Math.abs(a));

test("nearly every recorded search can be replayed", () => {
  const all = runs.flatMap((run) => run.steps.filter((step) => step.simulations.length));
  assert.ok(all.length > 100);
  assert.ok(searched.length >= 0.95 * all.length);
});

test("the last moment has the recorded visit counts, mean values and scores", () => {
  for (const { run, step, settings } of searched) {
    const { columns } = searchedStep(step, moments(step), settings).tree;
    for (const [node, visits] of step.tree.columns.visits.entries()) assert.equal(columns.visits[node], visits || 0);
    for (const [node, value] of step.tree.columns.value.entries()) assert.ok(value === null || near(columns.value[node], value));
    for (const [node, score] of step.tree.columns.score.entries()) assert.ok(score === null || near(columns.score[node], score), run.header.label);
  }
});

test("selection follows a child whose score no unvisited sibling exceeds", () => {
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

test("visit counts rise only in the backup phase, children appear in the expansion phase", () => {
  const { step, settings } = searched.find(({ run }) => !published(run));
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

test("each moment has a description", () => {
  const { step, settings } = searched[0];
  const words = [0, 1, 2, 3, 4, null].map((moment) => searchText(step, moment, settings));
  assert.equal(new Set(words).size, 6);
  for (const text of words) assert.match(text, /^[^\n]+\.$/);
  assert.equal(scoreText(Infinity), "∞");
});

test("a method without a search, and a pruned draft, are explained", () => {
  const { run, step } = searched[0];
  const bare = { ...step, simulations: [] };
  assert.equal(searchNote(step, run.header), "");
  assert.match(searchNote(bare, { ...run.header, label: "Mine", method: "mine", method_settings: {} }), /Mine drafts without a search/);
  assert.match(searchNote(bare, { ...run.header, method: "rest", method_settings: {} }), /in the datastore/);
  assert.match(searchNote(bare, { ...run.header, method: "plain", method_settings: {} }), /drafts nothing/);
  assert.match(searchNote(bare, { ...run.header, method_settings: { search: "greedy" } }), /greedy/);
  assert.match(searchNote({ ...step, simulations: step.simulations.slice(2) }, run.header), /were pruned/);
});

// The player of a search; `page`: what is on screen, `draw` draws it.
function playerOf({ step, run }) {
  const [part, page] = [parts(), { step, moment: null }];
  const search = createSearch(part, () => page.step, (moment) => (page.moment = moment));
  const draw = () => search.render(page.step, run.header, page.moment);
  draw();
  return { search, page, draw, play: part("search-play").listeners.click };
}

test("at the end of the search, Play starts at its beginning, and stops where it is pressed again", (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const { search, page, draw, play } = playerOf(searched[0]);
  play();
  for (const moment of [0, 1, 2]) {
    assert.equal(page.moment, moment);
    draw();
    if (moment < 2) context.mock.timers.tick(700);
  }
  play();
  assert.deepEqual([page.moment, search.isPlaying()], [2, false]);
});

test("playback of a search ends with its step, also before the next one is drawn", (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const { search, page, draw, play } = playerOf(searched[0]);
  play();
  draw();
  Object.assign(page, { step: searched[1].step, moment: null });
  context.mock.timers.tick(700);
  assert.deepEqual([page.moment, search.isPlaying()], [null, false]);
});
