// Messages about a link, below the header, until the user closes them.

import { el, withCode } from "./dom.js";
import { onLanguage, say } from "./words.js";

export function createLinkNote(part) {
  const note = { messages: [] };

  function set(messages) {
    note.messages = messages.filter((message, i) => messages.findIndex((other) => same(other, message)) === i);
    draw();
  }

  function draw() {
    part("note-text").replaceChildren(...note.messages.map(([key, values]) => el("p", {}, ...withCode(say(key, values)))));
    part("note").hidden = !note.messages.length;
  }

  part("note-close").addEventListener("click", () => set([]));
  onLanguage(draw);
  return { set, add: (messages) => set([...note.messages, ...messages]), drop: (...names) => set(note.messages.filter(([key]) => !names.includes(key))) };
}

function same(one, other) {
  return JSON.stringify(one) === JSON.stringify(other);
}
