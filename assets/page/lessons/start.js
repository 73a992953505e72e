// The script of the lessons, the tools and conversations, which the page loads when it needs one of them (page/shell/lessons.js): their list, and
// the panel of a lesson.

import { cited, el, withCode } from "../core/dom.js";
import { emit, on } from "../core/events.js";
import { pageFiles, textOf } from "../core/files.js";
import { createLatest } from "../core/latest.js";
import { addWords, keysOf, say } from "../core/words.js";
import { createSheet } from "../learn/sheet.js";
import { RACE } from "../shell/link.js";
import { drawHistogram } from "../tools/histogram.js";
import { TOOLS, createTools } from "../tools/tools.js";
import { mountConversation } from "../turns/turns.js";
import { readLesson, setLessonFormat } from "./format.js";
import { spoken } from "./markup.js";
import { createPanel } from "./panel.js";
import { progressOf } from "./progress.js";

const MINUTES_OF_TOUR = 4;

// The script calls it once, at its end. `format`: of lessons; `lessons`: [{name, title, about, minutes, parts, file}]; `results`: the file of
// the benchmark results; `words`: a table of texts per language; `styles`: the style sheet.
export function begin({ format, lessons, results, words, styles }) {
  setLessonFormat(format);
  document.head.append(el("style", { "data-ax-lessons": "", text: styles }));
  addWords(words);
  const opener = document.querySelector("[data-part='lessons']");
  const sheet = createSheet("lesson-list", "lessons.title", () => listOf(lessons, start, tour, tool));
  const focus = () => (opener.offsetHeight ? opener : document.querySelector("[data-part='more'] summary")).focus({ preventScroll: true });
  const panel = createPanel({ open: sheet.open, focus });
  const tools = createTools(results, focus);
  const ask = createLatest(); // a lesson whose file comes after another was asked for, or closed, is not opened
  const closeList = () => sheet.body.closest("dialog").close();
  const known = () => ({ races: (pageFiles().races ?? []).map(({ title }) => title), terms: keysOf("term") });

  function tour() {
    closeList();
    close();
    document.querySelector("[data-part='tour']").click();
  }

  function tool(name) {
    closeList();
    tools.open(name);
  }

  function start(name) {
    closeList();
    const { at, done } = progressOf(name);
    const { parts } = lessons.find((lesson) => lesson.name === name);
    openLesson(name, done.length >= parts ? 0 : at, {});
  }

  function close() {
    ask();
    panel.close();
  }

  async function openLesson(name, part, options) {
    const isLatest = ask();
    const found = lessons.find((lesson) => lesson.name === name);
    if (!found) return emit("linkErrors", [["lesson.unknown", { value: cited(name), list: { say: "lessons.open" } }]]);
    const text = await textOf(found.file).catch(() => null);
    if (!isLatest()) return null;
    if (text === null) return emit("linkErrors", [["lessons.missing", {}]]);
    const { lesson, faults } = readLesson(text, known());
    if (faults.length) return emit("linkErrors", messagesOf(found.file, faults));
    return panel.open(lesson, part, options);
  }

  // The tool of a link, and its lesson, beside the link's view if it names a race; what the link does not name is closed.
  function follow({ lesson, part, ...link }) {
    if (link.tool) tools.open(link.tool, link);
    else tools.close();
    if (!lesson) return close();
    const view = Object.fromEntries(["method", "step", "node", "tab"].flatMap((name) => (link[name] ? [[name, link[name]]] : [])));
    return openLesson(lesson, /^\d{1,3}$/.test(part || "") ? Number(part) - 1 : 0, { apply: !RACE.some((name) => link[name]), view });
  }

  // Opens the lesson in a file, or returns what is wrong with it, as messages.
  function openText(text, name) {
    const { lesson, faults } = readLesson(text, known());
    if (faults.length) return messagesOf(name, faults);
    ask();
    panel.open(lesson, 0, { own: true });
    return [];
  }

  on("mounted", mountConversation);
  emit("lessons", { openList: sheet.open, follow, openText, openTool: tools.open, drawHistogram });
}

function messagesOf(name, faults) {
  const [{ where, key, values }] = faults;
  return [[where ? "lesson.faulty.at" : "lesson.faulty", { name: cited(name), where: cited(where) }], [`lesson.fault.${key}`, values], ["lesson.faults", { count: faults.length }]];
}

function listOf(lessons, start, tour, tool) {
  const first = entry(say("lessons.tour"), say("lessons.tour.about"), minutesOf(MINUTES_OF_TOUR), tour, { "data-lesson": "tour" });
  return [el("p", { class: "ax-dim", text: say("lessons.intro") }), el("ul", { class: "ax-lesson-list" }, first, ...lessons.map((lesson) => lessonEntry(lesson, start))), el("p", { class: "ax-dim" }, ...withCode(say("lessons.own"))), el("h3", { text: say("tools.title") }), el("ul", { class: "ax-lesson-list" }, ...TOOLS.map((name) => entry(say(`tool.${name}`), say(`tool.${name}.about`), "", () => tool(name), { "data-tool-entry": name })))];
}

function lessonEntry({ name, title, about, minutes, parts }, start) {
  const { done } = progressOf(name);
  const state = !done.length ? "" : done.length >= parts ? say("lessons.done") : say("lessons.progress", { done: done.length, of: parts });
  return entry(spoken(title), spoken(about), [minutesOf(minutes), state].filter(Boolean).join(" · "), () => start(name), { "data-lesson": name });
}

const minutesOf = (minutes) => say("lessons.minutes", { count: minutes });

function entry(title, about, facts, open, attributes) {
  const button = el("button", { type: "button", ...attributes }, el("strong", { text: title }), el("span", { text: about }), el("span", { class: "ax-dim", text: facts }));
  button.addEventListener("click", open);
  return el("li", {}, button);
}
