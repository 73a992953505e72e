// Lessons: the check of a file, values of the record, judged answers, and that every bundled lesson can be played.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";

import "./document.js";
import { barsOf } from "../../assets/page/lessons/figure.js";
import { readLesson, setLessonFormat, shownBy, usedFacts } from "../../assets/page/lessons/format.js";
import { judgeChoice, judgeNode, judgeNumber, judgePath, rightNodes, typedNumber } from "../../assets/page/lessons/judge.js";
import { nodesOf, partsOf, spoken } from "../../assets/page/lessons/markup.js";
import { note, progressOf } from "../../assets/page/lessons/progress.js";
import { COMPUTE, RECORD, placeOf, resolved, shownValue } from "../../assets/page/lessons/values.js";
import { emptyRace, readLines } from "../../assets/page/record/record.js";
import { linesOf, setFormat } from "../../assets/page/record/traceformat.js";
import { formatOfPython } from "./pythonformat.js";
import { tables } from "./words.js";

const ROOT = new URL("../../", import.meta.url);
const code = "import json; from ui.browser.lesson_files import lesson_format, text_of, lessons; from aded.lessons.checks import race_files; from aded.lessons.template import template; print(json.dumps([lesson_format(), {n: text_of(p) for n, p in lessons().items()}, {t: str(p) for t, p in race_files().items()}, template('mine')]))";
const [format, bundled, files, template] = JSON.parse(execFileSync(process.env.ADED_PYTHON ?? "python3", ["-c", code], { cwd: ROOT, encoding: "utf-8", maxBuffer: 1e8 }));
setLessonFormat(format);
setFormat(formatOfPython());
const known = { races: Object.keys(files), terms: Object.keys(tables.en).flatMap((key) => (/^term\.([\w-]+)$/.exec(key) ?? []).slice(1)) };
const races = new Map();

function raceOf(title) {
  if (!races.has(title)) races.set(title, readLines(emptyRace(), linesOf(JSON.parse(readFileSync(files[title], "utf-8")), title)));
  return races.get(title);
}

function changed(change) {
  const body = JSON.parse(template);
  change(body, body.parts);
  return readLesson(JSON.stringify(body), known);
}

test("the template and all bundled lessons have no faults in the browser's check either", () => {
  assert.deepEqual(readLesson(template, known).faults, []);
  assert.ok(Object.keys(bundled).length >= 2);
  for (const [name, text] of Object.entries(bundled)) assert.deepEqual(readLesson(text, known).faults, [], name);
});

for (const [where, key, change] of [
  ["format", "foreign", (body) => delete body.format],
  ["version", "version", (body) => (body.version = 9)],
  ["title", "missing", (body) => delete body.title],
  ["minutes", "form", (body) => (body.minutes = "5")],
  ["color", "form", (body) => (body.color = 1)],
  ["about", "form", (body) => (body.about = { en: "" })],
  ["about", "languages", (body) => (body.about = "one string")],
  ["facts.per-step.value", "form", (body) => (body.facts["per-step"].value = { record: "speed" })],
  ["facts.greedy", "unsourced", (body) => delete body.facts.greedy.source],
  ["facts.per-step", "circle", (body) => (body.facts["per-step"].value = { compute: "add", of: [1, "per-step"] })],
  ["facts.idle", "unused", (body) => (body.facts.idle = { value: { record: "steps" } })],
  ["parts[0].text[0]", "fact", (_, parts) => (parts[0].text[0].en += " {none}")],
  ["parts[0].text[0]", "term", (_, parts) => (parts[0].text[0].zh += " [x](term:none)")],
  ["parts[0].text[0]", "decimal", (_, parts) => (parts[0].text[0].en += " 3.14")],
  ["parts[0].show.race", "race", (_, parts) => (parts[0].show.race = "None")],
  ["parts[0].show", "which", (_, parts) => delete parts[0].show.race],
  ["parts[1].exercise.kind", "form", (_, parts) => (parts[1].exercise.kind = "essay")],
  ["parts[2].exercise", "needs", (_, parts) => delete parts[2].exercise.tolerance],
  ["parts[2].exercise.answer", "fact", (_, parts) => (parts[2].exercise.answer = "none")],
  ["parts[2].exercise.correct", "option", (_, parts) => Object.assign(parts[2].exercise, { kind: "choice", options: [{ text: { en: "a", zh: "a" } }], correct: 1 })],
  ["parts[0].ablation", "form", (_, parts) => (parts[0].ablation = "search")],
  ["parts[3].figure", "figure", (_, parts) => (parts[3].figure.series = { record: "tokens-by-step" })],
]) {
  test(`a lesson is refused with the place ${where}, because of ${key}`, () => {
    const { faults } = changed(change);
    assert.deepEqual([faults[0].where, faults[0].key], [where, key]);
    for (const table of Object.values(tables)) assert.ok(table[`lesson.fault.${key}`]);
  });
}

test("text that is no JSON or nested too deeply is refused, and comments are no fields", () => {
  const deep = `{"format":"aded-lesson","version":1,"parts":${"[".repeat(1e6)}${"]".repeat(1e6)}}`;
  for (const text of ["{", deep]) assert.equal(readLesson(text, known).faults[0].key, "syntax");
  assert.deepEqual(changed((_, parts) => (parts[1].exercise["//"] = ["anything"])).faults, []);
});

test("every name that Python knows can be read or calculated, and no other", () => {
  assert.deepEqual(Object.keys(RECORD), Object.keys(format.record));
  assert.deepEqual(Object.fromEntries(Object.entries(COMPUTE).map(([name, compute]) => [name, compute.length])), format.compute);
});

// Every value of a bundled lesson, with what its part shows.
function* valuesIn(lesson) {
  const shown = shownBy(lesson);
  for (const [i, part] of lesson.parts.entries()) {
    const { exercise, figure } = part;
    const values = [...usedFacts(part), exercise?.answer, figure?.series, ...[...(exercise?.options ?? []), ...(figure?.bars ?? [])].map(({ value }) => value)];
    for (const value of values) if ((value ?? null) !== null) yield [value, shown[i], `parts[${i}]: ${JSON.stringify(value)}`];
  }
}

for (const [name, text] of Object.entries(bundled)) {
  test(`all values of the lesson ${name} are in the record or in its facts, and all its exercises have an answer`, () => {
    const { lesson } = readLesson(text, known);
    const shown = shownBy(lesson);
    for (const [value, view, place] of valuesIn(lesson)) {
      const found = resolved(value, { race: raceOf(view.race), facts: lesson.facts, shown: view });
      assert.ok(found !== null && !shownValue(found).includes("∞"), place);
    }
    for (const [i, { exercise }] of lesson.parts.entries()) {
      const context = { race: raceOf(shown[i].race), facts: lesson.facts, shown: shown[i] };
      if (exercise?.kind === "number") assert.notEqual(judgeNumber(exercise, "0", context).answer, null);
      if (exercise?.kind === "choice") assert.notEqual(judgeChoice(exercise, 0, context).answer, null);
      if (exercise?.kind === "node") assert.ok(judgeNode(exercise, 0, context).answer.length > 0);
      if (exercise?.kind === "path") assert.ok(judgePath([], context).answer.length > 0);
    }
  });
}

const TEACHER = "A maths teacher";
const at = (step, more = {}) => ({ race: raceOf(TEACHER), facts: {}, shown: { race: TEACHER, method: "aded", step, ...more } });

test("values are those of the record", () => {
  const { run, recorded } = placeOf(raceOf(TEACHER), {}, at(4).shown);
  const read = (record, more = {}) => resolved({ record, ...more }, at(4));
  assert.equal(read("tokens"), run.steps.flatMap(({ emitted }) => emitted).length);
  assert.equal(read("steps", { method: "plain" }), raceOf(TEACHER).runs[0].steps.length);
  assert.equal(read("tokens-per-step"), read("tokens") / read("steps"));
  assert.equal(read("drafted"), recorded.tree.tokens.length - 1);
  assert.equal(read("token", { node: 2 }), recorded.tree.texts[2]);
  assert.ok(Math.abs(read("score", { node: 2 }) - recorded.tree.columns.score[2]) < 1e-5);
  assert.equal(read("run-field", { path: "header.settings.max_new_tokens" }), run.header.settings.max_new_tokens);
  assert.equal(read("step-field", { path: "choices[0].probability" }), recorded.choices[0].probability);
  assert.equal(read("score", { node: 9999 }), null);
  assert.equal(read("prior", { step: 999, node: 1 }), null);
  assert.equal(read("visits", { node: 1, moment: 0 }), 0);
  assert.equal(resolved({ record: "visits", node: 1, step: 4 }, at(5, { moment: 0 })), recorded.tree.columns.visits[1]);
  assert.equal(resolved({ record: "q", node: 1 }, at(4)), null);
});

test("values are calculated, and shown with the decimals that a fact asks for", () => {
  const facts = { alpha: { value: 0.5 }, share: { value: { compute: "divide", of: [1, "alpha"] } } };
  assert.equal(resolved({ compute: "expected-tokens", of: ["alpha", 3] }, { race: null, facts, shown: {} }), 1.875);
  assert.equal(resolved("share", { race: null, facts, shown: {} }), 2);
  assert.equal(resolved({ compute: "divide", of: [1, 0] }, { race: null, facts, shown: {} }), null);
  assert.deepEqual([shownValue(2), shownValue(2.156), shownValue(0.5, { percent: true }), shownValue(1, { digits: 3 }), shownValue(null), shownValue(" a")], ["2", "2.16", "50 %", "1.000", "…", " a"]);
});

test("a typed number may have a comma, be a fraction or a percentage", () => {
  assert.deepEqual(["2.16", " 2,16 ", "69/32", "−1", "62 %", ".5"].map(typedNumber), [2.16, 2.16, 2.15625, -1, 0.62, 0.5]);
  for (const text of ["", "two", "1e5", "1/0", "1.2.3", "2·", "/2", "--1"]) assert.equal(typedNumber(text), null, text);
});

test("a typed number may be a calculation of products and quotients, and has all usual forms of a number", () => {
  assert.deepEqual(["32 · 5 / 4", "0.5×0,5", "2*3*4", "1/2/2", "1/4 %"].map(typedNumber), [40, 0.25, 24, 0.25, 0.0025]);
  assert.deepEqual(["１２．５", "５／４", "5.", "+3", "６２％"].map(typedNumber), [12.5, 1.25, 5, 3, 0.62]);
});

test("a number is right within its tolerance, otherwise too low or too high", () => {
  const kindOf = (text) => judgeNumber({ answer: { record: "tokens-per-step" }, tolerance: 0.01 }, text, at(4)).kind;
  assert.deepEqual(["69/32", "2.16", "2.1", "3", "x"].map(kindOf), ["right", "right", "low", "high", "form"]);
  assert.equal(judgeNumber({ answer: { record: "q", node: 1 }, tolerance: 1 }, "1", at(4)).kind, "unknown");
});

test("a predicted path is compared with the accepted path of the record", () => {
  const accepted = placeOf(raceOf(TEACHER), {}, at(16).shown).recorded.path.slice(1);
  assert.equal(judgePath(accepted, at(16)).kind, "right");
  assert.deepEqual({ ...judgePath(accepted.slice(0, 1), at(16)), answer: null }, { right: false, kind: "short", answer: null, agreed: 1 });
  assert.equal(judgePath([1], at(16)).kind, "leaves");
  assert.equal(judgePath([], at(16)).kind, "none");
  assert.equal(judgePath([...accepted, 20], at(16)).kind, "leaves");
});

test("the right nodes have all properties, and of these the greatest or the least value", () => {
  assert.deepEqual(rightNodes({ children_of: 0, greatest: "visits" }, at(4)), [1]);
  assert.deepEqual(rightNodes({ children_of: 0, greatest: "score" }, at(4)), [2]);
  assert.deepEqual(rightNodes({ verdict: "accepted" }, at(4)), placeOf(raceOf(TEACHER), {}, at(4).shown).recorded.path.slice(1));
  assert.equal(judgeNode({ which: { children_of: 0, greatest: "score" } }, 1, at(4)).right, false);
});

test("a choice may be decided by the values of its options", () => {
  const options = [1, { record: "tokens-per-step" }, 2].map((value) => ({ text: "x", value }));
  assert.equal(judgeChoice({ options, correct: "greatest" }, 1, at(4)).right, true);
  assert.equal(judgeChoice({ options, correct: "least" }, 1, at(4)).answer, 0);
});

test("markup has code, emphasis, terms and facts, and everything else stays text", () => {
  const kinds = (text) => partsOf(text).map(({ kind, text: words }) => `${kind}:${words}`);
  assert.deepEqual(kinds("A `b {c}` *d* [e](term:puct) {f} <g>"), ["text:A ", "code:b {c}", "text: ", "emphasis:d", "text: ", "term:e", "text: ", "fact:{f}", "text: <g>"]);
  assert.equal(spoken({ en: "one", zh: "一" }), "one");
  assert.equal(spoken("plain"), "plain");
});

test("terms, code and facts are also found in emphasis, and facts in the words of a term", () => {
  const [emphasis, term] = nodesOf("*a [b](term:puct) `c {f}` {f}*[d {f}](term:mcts)", () => "7");
  assert.deepEqual([emphasis.tag, emphasis.textContent], ["em", "a b c 7 7"]);
  assert.deepEqual(emphasis.find("button").map(({ attributes }) => attributes["data-term"]), ["puct"]);
  assert.deepEqual([term.attributes["data-term"], term.textContent], ["mcts", "d 7"]);
});

test("the bar of a fact has its decimals, and other bars have two, or none for a whole number", () => {
  const facts = { exact: { value: 1 / 3, digits: 4 }, whole: { value: 24.31, digits: 0 }, share: { value: 0.5, percent: true } };
  const bars = ["exact", "whole", "share", 2.156, 3].map((value) => ({ label: "x", value }));
  const textsOf = (figure) => barsOf(figure, { race: null, facts, shown: {} }).map(({ text }) => text);
  assert.deepEqual(textsOf({ bars, series: null }), ["0.3333", "24", "50 %", "2.16", "3"]);
  assert.deepEqual(textsOf({ bars: [{ label: "x", value: { record: "steps" } }], series: null }), ["…"]);
});

test("progress is kept, and storage with anything else in it counts as none", () => {
  const items = new Map();
  globalThis.window = { localStorage: { getItem: (name) => items.get(name) ?? null, setItem: (name, value) => items.set(name, value) } };
  note("puct", "done", 0);
  note("puct", "done", 0);
  note("puct", "solved", 2);
  note("puct", "at", 3);
  assert.deepEqual(progressOf("puct"), { done: [0], solved: [2], at: 3 });
  for (const text of ["[]", "{", '{"puct": 5}', '{"puct": {"done": ["x"], "at": "y"}}']) {
    items.set("aded-lessons", text);
    assert.deepEqual(progressOf("puct"), { done: [], solved: [], at: 0 });
  }
});

test("every lesson has a file beside the others", () => {
  const names = readdirSync(new URL("assets/lessons/", ROOT)).filter((name) => name.endsWith(".json") && name !== "order.json");
  assert.deepEqual(names.map((name) => name.replace(".json", "")).sort(), Object.keys(bundled).sort());
  for (const [name, text] of Object.entries(bundled)) assert.equal(JSON.parse(text).name, name);
});
