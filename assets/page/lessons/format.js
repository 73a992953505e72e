// The format of a lesson, as in aded/lessons: reading and checking. A key // is a comment; a text is a string, or one string per language.

import { faultOf } from "../record/schema.js";

// {schema, format, version, fields, kinds, record, paths, compute}: made by ui/browser/lesson_files.py from the definitions in Python.
let known = null;

export function setLessonFormat(made) {
  known = made;
}

// The lesson in a text: {lesson, faults}; `lesson` is null if it cannot be read at all. A fault is {where, key, values}: its place, and its sentence
// lesson.fault.KEY. `races`: titles of recorded races; `terms`: names of the glossary.
export function readLesson(text, { races, terms }) {
  const body = parsed(text);
  if (body === undefined) return refused("", "syntax", { reason: "JSON" });
  if (body?.format !== known.format) return refused("format", "foreign");
  if (body.version !== known.version) return refused("version", "version", { version: known.version });
  const { format, version, ...lesson } = body;
  const place = faultOf(lesson, known.schema, known.schema.$defs, CHECKS, known.fields);
  if (place !== null) return { lesson, faults: [formFault(lesson, place.replace(/^\./, ""))] };
  return { lesson, faults: [...textFaults(lesson, terms), ...valueFaults(lesson), ...partFaults(lesson, races)] };
}

function refused(where, key, values = {}) {
  return { lesson: null, faults: [{ where, key, values }] };
}

// The value of a text without comments; undefined if it is not JSON, or nested too deeply.
function parsed(text) {
  try {
    return withoutComments(JSON.parse(text));
  } catch {
    return undefined;
  }
}

export function withoutComments(value) {
  if (Array.isArray(value)) return value.map(withoutComments);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).flatMap(([key, part]) => (key === "//" ? [] : [[key, withoutComments(part)]])));
}

function formFault(lesson, where) {
  const steps = where.split(/[.[\]]+/).filter(Boolean);
  const parent = steps.slice(0, -1).reduce((part, key) => part?.[key], lesson);
  const there = parent instanceof Object && Object.hasOwn(parent, steps.at(-1));
  return there ? { where, key: "form", values: { reason: "" } } : { where, key: "missing", values: {} };
}

const isText = (text) => typeof text === "string" && text.trim() !== "";
const isWhole = (value, least) => value === undefined || (Number.isInteger(value) && value >= least);

// The names of the facts that texts and values use.
export function usedFacts(part) {
  const said = [...textsOf(part)].flatMap(([, text]) => (isObject(text) ? Object.values(text) : [text])).flatMap((text) => [...text.matchAll(/\{([\w-]+)\}/g)].map(([, name]) => name));
  return new Set([...said, ...[...valuesOf(part)].map(([, value]) => value).filter((value) => typeof value === "string")]);
}

// Further checks, by the name in the schema; each returns where the fault is, or null.
const CHECKS = {
  text: (text) => (isText(text) || (isObject(text) && Object.keys(text).length > 0 && Object.values(text).every(isText)) ? null : ""),
  value: (value) => (isValue(value) ? null : ""),
  correct: () => null,
};

function isObject(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

function isValue(value) {
  if (!isObject(value)) return typeof value === "string" || Number.isFinite(value);
  const { record, path, method = "", compute, of, step, node, moment, ...rest } = value;
  if (Object.keys(rest).length) return false;
  if (record === undefined) return Object.hasOwn(known.compute, compute) && Array.isArray(of) && of.length === known.compute[compute] && of.every(isValue);
  const places = isWhole(step, 1) && isWhole(node, 0) && isWhole(moment, 0) && typeof method === "string";
  return places && compute === undefined && Object.hasOwn(known.record, record) && known.paths.includes(record) === (typeof path === "string");
}

const TEXTS = ["title", "about", "question", "why", "hint", "label", "at", "x", "y"];

// All parts of a value for which `wanted(key, place)` holds, by place; `skipped`: keys that are not looked into.
function* parts(value, wanted, skipped, where = "") {
  for (const [key, part] of value !== null && typeof value === "object" ? Object.entries(value) : []) {
    const place = Array.isArray(value) ? `${where}[${key}]` : where ? `${where}.${key}` : key;
    if (part !== null && wanted(key, place)) yield [place, part];
    else if (!skipped.includes(key)) yield* parts(part, wanted, skipped, place);
  }
}

// All texts of a lesson by place.
export function* textsOf(lesson) {
  const wanted = (key, place) => key === "text" || (TEXTS.includes(key) && !(key === "title" && place.includes(".reading[")));
  for (const [place, text] of parts(lesson, wanted, ["facts", "source", "which", "show"])) {
    if (Array.isArray(text)) for (const [i, one] of text.entries()) yield [`${place}[${i}]`, one];
    else yield [place, text];
  }
}

// All values of a lesson by place, also those inside calculations.
export function* valuesOf(lesson) {
  const wanted = (key) => ["value", "answer", "series"].includes(key);
  for (const [place, value] of parts(lesson, wanted, ["source", "which", "show"])) yield* within(value, place);
}

function* within(value, place) {
  yield [place, value];
  for (const [i, part] of (value?.of ?? []).entries()) yield* within(part, `${place}.of[${i}]`);
}

const languagesOf = (text) => (isObject(text) ? Object.keys(text).sort().join(", ") : "");

function textFaults(lesson, terms) {
  const languages = languagesOf(lesson.title);
  const faults = [];
  for (const [where, text] of textsOf(lesson)) {
    const fault = (key, values) => faults.push({ where, key, values });
    if (languagesOf(text) !== languages) fault("languages", { languages: languages || "one string" });
    for (const part of isObject(text) ? Object.values(text) : [text]) {
      for (const [, name] of part.matchAll(/\{([\w-]+)\}/g)) if (!Object.hasOwn(lesson.facts, name)) fault("fact", { name });
      for (const [, name] of part.matchAll(/\[[^\]]+\]\(term:([^)]*)\)/g)) if (!terms.includes(name)) fault("term", { name });
      const decimal = /\d\.\d/.exec(part.replace(/\x60[^\x60]*\x60|\[[^\]]+\]\([^)]*\)|\{[^}]*\}/g, ""));
      if (decimal && !where.endsWith(".at")) fault("decimal", { text: decimal[0] });
    }
  }
  return faults;
}

function valueFaults(lesson) {
  const faults = [...valuesOf(lesson)].filter(([, value]) => typeof value === "string" && !Object.hasOwn(lesson.facts, value)).map(([where, name]) => ({ where, key: "fact", values: { name } }));
  const circles = Object.keys(lesson.facts).filter((name) => contains(name, lesson.facts[name].value, lesson.facts, new Set()));
  const open = Object.entries(lesson.facts).filter(([, { value, source }]) => typeof value === "number" && !source);
  const used = usedFacts(lesson);
  const idle = Object.keys(lesson.facts).filter((name) => !used.has(name)).map((name) => ({ where: `facts.${name}`, key: "unused", values: {} }));
  return [...faults, ...idle, ...circles.map((name) => ({ where: `facts.${name}`, key: "circle", values: { name } })), ...open.map(([name]) => ({ where: `facts.${name}`, key: "unsourced", values: {} }))];
}

function contains(name, value, facts, seen) {
  const used = [...within(value, "")].map(([, one]) => one).filter((one) => typeof one === "string" && !seen.has(one));
  return used.includes(name) || used.some((one) => Object.hasOwn(facts, one) && contains(name, facts[one].value, facts, new Set([...seen, ...used])));
}

// What each part shows: race and method as in the part before if it names no race, everything if it has no `show`.
export function shownBy({ parts: all }) {
  let before = {};
  return all.map(({ show }) => {
    const { race, file, method } = before;
    if (show) before = show.race || show.file ? show : { ...show, race, file, method: show.method ?? method };
    return before;
  });
}

function partFaults(lesson, races) {
  const shown = shownBy(lesson);
  return lesson.parts.flatMap(({ show, exercise, figure }, i) => {
    const faults = [];
    const fault = (where, key, values = {}) => faults.push({ where: `parts[${i}].${where}`, key, values });
    const { race, file } = shown[i];
    if (show || !i) {
      if (Boolean(race) === Boolean(file)) fault("show", "which");
      else if (race && !races.includes(race)) fault("show.race", "race", { name: race, list: races.join(", ") });
    }
    if (exercise) exerciseFaults(exercise, fault);
    if (figure && figure.bars.length > 0 === (figure.series !== null)) fault("figure", "figure");
    return faults;
  });
}

function exerciseFaults(exercise, fault) {
  const { kind, correct, options } = exercise;
  for (const field of known.kinds[kind]) if ((exercise[field] ?? null) === null || (field === "options" && !options.length)) fault("exercise", "needs", { kind, field });
  if (kind !== "choice" || correct === null) return;
  const compared = ["greatest", "least"].includes(correct);
  if (compared && !options.every(({ value }) => value !== null)) fault("exercise.options", "compared");
  if (!compared && !(Number.isInteger(correct) && correct >= 0 && correct < options.length)) fault("exercise.correct", "option", { count: options.length });
}
