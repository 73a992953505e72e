// The tools: the calculator against the paper's formulas and the record, accepted tokens counted and expected, and the rows of the benchmark results.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { csv } from "../../assets/page/export/csv.js";
import { optimum } from "../../assets/page/record/estimate.js";
import { emptyRace, readLines } from "../../assets/page/record/record.js";
import { linesOf, setFormat } from "../../assets/page/record/traceformat.js";
import { acceptedCounts, countsTable } from "../../assets/page/tools/histogram.js";
import { howOf, nameOf } from "../../assets/page/tools/results.js";
import { COLUMNS, FILTERS, FIRST, NUMBERS, filtered, optionsOf, readSelection, rowsTable, sorted, unpacked, writtenSelection } from "../../assets/page/tools/rows.js";
import { FIELDS, measuredRuns, predictions } from "../../assets/page/tools/theory.js";
import { formatOfPython } from "./pythonformat.js";
import "./document.js";
import { speak, tables } from "./words.js";

const near = (value, wanted, error = 1e-9) => assert.ok(Math.abs(value - wanted) <= error, `${value} is not ${wanted}`);
const asset = (name) => JSON.parse(readFileSync(new URL(`../../assets/${name}`, import.meta.url), "utf-8"));
setFormat(formatOfPython());
const raceOf = (name) => readLines(emptyRace(), linesOf(asset(`traces/${name}.json`), name));
const packed = asset("results.json");
const rows = unpacked(packed);

test("tokens per step and speed-up are those of equation 1 and theorem 3.8", () => {
  for (const [alpha, c] of [[0.8, 0.05], [0.5, 0.2], [0, 0.1]]) {
    predictions({ alpha, c, v: 1 }).forEach(({ depth, tokens, ratio }) => {
      near(tokens, Array.from({ length: depth + 1 }, (_, k) => alpha ** k).reduce((a, b) => a + b));
      near(ratio, (1 - alpha ** (depth + 1)) / ((1 - alpha) * (depth * c + 1)));
    });
  }
});

test("if the acceptance rate exceeds the cost ratio, one draft token gives the speed-up of corollary 3.9, else no length is faster", () => {
  for (const [alpha, c] of [[0.6, 0.3], [0.9, 0.02], [0.11, 0.1]]) {
    const found = predictions({ alpha, c, v: 1 });
    near(found[1].ratio, (1 + alpha) / (1 + c));
    assert.ok(optimum(found).best.ratio >= found[1].ratio && found[1].ratio > 1);
  }
  assert.ok(optimum(predictions({ alpha: 0.2, c: 0.3, v: 1 })).best.ratio < 1);
});

test("verification that costs more, or more per token, takes its time in every step that drafts", () => {
  const found = predictions({ alpha: 0.7, c: 0.1, v: 1.5 });
  near(found[0].seconds, 1);
  near(found[4].seconds, 4 * 0.1 + 1.5);
  near(found[4].ratio, found[4].tokens / 1.9);
});

test("with the measured costs, theory and measurement differ only in the tokens per step", () => {
  for (const name of ["01-a-maths-teacher", "06-speculative-sampling"]) {
    const race = raceOf(name);
    const found = measuredRuns(race);
    assert.equal(found.length, 2);
    for (const { run, gamma, c, v, tokens, theory } of found) {
      const seconds = (one) => one.ends.at(-1) / one.steps.length;
      near(c * gamma + v, seconds(run) / seconds(race.runs[0]));
      near(theory.speed / theory.tokens, (race.runs[0].ends.at(-1) / race.runs[0].counts.at(-1)) / (run.ends.at(-1) / run.counts.at(-1)) / tokens);
    }
  }
});

test("without plain decoding in the race, only acceptance rate, draft length and tokens are known", () => {
  const race = raceOf("01-a-maths-teacher");
  race.runs.shift();
  for (const found of measuredRuns(race)) {
    assert.deepEqual([found.c, found.v, found.speed, found.theory.speed], [null, null, null, null]);
    assert.ok(found.gamma > 0 && found.theory.tokens > 1);
  }
});

test("accepted tokens are counted per step, and positions as in Python", () => {
  const step = (parents, path, origins) => ({ tree: { tokens: parents.map(() => 1), parents }, path, origins });
  const chain = [-1, 0, 1, 2];
  const found = acceptedCounts([
    step(chain, [0, 1, 2, 3], ["draft", "draft", "draft", "target"]), // whole draft accepted: no position after it
    step(chain, [0, 1], ["draft", "target"]),
    step(chain, [0], ["target"]),
    step([-1], [0], ["target"]), // without a draft
    step([-1, 0, 0], [0, 2], ["draft", "target"]),
  ]);
  assert.deepEqual([found.steps, found.counts, found.reached, found.taken], [4, [1, 2, 0, 1], [4, 2, 1], [3, 1, 1]]);
  near(found.alpha, 5 / 7);
  near(found.expected.reduce((a, b) => a + b), 4);
  near(found.expected[0], 4 * (1 - found.alpha));
  near(found.expected[3], 3 * found.alpha ** 3);
});

test("the histogram of a race adds up to its steps and its accepted tokens, of each run and of all together", () => {
  const race = raceOf("04-short-facts");
  const [head, ...body] = countsTable(race);
  assert.deepEqual(head.slice(0, 3), ["method", "accepted", "steps"]);
  const sum = (name, of) => body.filter(([method]) => method === name).reduce((total, row) => total + of(row), 0);
  for (const run of race.runs.slice(1)) {
    assert.equal(sum(run.header.method, ([, , steps]) => steps), run.steps.filter(({ tree }) => tree.tokens.length > 1).length);
    assert.equal(sum(run.header.method, ([, accepted, steps]) => accepted * steps), run.steps.flatMap(({ origins }) => origins).filter((origin) => origin === "draft").length);
  }
  assert.equal(sum("all", ([, , steps]) => steps), body.reduce((total, [name, , steps]) => total + (name === "all" ? 0 : steps), 0));
});

test("all packed rows are unpacked with what their result set says", () => {
  assert.equal(rows.length, packed.sets.reduce((sum, one) => sum + one.rows.length, 0));
  for (const name of COLUMNS.filter((name) => !["model", "commit"].includes(name))) assert.ok(rows.some((row) => row[name] !== null && row[name] !== undefined), name);
  const sampled = rows.find(({ set, method, category }) => set === "gpu-methods-sampled" && method === "speculative" && category === "all");
  assert.deepEqual([sampled.decoding, sampled.variant], ["sampled", "speculative:draft_length=5"]);
  assert.equal(rows.find(({ set }) => set === "recorded-64").decoding, "replayed");
});

test("a result set whose times mean nothing has none in the table, but its tokens per step", () => {
  const untimed = packed.sets.filter(({ reliable_times: reliable }) => reliable === false).map(({ name }) => name);
  assert.ok(untimed.length && untimed.length < packed.sets.length);
  const found = rows.filter(({ set }) => untimed.includes(set));
  assert.ok(found.every((row) => NUMBERS.every((name) => (row[name] === null) === (name !== "tokens_per_step")) && row.speedup_interval === null));
  assert.ok(rows.some(({ set, verify_ms }) => !untimed.includes(set) && verify_ms > 0));
});

test("every row is named in the user's language, with its options in words", () => {
  const names = (language) => {
    speak(language);
    const found = new Set(rows.map(nameOf));
    const [unknown] = [{ method: "eagle", variant: "eagle:some_option=a=b" }].map(nameOf);
    speak("en");
    return [...found, unknown].join("\n");
  };
  const [en, zh] = ["en", "zh"].map(names);
  for (const text of [en, zh]) assert.doesNotMatch(text, /_|results\.|=(?!b)|cape off|pool warm/);
  assert.match(en, /^Speculative sampling \(draft length 5, block verification\)$/m);
  assert.match(en, /^EAGLE \(some option a=b\)$/m);
  assert.doesNotMatch(zh, /draft|verification|decoding|rescoring|Speculative/);
});

test("filters offer what the other filters leave, and columns are sorted with missing values last", () => {
  const chosen = { set: "gpu-methods-greedy", category: "math" };
  assert.ok(filtered(rows, chosen).every((row) => row.set === chosen.set && row.category === "math"));
  assert.deepEqual(optionsOf(rows, "category", { set: "cpu-live-greedy" })[0], "all");
  assert.deepEqual(optionsOf(rows, "device", chosen), ["NVIDIA H200 (processor: Intel(R) Xeon(R) Processor)"]);
  for (const down of [true, false]) {
    const speeds = sorted(rows, { by: "speedup", down }).map(({ speedup }) => speedup);
    const known = speeds.filter((value) => value !== null);
    assert.ok(known.length < speeds.length && speeds.slice(known.length).every((value) => value === null));
    assert.ok(known.every((value, i) => !i || (down ? known[i - 1] >= value : known[i - 1] <= value)));
  }
  assert.equal(sorted(rows, { by: null, down: true }), rows);
});

test("filters and order are read back from a link, and what no row has is reported", () => {
  const selection = { chosen: { model: null, device: "NVIDIA H200 (processor: Intel(R) Xeon(R) Processor)" }, order: { by: "speedup", down: true } };
  const read = { chosen: { ...FIRST }, order: { by: null, down: false } };
  assert.deepEqual(readSelection(rows, writtenSelection(selection), read), []);
  assert.deepEqual(read, selection);
  assert.equal(writtenSelection({ chosen: FIRST, order: { by: null } }), null);
  assert.deepEqual(readSelection(rows, "set=none&rising=none&__proto__=x&category=math", read), ["none", "none", "x"]);
  assert.deepEqual(read, { chosen: { category: "math" }, order: { by: null, down: true } });
});

test("the saved table has every number of the shown rows", () => {
  const [head, ...body] = rowsTable(filtered(rows, { set: "cpu-greedy" }));
  assert.ok(["method", "tokens_per_step_low", "speedup_high", "dtype", "versions", "commit", "date"].every((name) => head.includes(name)));
  assert.deepEqual([...new Set(body.map((row) => row.length))], [head.length]);
  const source = packed.sets.find(({ name }) => name === "cpu-greedy").rows;
  assert.deepEqual(body.map((row) => row[head.indexOf("speedup")]), source.map((row) => row[packed.fields.indexOf("speedup")]));
  assert.equal(csv([head, ...body]).split("\r\n").length, body.length + 2);
});

test("every field, filter, column and category has its words in both languages", () => {
  const categories = [...new Set(rows.map(({ category }) => category))];
  const methods = [...new Set(rows.map(({ method }) => method))].filter((method) => !tables.en[`article.${method}`]);
  const keys = [...FIELDS.flatMap(({ name }) => [`calculator.${name}`, `calculator.${name}.about`, `calculator.${name}.short`]), ...[...FILTERS, ...COLUMNS].map((name) => `results.${name}`), ...categories.map((name) => `results.category.${name}`), ...methods.map((name) => `results.method.${name}`)];
  for (const table of Object.values(tables)) for (const key of keys) assert.ok(table[key], key);
});

test("how a result set was measured is said in the user's language", () => {
  const set = { name: "cpu", settings: { questions: 10, max_new_tokens: 96, budget: "auto", top_p: 1, repeat: 3 }, command: "", versions: {}, commit: "", date: "" };
  const said = () => howOf(set).children[1].textContent;
  assert.equal(said(), "questions 10 · max new tokens 96 · draft budget automatic · top-p 1 · repeats 3");
  speak("zh");
  assert.equal(said(), "问题数 10 · 最多新词元数 96 · 草稿预算 自动 · top-p 1 · 重复次数 3");
  speak("en");
});
