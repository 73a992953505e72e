// Messages about a link, and a link to be copied by hand, below the header, until the user closes them.

import { el, setText, withCode } from "../core/dom.js";
import { onLanguage, say } from "../core/words.js";

export function createLinkNote(part) {
  const note = { messages: [] };
  const link = el("input", { type: "text", readonly: true });
  const label = el("span");
  const field = el("label", { class: "ax-link-field", hidden: true }, label, link);
  const [box, text] = [part("note"), part("note-text")];
  text.before(field);

  function set(messages) {
    note.messages = messages.filter((message, i) => messages.findIndex((other) => same(other, message)) === i);
    draw();
  }

  function draw() {
    text.replaceChildren(...note.messages.map(([key, values]) => el("p", {}, ...withCode(say(key, values)))));
    setText(label, say("link.byhand"));
    box.hidden = field.hidden && !note.messages.length;
  }

  // Shows a link to be copied by hand, selected.
  function showLink(address) {
    link.value = address;
    field.hidden = false;
    draw();
    link.focus();
    link.select();
  }

  part("note-close").addEventListener("click", () => {
    field.hidden = true;
    set([]);
  });
  onLanguage(draw);
  return { box, set, showLink, add: (messages) => set([...note.messages, ...messages]), drop: (...names) => set(note.messages.filter(([key]) => !names.includes(key))) };
}

function same(one, other) {
  return JSON.stringify(one) === JSON.stringify(other);
}
