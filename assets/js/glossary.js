// The words of the trade: each one on the page that is marked with data-term opens its meaning beside it.

import { el } from "./dom.js";
import { say, wordsOf } from "./words.js";

const EDGE = 8; // pixels kept free at the window's edge

export function terms() {
  return wordsOf("term");
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
