// The texts of the page: one table per language (assets/i18n), one language at a time.

import { withCode } from "./dom.js";

const FALLBACK = "en";
const HAN = "[\\p{sc=Han}，。！？；：、（）“”《》]"; // Han characters and full-width punctuation
const SLOT = new RegExp(`((?:(?<=${HAN}) )?)\\{(\\w+)\\}((?: (?=${HAN}))?)`, "gu");
const [BEGINS, ENDS] = [new RegExp(`^${HAN}`, "u"), new RegExp(`${HAN}$`, "u")];
const state = { tables: {}, language: FALLBACK, listeners: new Set() };

export function setTables(tables) {
  state.tables = tables;
}

// Code and native name of each language, in the order of the tables.
export function languages() {
  return Object.entries(state.tables).map(([code, table]) => ({ code, name: table["language.name"] }));
}

export function language() {
  return state.language;
}

// Switches the language; an unknown one changes nothing.
export function setLanguage(code) {
  if (!Object.hasOwn(state.tables, code) || code === state.language) return;
  state.language = code;
  for (const listener of state.listeners) listener(code);
}

export function onLanguage(listener) {
  state.listeners.add(listener);
}

// The text of a key with {names} replaced by values. An entry with several forms is selected by the value `count`.
// A value {say, otherwise} is a key itself: its text, or `otherwise` if there is none.
// A space between a value and Han characters is dropped if the value begins or ends with Han characters on that side.
export function say(key, values = {}) {
  return formOf(entry(key), values.count).replace(SLOT, (whole, before, name, after) => (Object.hasOwn(values, name) ? joined(before, said(values[name]), after) : whole));
}

// Joins sentences, without empty ones; there is no space after full-width punctuation.
export function sentences(...list) {
  return list.filter(Boolean).reduce((text, next) => text + (!text || /[。！？；：]$/u.test(text) ? "" : " ") + next, "");
}

function joined(before, value, after) {
  return `${BEGINS.test(value) ? "" : before}${value}${ENDS.test(value) ? "" : after}`;
}

function said(value) {
  return value instanceof Object && "say" in value ? sayOr(value.say, value.otherwise ?? value.say) : String(value);
}

// The text of a key, or `otherwise` if no language has it.
export function sayOr(key, otherwise) {
  return Object.hasOwn(state.tables[FALLBACK] || {}, key) ? say(key) : otherwise;
}

// The text of a key in English, the language of the engine.
export function original(key) {
  return state.tables[FALLBACK]?.[key];
}

// Names of a family of keys in the order of the table: "term" returns "draft" for "term.draft".
export function keysOf(family) {
  const known = new RegExp(`^${family}\\.([\\w-]+)$`);
  return Object.keys(state.tables[FALLBACK] || {}).flatMap((key) => (known.exec(key) || []).slice(1));
}

function entry(key) {
  const tables = [state.tables[state.language], state.tables[FALLBACK]].filter(Boolean);
  const table = tables.find((words) => Object.hasOwn(words, key));
  return table ? table[key] : key;
}

function formOf(found, count) {
  if (typeof found === "string") return found;
  return found[count] || (count === 1 && found.one) || found.other;
}

// Fills static markup below a node: text by data-say, labels by data-say-label, tooltips by data-say-title.
export function fillText(root) {
  for (const node of root.querySelectorAll("[data-say]")) node.replaceChildren(...withCode(say(node.dataset.say)));
  for (const node of root.querySelectorAll("[data-say-label]")) node.setAttribute("aria-label", say(node.dataset.sayLabel));
  for (const node of root.querySelectorAll("[data-say-title]")) node.title = say(node.dataset.sayTitle);
}

// Fills static markup now and after every change of language; `redraw` then draws the rest.
export function localize(root, redraw = () => {}) {
  fillText(root);
  onLanguage(() => {
    fillText(root);
    redraw();
  });
}
