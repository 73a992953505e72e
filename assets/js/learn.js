// What there is to learn: the tour, and a sheet with the glossary and an article a method.

import { on } from "./bus.js";
import { el, setText } from "./dom.js";
import { glossaryList, listenForTerms } from "./glossary.js";
import { createTour } from "./tour.js";
import { onLanguage, say, wordsOf } from "./words.js";

export function createLearning(header) {
  const part = (name) => header.querySelector(`[data-part="${name}"]`);
  const sheet = createSheet();
  createTour(part("tour"));
  listenForTerms();
  part("learn").addEventListener("click", () => sheet.open());
  on("article", sheet.open);
}

function createSheet() {
  const title = el("h2", { id: "ax-sheet-title" });
  const close = el("button", { type: "button", class: "ax-pill", "data-part": "sheet-close" });
  const body = el("div", { class: "ax-sheet-body" });
  const dialog = el("dialog", { class: "ax ax-sheet", "aria-labelledby": "ax-sheet-title" }, el("div", { class: "ax-sheet-head" }, title, close), body);
  document.body.append(dialog);
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());

  function fill() {
    setText(title, say("learn.title"));
    setText(close, say("learn.close"));
    body.replaceChildren(
      el("h3", { text: say("learn.methods") }),
      ...wordsOf("article").map(article),
      el("h3", { text: say("learn.glossary") }),
      glossaryList(),
    );
  }

  function open(method) {
    fill();
    dialog.showModal();
    const wanted = [...body.querySelectorAll("details")].find((entry) => entry.dataset.article === method);
    if (!wanted) return;
    wanted.open = true;
    wanted.scrollIntoView({ block: "start" });
  }
  onLanguage(() => dialog.open && fill());
  return { open };
}

function article(name) {
  const words = (what) => say(`article.${name}${what}`);
  const paper = el("p", { class: "ax-dim", text: words(".paper") });
  return el("details", { class: "ax-article", "data-article": name }, el("summary", { text: words("") }), el("p", { text: words(".text") }), paper);
}
