// The tour: its stops have words and places, and it goes on from where it was left.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";

import { STOPS, placeFor, resumed } from "../../assets/js/stops.js";
import { tables } from "./words.js";

const markup = readFileSync(new URL("../../assets/html/race.html", import.meta.url), "utf-8");

test("there are ten to twelve stops, each with words, a place and, where it waits, a task", () => {
  assert.ok(STOPS.length >= 10 && STOPS.length <= 12);
  assert.ok(STOPS.filter((stop) => stop.task).length >= 4);
  for (const { name, at, task } of STOPS) {
    assert.ok(tables.en[`tour.${name}`] && tables.en[`tour.${name}.text`], name);
    assert.equal(Boolean(task), `tour.${name}.task` in tables.en, name);
    const place = /data-part='([\w-]+)'/.exec(at);
    assert.ok(markup.includes(place ? `data-part="${place[1]}"` : at.slice(1)), at);
  }
});

test("it goes on from the stop that was left, or from the first", () => {
  assert.equal(resumed("tree"), STOPS.findIndex((stop) => stop.name === "tree"));
  for (const text of [null, "", "no such stop", "<b>"]) assert.equal(resumed(text), 0);
});

const read = (name) => JSON.parse(readFileSync(new URL(`../../assets/traces/${name}`, import.meta.url), "utf-8"));
const named = (name) => STOPS.find((stop) => stop.name === name);
const plain = (race) => race.lanes.findIndex((lane) => lane.header.method === "plain");
const recorded = readdirSync(new URL("../../assets/traces/", import.meta.url)).map(read);

test("a stop that speaks of a draft goes from a lane without one to a step that has what it asks for", () => {
  for (const race of recorded) {
    const seen = { race, lane: plain(race), step: 0 };
    for (const stop of STOPS.filter(({ holds }) => holds)) {
      const place = placeFor(stop, seen);
      assert.notEqual(place.lane, seen.lane, stop.name);
      const { header, steps } = race.lanes[place.lane];
      assert.equal(header.method, "aded", stop.name);
      const step = steps[place.step];
      assert.ok(step.tree.tokens.length > 1 || stop.name === "matrix");
      if (stop.name === "node") assert.ok(step.tree.verdict.includes("rejected"));
      if (stop.name === "search") assert.ok(step.simulations.length);
      if (stop.name === "matrix") assert.ok(step.rows.length);
    }
  }
});

test("a stop stays where it can be had, and is nowhere where no lane has drafts", () => {
  const [race] = recorded;
  const seen = { race, lane: plain(race), step: 3 };
  assert.deepEqual(placeFor(named("strip"), seen), { lane: seen.lane, step: 3 });
  const there = placeFor(named("node"), seen);
  assert.deepEqual(placeFor(named("node"), { race, ...there }), there);
  const alone = { race: { lanes: [race.lanes[seen.lane]] }, lane: 0, step: 0 };
  assert.deepEqual(STOPS.filter((stop) => placeFor(stop, alone)).map(({ name }) => name), ["welcome", "lanes", "origins", "strip", "play"]);
});
