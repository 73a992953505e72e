// The glossary: a click on a term (data-term) opens its definition.

import { el } from "./dom.js";
import { say, keysOf } from "./words.js";

const EDGE = 8; // minimum distance in pixels from the edge of the window

export function terms() {
  return keysOf("term");
}

export function glossaryList() {
  const entries = terms().flatMap((name) => [el("dt", { text: say(`term.${name}`) }), el("dd", { text: say(`term.${name}.text`) })]);
  return el("dl", { class: "ax-glossary" }, ...entries);
}

// One popover for the whole document; the browser closes it on Escape and on a click elsewhere.
export function listenForTerms() {
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
  box.showPopover();
  const at = word.getBoundingClientRect();
  const below = at.bottom + EDGE + box.offsetHeight < window.innerHeight;
  box.style.left = `${Math.max(EDGE, Math.min(at.left, window.innerWidth - box.offsetWidth - EDGE))}px`;
  box.style.top = `${below ? at.bottom + EDGE : Math.max(EDGE, at.top - EDGE - box.offsetHeight)}px`;
}
