// The tour: every step has texts and an element, and it continues where it was left.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";

import { TOUR_STEPS, findStep, resumeIndex } from "../../assets/page/learn/toursteps.js";
import { TABS } from "../../assets/page/shell/tabs.js";
import { sources, tables } from "./words.js";

const markup = [...sources(/\.html$/).values()].join("\n");

test("there are ten to twelve tour steps, each with texts and an element, and a task if it waits for an action", () => {
  assert.ok(TOUR_STEPS.length >= 10 && TOUR_STEPS.length <= 12);
  assert.ok(TOUR_STEPS.filter((tourStep) => tourStep.task).length >= 4);
  for (const { name, at, task } of TOUR_STEPS) {
    assert.ok(tables.en[`tour.${name}`] && tables.en[`tour.${name}.text`], name);
    assert.equal(Boolean(task), `tour.${name}.task` in tables.en, name);
    const place = /data-part='([\w-]+)'/.exec(at);
    assert.ok(markup.includes(place ? `data-part="${place[1]}"` : at.slice(1)), at);
  }
});

test("the tour follows the tabs: draft, forward pass, verify, learn", () => {
  const tabs = TOUR_STEPS.flatMap(({ tab }) => tab ?? []);
  assert.deepEqual([...new Set(tabs)], ["draft", "pass", "verify", "learn"]);
  assert.deepEqual(tabs, tabs.toSorted((a, b) => TABS.indexOf(a) - TABS.indexOf(b)));
});

test("it continues at the stored tour step, or at the first", () => {
  assert.equal(resumeIndex("tree"), TOUR_STEPS.findIndex((tourStep) => tourStep.name === "tree"));
  for (const text of [null, "", "no such step", "<b>"]) assert.equal(resumeIndex(text), 0);
});

const read = (name) => ({ runs: JSON.parse(readFileSync(new URL(`../../assets/traces/${name}`, import.meta.url), "utf-8")).lanes });
const named = (name) => TOUR_STEPS.find((tourStep) => tourStep.name === name);
const plain = (race) => race.runs.findIndex((run) => run.header.method === "plain");
const recorded = readdirSync(new URL("../../assets/traces/", import.meta.url)).map(read).filter((race) => race.runs.some(({ header }) => header.method === "aded"));

test("a tour step about drafts goes from a run without drafts to a suitable race step", () => {
  for (const race of recorded) {
    const seen = { race, run: plain(race), step: 0 };
    for (const tourStep of TOUR_STEPS.filter(({ needs }) => needs)) {
      const place = findStep(tourStep, seen);
      assert.notEqual(place.run, seen.run, tourStep.name);
      const { header, steps } = race.runs[place.run];
      assert.equal(header.method, "aded", tourStep.name);
      const step = steps[place.step];
      assert.ok(step.tree.tokens.length > 1 || tourStep.name === "matrix");
      if (tourStep.name === "node") assert.ok(step.tree.verdict.includes("rejected"));
      if (tourStep.name === "search") assert.ok(step.simulations.length);
      if (tourStep.name === "matrix") assert.ok(step.rows.length);
    }
  }
});

test("a tour step keeps a suitable race step, and has none if no run drafts", () => {
  const [race] = recorded;
  const seen = { race, run: plain(race), step: 3 };
  assert.deepEqual(findStep(named("strip"), seen), { run: seen.run, step: 3 });
  const there = findStep(named("node"), seen);
  assert.deepEqual(findStep(named("node"), { race, ...there }), there);
  const alone = { race: { runs: [race.runs[seen.run]] }, run: 0, step: 0 };
  assert.deepEqual(TOUR_STEPS.filter((tourStep) => findStep(tourStep, alone)).map(({ name }) => name), ["welcome", "runs", "origins", "strip", "play"]);
});
