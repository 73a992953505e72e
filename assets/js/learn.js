// Material for learners: the tour, the shortcuts, and a sheet with the glossary and one article per method.

import { on } from "./events.js";
import { el } from "./dom.js";
import { glossaryList, listenForTerms } from "./glossary.js";
import { createShortcutSheet } from "./shortcutsheet.js";
import { createSheet } from "./sheet.js";
import { createTour } from "./tour.js";
import { say, keysOf } from "./words.js";

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
