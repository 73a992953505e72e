// Messages about a link, and a link to be copied by hand, below the header, until the user closes them; what was copied.

import { el, setText, withCode } from "../core/dom.js";
import { on } from "../core/events.js";
import { onLanguage, say } from "../core/words.js";
import { otherRace } from "./link.js";

const SHOWN = 4000; // milliseconds for which the page says what was copied

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

// Returns a function that says for a while what was copied, but not beside another race.
export function createCopied(status) {
  let timer = 0;
  let race = {};
  const show = (words) => {
    clearTimeout(timer);
    setText(status, words);
  };
  on("view", (view) => {
    if (otherRace(race, view)) show("");
    race = view;
  });
  return (key) => {
    show(say(key));
    timer = setTimeout(() => setText(status, ""), SHOWN);
  };
}

// Copies the link of the view on screen; what is known of it later is said only while its race is on screen.
export async function copyLink(address, sayCopied, note) {
  const [text, isShown] = [address.text(), address.race()];
  note.add(address.warnings());
  try {
    await navigator.clipboard.writeText(text);
    if (isShown()) sayCopied("link.copied");
  } catch {
    note.showLink(text);
  }
  const messages = await address.lasting();
  if (isShown()) note.add(messages);
}
