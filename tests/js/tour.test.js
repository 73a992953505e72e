// The tour: its stops have words and places, and it goes on from where it was left.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { STOPS, resumed } from "../../assets/js/tour.js";
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
