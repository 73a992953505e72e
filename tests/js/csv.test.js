// Tables as files: any token survives, none is run by a spreadsheet.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { cell, csv, lanesTable, nodesTable, stepsTable } from "../../assets/js/csv.js";
import { emptyRace, readLines } from "../../assets/js/record.js";

const saved = JSON.parse(readFileSync(new URL("../../assets/traces/01-a-maths-teacher.json", import.meta.url), "utf-8"));
const lines = [
  { t: "race", id: 1, source: "file", title: "", lanes: saved.lanes.map(({ header }) => ({ header, colours: null })) },
  ...saved.lanes.flatMap(({ steps }, lane) => steps.map((step) => ({ t: "step", lane, step, layout: {} }))),
];
const race = readLines(emptyRace(), lines.map((line) => `${JSON.stringify(line)}\n`).join(""));

// An independent reader of RFC 4180.
function parse(text) {
  const rows = [[]];
  for (const [, quoted, bare, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/g)) {
    rows.at(-1).push(quoted === undefined ? bare : quoted.replaceAll('""', '"'));
    if (end === "\r\n") rows.push([]);
  }
  return rows.slice(0, -1);
}

test("whatever a cell holds comes back as text", () => {
  const values = ['a"b', "a,b", "line\nend", " blank", "漢🙂", "<b>", ""];
  assert.deepEqual(parse(csv([values])), [values]);
  for (const text of ["=1+1", "+1", "-x", "@a", "\tb"]) assert.ok(/^"?'/.test(cell(text)));
  assert.equal(cell(-1.5), "-1.5");
  assert.equal(cell(null), "");
  assert.equal(cell(Infinity), "");
});

test("the tables hold the record's numbers", () => {
  const [head, ...rows] = parse(csv(lanesTable(race)));
  const at = (name) => head.indexOf(name);
  rows.forEach((row, i) => {
    const tokens = saved.lanes[i].steps.flatMap((step) => step.emitted).length;
    assert.equal(Number(row[at("tokens")]), tokens);
    assert.equal(Number(row[at("steps")]), saved.lanes[i].steps.length);
    assert.ok(Math.abs(Number(row[at("tokens_per_second")]) * Number(row[at("seconds")]) - tokens) < 1e-6);
  });
  const texts = parse(csv(stepsTable(race))).slice(1).map((row) => row.at(-1).replace(/^'(?=[=+\-@\t\r])/, ""));
  assert.deepEqual(texts, saved.lanes.flatMap((lane) => lane.steps.map((step) => step.texts.join(""))));
});

test("a step's nodes stand in their order", () => {
  const step = saved.lanes.at(-1).steps.find((one) => one.tree.tokens.length > 4);
  const rows = parse(csv(nodesTable(step))).slice(1);
  assert.deepEqual(rows.map((row) => Number(row[1])), step.tree.parents);
  assert.deepEqual(rows.map((row) => row[4]), step.tree.verdict);
  assert.deepEqual(rows.map((row) => Number(row.at(-2))), step.tree.tokens.map((_, node) => step.position + node));
  assert.deepEqual(rows.flatMap((row, node) => (row.at(-1) ? [node] : [])), step.path.slice(0, step.emitted.length));
});
