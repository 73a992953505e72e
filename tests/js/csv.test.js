// Tables as CSV: every token is preserved, none is evaluated by a spreadsheet.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { cell, csv } from "../../assets/page/export/csv.js";
import { compareTable } from "../../assets/cards/compare/card.js";
import { curveTable } from "../../assets/cards/timing/card.js";
import { runsTable } from "../../assets/cards/runs/card.js";
import { maskTable } from "../../assets/cards/mask/card.js";
import { nodesTable } from "../../assets/cards/nodes/card.js";
import { stepsTable } from "../../assets/cards/timebar/card.js";
import { walkTable } from "../../assets/cards/walk/card.js";
import { emptyRace, readLines } from "../../assets/page/record/record.js";

const saved = JSON.parse(readFileSync(new URL("../../assets/traces/01-a-maths-teacher.json", import.meta.url), "utf-8"));
const lines = [
  { t: "race", id: 1, source: "file", title: "", runs: saved.lanes.map(({ header }) => ({ header, colours: null })) },
  ...saved.lanes.flatMap(({ steps }, run) => steps.map((step) => ({ t: "step", run, step, layout: {} }))),
];
const race = readLines(emptyRace(), lines.map((line) => `${JSON.stringify(line)}\n`).join(""));

// An independent parser of RFC 4180.
function parse(text) {
  const rows = [[]];
  for (const [, quoted, bare, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/g)) {
    rows.at(-1).push(quoted === undefined ? bare : quoted.replaceAll('""', '"'));
    if (end === "\r\n") rows.push([]);
  }
  return rows.slice(0, -1);
}

test("every cell is read back as the same text", () => {
  const values = ['a"b', "a,b", "line\nend", " blank", "漢🙂", "<b>", ""];
  assert.deepEqual(parse(csv([values])), [values]);
  for (const text of ["=1+1", "+1", "-x", "@a", "\tb"]) assert.ok(/^"?'/.test(cell(text)));
  assert.equal(cell(-1.5), "-1.5");
  assert.equal(cell(null), "");
  assert.equal(cell(Infinity), "");
});

test("the tables contain the numbers of the record", () => {
  const [head, ...rows] = parse(csv(runsTable(race)));
  const at = (name) => head.indexOf(name);
  rows.forEach((row, i) => {
    const tokens = saved.lanes[i].steps.flatMap((step) => step.emitted).length;
    assert.equal(Number(row[at("tokens")]), tokens);
    assert.equal(Number(row[at("steps")]), saved.lanes[i].steps.length);
    assert.ok(Math.abs(Number(row[at("tokens_per_second")]) * Number(row[at("seconds")]) - tokens) < 1e-6);
  });
  const texts = parse(csv(stepsTable(race))).slice(1).map((row) => row.at(-1).replace(/^'(?=[=+\-@\t\r])/, ""));
  assert.deepEqual(texts, saved.lanes.flatMap((run) => run.steps.map((step) => step.texts.join(""))));
});

test("the nodes of a step are in their order", () => {
  const step = saved.lanes.at(-1).steps.find((one) => one.tree.tokens.length > 4);
  const rows = parse(csv(nodesTable(step))).slice(1);
  assert.deepEqual(rows.map((row) => Number(row[1])), step.tree.parents);
  assert.deepEqual(rows.map((row) => row[4]), step.tree.verdict);
  assert.deepEqual(rows.map((row) => Number(row.at(-2))), step.tree.tokens.map((_, node) => step.position + node));
  assert.deepEqual(rows.flatMap((row, node) => (row.at(-1) ? [node] : [])), step.path.slice(0, step.emitted.length));
});

const aded = race.runs[1];
const tables = (rows) => {
  const [head, ...cells] = parse(csv(rows));
  return cells.map((row) => Object.fromEntries(head.map((name, i) => [name, row[i]])));
};

test("the walk has the target's choice at each node, and its most probable tokens", () => {
  const step = aded.steps.find(({ choices }) => choices.length > 2);
  const rows = tables(walkTable(step));
  assert.deepEqual(rows.map(({ token }) => Number(token)), step.choices.map(({ token }) => token));
  assert.deepEqual(rows.map((row) => Number(row.top_1_probability)), step.choices.map((choice) => choice.top_probabilities[0]));
  assert.deepEqual(rows.map(({ drafted }) => drafted), step.choices.map(({ drafted }) => String(drafted)));
});

test("a node attends to its ancestors and to itself", () => {
  const step = aded.steps[7];
  for (const { node, attends_to: attended } of tables(maskTable(step))) {
    const line = attended.split(" ").map(Number);
    assert.equal(line.at(-1), Number(node));
    for (const [i, seen] of line.entries()) assert.equal(step.tree.parents[seen], i ? line[i - 1] : -1);
  }
});

test("the curve ends at the tokens and the time of the run", () => {
  const mine = tables(curveTable(race)).filter(({ method }) => method === "aded");
  assert.equal(Number(mine.at(-1).tokens), saved.lanes[1].token_ids.length);
  assert.equal(mine.length, aded.steps.length);
});

test("the table of nodes has no results of the target while they are hidden", () => {
  for (const row of tables(nodesTable({ ...aded.steps[7], exists: [] }))) assert.deepEqual([row.target_probability, row.target_rank, row.reason, row.slot_after], ["", "", "", ""]);
});

test("a run that only one race has gets empty cells for the other", () => {
  const run = (label) => ({ label, tokens: 3, rate: 2, ratio: null, perStep: 1.5 });
  const rows = tables(compareTable({ runs: [run("A"), run("B")] }, { runs: [run("C"), run("A")] }));
  assert.deepEqual(rows.map((row) => [row.run, row.before_tokens, row.now_tokens, row.now_speedup]), [["C", "", "3", ""], ["A", "3", "3", ""], ["B", "3", "", ""]]);
});
