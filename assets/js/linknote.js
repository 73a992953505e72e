// What a link does not hold, or asks for in vain: sentences below the header, until they are closed.

import { el, withCode } from "./dom.js";
import { onLanguage, say } from "./words.js";

export function createLinkNote(part) {
  const note = { sayings: [] };

  function set(sayings) {
    note.sayings = sayings.filter((saying, i) => sayings.findIndex((other) => same(other, saying)) === i);
    draw();
  }

  function draw() {
    part("note-text").replaceChildren(...note.sayings.map(([key, values]) => el("p", {}, ...withCode(say(key, values)))));
    part("note").hidden = !note.sayings.length;
  }

  part("note-close").addEventListener("click", () => set([]));
  onLanguage(draw);
  return { set, add: (sayings) => set([...note.sayings, ...sayings]), drop: (...names) => set(note.sayings.filter(([key]) => !names.includes(key))) };
}

function same(one, other) {
  return JSON.stringify(one) === JSON.stringify(other);
}
