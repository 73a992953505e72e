// The texts of the page: one table per language (ui/browser/sources.py), one language at a time. All tables have the same keys.

import { withCode } from "./dom.js";

const HAN = "[\\p{sc=Han}，。！？；：、（）“”《》]"; // Han characters and full-width punctuation
const SLOT = new RegExp(`((?:(?<=${HAN}) )?)\\{(\\w+)\\}((?: (?=${HAN}))?)`, "gu");
const [BEGINS, ENDS] = [new RegExp(`^${HAN}`, "u"), new RegExp(`${HAN}$`, "u")];
const state = { language: "", table: {}, more: {}, listeners: new Set() };

export function language() {
  return state.language;
}

// The current table.
export function table() {
  return state.table;
}

// Switches the language to this code and table.
export function setLanguage(code, words) {
  Object.assign(state, { language: code, table: Object.hasOwn(state.more, code) ? { ...words, ...state.more[code] } : words });
  for (const listener of state.listeners) listener(code);
}

// Adds texts that are loaded later: a table per language.
export function addWords(tables) {
  state.more = tables;
  state.table = { ...state.table, ...tables[state.language] };
}

export function onLanguage(listener) {
  state.listeners.add(listener);
}

// The text of a key with {names} replaced by values. An entry with several forms is selected by the value `count`.
// A value {say, otherwise} is a key itself: its text, or `otherwise` if there is none.
// A space between a value and Han characters is dropped if the value begins or ends with Han characters on that side.
export function say(key, values = {}) {
  return formOf(Object.hasOwn(state.table, key) ? state.table[key] : key, values.count).replace(SLOT, (whole, before, name, after) => (Object.hasOwn(values, name) ? joined(before, said(values[name]), after) : whole));
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

// The text of a key, or `otherwise` if it does not exist.
export function sayOr(key, otherwise) {
  return Object.hasOwn(state.table, key) ? say(key) : otherwise;
}

// Names of a family of keys in the order of the table: "term" returns "draft" for "term.draft".
export function keysOf(family) {
  const known = new RegExp(`^${family}\\.([\\w-]+)$`);
  return Object.keys(state.table).flatMap((key) => (known.exec(key) || []).slice(1));
}

function formOf(found, count) {
  if (typeof found === "string") return found;
  return found[count] || (count === 1 && found.one) || found.other;
}

// Fills static markup below a node: text by data-say, labels by data-say-label, tooltips by data-say-title.
function fillText(root) {
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
