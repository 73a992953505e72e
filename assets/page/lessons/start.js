// The script of the lessons, which the page loads when one is opened (page/shell/lessons.js): the list of lessons, and their panel.

import { cited, el, withCode } from "../core/dom.js";
import { emit } from "../core/events.js";
import { pageFiles, textOf } from "../core/files.js";
import { addWords, keysOf, say } from "../core/words.js";
import { createSheet } from "../learn/sheet.js";
import { readLesson, setLessonFormat } from "./format.js";
import { spoken } from "./markup.js";
import { createPanel } from "./panel.js";
import { progressOf } from "./progress.js";

const MINUTES_OF_TOUR = 4;

// The script calls it once, at its end. `format`: of lessons; `lessons`: [{name, title, about, minutes, parts, file}]; `words`: a table of texts per
// language; `styles`: the style sheet.
export function begin({ format, lessons, words, styles }) {
  setLessonFormat(format);
  document.head.append(el("style", { "data-ax-lessons": "", text: styles }));
  addWords(words);
  const opener = document.querySelector("[data-part='lessons']");
  const sheet = createSheet("lesson-list", "lessons.title", () => listOf(lessons, start, tour));
  const panel = createPanel({ open: sheet.open, focus: () => (opener.offsetHeight ? opener : document.querySelector("[data-part='more'] summary")).focus({ preventScroll: true }) });
  const closeList = () => sheet.body.closest("dialog").close();
  const known = () => ({ races: (pageFiles().races ?? []).map(({ title }) => title), terms: keysOf("term") });

  function tour() {
    closeList();
    panel.close();
    document.querySelector("[data-part='tour']").click();
  }

  function start(name) {
    closeList();
    const { at, done } = progressOf(name);
    const { parts } = lessons.find((lesson) => lesson.name === name);
    openLesson(name, done.length >= parts ? 0 : at, {});
  }

  async function openLesson(name, part, options) {
    const found = lessons.find((lesson) => lesson.name === name);
    if (!found) return emit("linkErrors", [["lesson.unknown", { value: cited(name), list: { say: "lessons.open" } }]]);
    const text = await textOf(found.file).catch(() => null);
    if (text === null) return emit("linkErrors", [["lessons.missing", {}]]);
    const { lesson, faults } = readLesson(text, known());
    if (faults.length) return emit("linkErrors", messagesOf(found.file, faults));
    return panel.open(lesson, part, options);
  }

  // The lesson of a link, beside the link's view if it names one; a link without a lesson closes the panel.
  function follow({ lesson, part, ...link }) {
    if (!lesson) return panel.close();
    return openLesson(lesson, /^\d{1,3}$/.test(part || "") ? Number(part) - 1 : 0, { apply: !["race", "run", "file", "method", "step", "node", "tab"].some((name) => link[name]) });
  }

  // Opens the lesson in a file, or returns what is wrong with it, as messages.
  function openText(text, name) {
    const { lesson, faults } = readLesson(text, known());
    if (faults.length) return messagesOf(name, faults);
    panel.open(lesson, 0, { own: true });
    return [];
  }

  emit("lessons", { openList: sheet.open, follow, openText });
}

function messagesOf(name, faults) {
  const [{ where, key, values }] = faults;
  return [[where ? "lesson.faulty.at" : "lesson.faulty", { name: cited(name), where: cited(where) }], [`lesson.fault.${key}`, values], ["lesson.faults", { count: faults.length }]];
}

function listOf(lessons, start, tour) {
  const first = entry(say("lessons.tour"), say("lessons.tour.about"), MINUTES_OF_TOUR, "", tour, { "data-lesson": "tour" });
  return [el("p", { class: "ax-dim", text: say("lessons.intro") }), el("ul", { class: "ax-lesson-list" }, first, ...lessons.map((lesson) => lessonEntry(lesson, start))), el("p", { class: "ax-dim" }, ...withCode(say("lessons.own")))];
}

function lessonEntry({ name, title, about, minutes, parts }, start) {
  const { done } = progressOf(name);
  const state = !done.length ? "" : done.length >= parts ? say("lessons.done") : say("lessons.progress", { done: done.length, of: parts });
  return entry(spoken(title), spoken(about), minutes, state, () => start(name), { "data-lesson": name });
}

function entry(title, about, minutes, state, open, attributes) {
  const facts = [say("lessons.minutes", { count: minutes }), state].filter(Boolean).join(" · ");
  const button = el("button", { type: "button", ...attributes }, el("strong", { text: title }), el("span", { text: about }), el("span", { class: "ax-dim", text: facts }));
  button.addEventListener("click", open);
  return el("li", {}, button);
}
