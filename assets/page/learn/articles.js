// Material for learners: a sheet with the glossary and one article per method; a click on a term (data-term) opens its definition.

import { el } from "../core/dom.js";
import { on } from "../core/events.js";
import { pageFiles } from "../core/files.js";
import { keysOf, say } from "../core/words.js";
import { followLesson } from "../shell/lessons.js";
import { createSheet } from "./sheet.js";
import { createShortcutSheet } from "./shortcuts.js";
import { createTour } from "./tour.js";

const EDGE = 8; // minimum distance in pixels from the edge of the window

export function createLearning(header) {
  const part = (name) => header.querySelector(`[data-part="${name}"]`);
  const sheet = createSheet("sheet", "learn.title", content);
  createTour(part("tour"));
  createShortcutSheet(part("keys"));
  listenForTerms();
  part("learn").addEventListener("click", sheet.open);
  on("article", (method) => openAt(sheet, method));
}

function content() {
  return [el("h3", { text: say("learn.methods") }), ...keysOf("article").map(article), el("h3", { text: say("learn.glossary") }), glossaryList()];
}

function openAt(sheet, method) {
  sheet.open();
  const wanted = [...sheet.body.querySelectorAll("details")].find((entry) => entry.dataset.article === method);
  if (!wanted) return;
  wanted.open = true;
  wanted.scrollIntoView({ block: "start" });
}

function article(name) {
  const words = (what) => say(`article.${name}${what}`);
  const paper = el("p", { class: "ax-dim", text: words(".paper") });
  return el("details", { class: "ax-article", "data-article": name }, el("summary", { text: words("") }), el("p", { text: words(".text") }), paper);
}

function glossaryList() {
  const entries = keysOf("term").flatMap((name) => [el("dt", { text: say(`term.${name}`) }), el("dd", { text: say(`term.${name}.text`) })]);
  return el("dl", { class: "ax-glossary" }, ...entries);
}

// One popover for the whole document; the browser closes it on Escape and on a click elsewhere.
function listenForTerms() {
  const box = el("div", { class: "ax ax-term-box", popover: "auto", role: "note" });
  document.body.append(box);
  document.addEventListener("click", (event) => {
    const word = event.target instanceof Element && event.target.closest("button[data-term]");
    if (word) show(box, word);
  });
}

function show(box, word) {
  const name = word.dataset.term;
  box.replaceChildren(el("strong", { text: say(`term.${name}`) }), el("p", { text: say(`term.${name}.text`) }));
  if (name === "lossless" && pageFiles().lessons) box.append(lessonButton(box));
  box.showPopover();
  const at = word.getBoundingClientRect();
  const below = at.bottom + EDGE + box.offsetHeight < window.innerHeight;
  box.style.left = `${Math.max(EDGE, Math.min(at.left, window.innerWidth - box.offsetWidth - EDGE))}px`;
  box.style.top = `${below ? at.bottom + EDGE : Math.max(EDGE, at.top - EDGE - box.offsetHeight)}px`;
}

// The lesson that explains why the text stays the same.
function lessonButton(box) {
  const button = el("button", { type: "button", class: "ax-pill ax-small-pill", "data-part": "term-lesson", text: say("glossary.lesson") });
  button.addEventListener("click", () => {
    box.hidePopover();
    followLesson({ lesson: "draft-and-verify" });
  });
  return button;
}
