// The page's own words: one table a language (assets/i18n), one language at a time. Knows nothing of what it words.

import { withCode } from "./dom.js";

const FALLBACK = "en";
const HAN = "[\\p{sc=Han}，。！？；：、（）“”《》]"; // and the signs of a full width
const SLOT = new RegExp(`((?:(?<=${HAN}) )?)\\{(\\w+)\\}((?: (?=${HAN}))?)`, "gu");
const [BEGINS, ENDS] = [new RegExp(`^${HAN}`, "u"), new RegExp(`${HAN}$`, "u")];
const state = { tables: {}, language: FALLBACK, listeners: new Set() };

export function setTables(tables) {
  state.tables = tables;
}

// Code and own name of each language, in the order of the tables.
export function languages() {
  return Object.entries(state.tables).map(([code, table]) => ({ code, name: table["language.name"] }));
}

export function language() {
  return state.language;
}

// Speaks another language from now on; one that is not there changes nothing.
export function setLanguage(code) {
  if (!Object.hasOwn(state.tables, code) || code === state.language) return;
  state.language = code;
  for (const listener of state.listeners) listener(code);
}

export function onLanguage(listener) {
  state.listeners.add(listener);
}

// The words of a key, {names} replaced by values. An entry of several forms is chosen from by the value `count`.
// A value {say, otherwise} is said too: the words of its key, or `otherwise` where there are none.
// The blank that parts a value from Han characters falls where the value has one at that end.
export function say(key, values = {}) {
  return formOf(entry(key), values.count).replace(SLOT, (whole, before, name, after) => (Object.hasOwn(values, name) ? joined(before, said(values[name]), after) : whole));
}

// Sentences one after the other, empty ones left out; after a full-width stop there is no blank.
export function sentences(...list) {
  return list.filter(Boolean).reduce((text, next) => text + (!text || /[。！？；：]$/u.test(text) ? "" : " ") + next, "");
}

function joined(before, value, after) {
  return `${BEGINS.test(value) ? "" : before}${value}${ENDS.test(value) ? "" : after}`;
}

function said(value) {
  return value instanceof Object && "say" in value ? sayOr(value.say, value.otherwise ?? value.say) : String(value);
}

// The words of a key, or `otherwise` where no language has any.
export function sayOr(key, otherwise) {
  return Object.hasOwn(state.tables[FALLBACK] || {}, key) ? say(key) : otherwise;
}

// The words of a key in the first language, in which the engine speaks.
export function original(key) {
  return state.tables[FALLBACK]?.[key];
}

// Names of a family in the order of the table: "term" gives "draft" for "term.draft".
export function wordsOf(family) {
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

// Puts words into the static markup below a node: text by data-say, names by data-say-label, hints by data-say-title.
export function fillWords(root) {
  for (const node of root.querySelectorAll("[data-say]")) node.replaceChildren(...withCode(say(node.dataset.say)));
  for (const node of root.querySelectorAll("[data-say-label]")) node.setAttribute("aria-label", say(node.dataset.sayLabel));
  for (const node of root.querySelectorAll("[data-say-title]")) node.title = say(node.dataset.sayTitle);
}

// Fills a panel's static markup now and whenever the language changes; `redraw` then draws what is not static.
export function keepWorded(root, redraw = () => {}) {
  fillWords(root);
  onLanguage(() => {
    fillWords(root);
    redraw();
  });
}
