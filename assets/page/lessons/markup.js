// Paragraphs of a lesson: code in backquotes (a token with its space), *emphasis*, [words](term:name) for the glossary, and {name} for a fact; emphasis and words may contain the others. Text is only inserted as textContent.

import { el } from "../core/dom.js";
import { language } from "../core/words.js";

const PART = /\x60([^\x60]+)\x60|\*([^*]+)\*|\[([^\]]+)\]\(term:([\w-]+)\)|\{([\w-]+)\}/g;

// A text in the current language, or in the first that it has.
export function spoken(text) {
  if (text === null || typeof text !== "object") return text ?? "";
  return text[language()] ?? Object.values(text)[0];
}

// The parts of a paragraph: {kind, text, name}.
export function partsOf(text) {
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(PART)) {
    const [whole, code, emphasis, words, term, fact] = found;
    if (found.index > end) parts.push({ kind: "text", text: text.slice(end, found.index) });
    if (code) parts.push({ kind: "code", text: code });
    else if (emphasis) parts.push({ kind: "emphasis", text: emphasis });
    else if (term) parts.push({ kind: "term", text: words, name: term });
    else parts.push({ kind: "fact", text: whole, name: fact });
    end = found.index + whole.length;
  }
  return end < text.length ? [...parts, { kind: "text", text: text.slice(end) }] : parts;
}

const MAKERS = {
  text: ({ text }) => text,
  code: ({ text }, fact) => el("code", { text: text.replace(/\{([\w-]+)\}/g, (_, name) => fact(name)).replace(/^ /, "␣") }),
  emphasis: ({ text }, fact) => el("em", {}, ...nodesOf(text, fact)),
  term: ({ text, name }, fact) => el("button", { type: "button", class: "ax-term", "data-term": name }, ...nodesOf(text, fact)),
  fact: ({ name }, fact) => el("span", { class: "ax-num", text: fact(name) }),
};

// A paragraph; one that is only code is a formula.
export function paragraphOf(text, fact) {
  const parts = partsOf(spoken(text));
  return el("p", { class: parts.length === 1 && parts[0].kind === "code" ? "ax-formula" : null }, ...nodesOf(text, fact));
}

// The nodes of a text; `fact` returns the text of a fact by its name.
export function nodesOf(text, fact) {
  return partsOf(spoken(text)).map((part) => MAKERS[part.kind](part, fact));
}

// A text without its markup, for one line and for screen readers.
export function plainOf(text, fact) {
  return nodesOf(text, fact).map((part) => part.textContent ?? part).join("");
}
