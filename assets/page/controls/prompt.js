// The length of the prompt, said below its field when it comes near the server's limit or exceeds it.

import { count, el, setText } from "../core/dom.js";
import { emit } from "../core/events.js";
import { onLanguage, say } from "../core/words.js";

const NEAR = 0.9; // share of the maximum from which the length is shown
const FIELD = "#ax-prompt textarea";

// What is said about a text of at most `maximum` characters: {text, over}, the text "" for a short one. Characters are counted as the server does.
export function lengthNote(prompt, maximum) {
  if (prompt.length < NEAR * maximum) return { text: "", over: false };
  const length = Array.from(prompt).length;
  const over = length > maximum;
  const values = { count: count(length), maximum: count(maximum) };
  return { text: length < NEAR * maximum ? "" : say(over ? "notice.long" : "prompt.length", values), over };
}

// Gradio may create the field again, anywhere below `root`, and may set its text, which also sets its height.
export function mountPrompt(root, maximum) {
  const note = el("p", { class: "ax ax-length", id: "ax-prompt-length", "data-part": "prompt-length", hidden: true });
  const fitted = new MutationObserver(update);
  let [known, last] = [null, null]; // the field and its text

  function update() {
    const field = root.querySelector(FIELD);
    if (!field) return;
    if (field !== known) fitted.observe(field, { attributeFilter: ["style"] });
    known = field;
    const box = field.closest("#ax-prompt");
    if (note.parentElement !== box) box.append(note);
    const { text, over } = lengthNote(field.value, maximum);
    setText(note, text);
    note.hidden = !text;
    note.dataset.over = String(over);
    field.setAttribute("aria-invalid", String(over));
    field.setAttribute("aria-describedby", note.id);
    if (field.value !== last) emit("corrected", [...(field.value.trim() ? ["notice.prompt"] : []), ...(over ? [] : ["notice.long"])]);
    last = field.value;
  }

  root.addEventListener("input", ({ target }) => target.matches(FIELD) && update());
  const isMade = () => root.querySelector(FIELD) !== known || !note.isConnected;
  new MutationObserver(() => isMade() && update()).observe(root, { subtree: true, childList: true });
  onLanguage(update);
  update();
}
