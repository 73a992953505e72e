// Gradio's lists, where they need help: they open again with a click, close when the keyboard leaves them, and tell choices alone.

import { emit, on } from "./bus.js";

const FIELD = "input[role='combobox']";
const PASSING = ["Tab", "Shift", "Control", "Alt", "Meta"];

const before = new WeakMap(); // a list's field to the text that stood in it when it was entered

// `trigger` tells the server which recorded race was chosen.
export function mendLists(root, trigger) {
  root.addEventListener("pointerdown", reopen);
  root.addEventListener("keydown", leave, { capture: true });
  root.addEventListener("focusin", ({ target }) => target.matches(FIELD) && before.set(target, target.value));
  new MutationObserver(close).observe(root, { subtree: true, attributeFilter: ["aria-expanded"] });
  on("chosen", (race) => trigger("select", { race }));
}

// Whether another entry was chosen since a list was entered: Gradio says so whenever one is left, too.
export function chose(id) {
  const field = fieldOf(id);
  return Boolean(field.value) && before.get(field) !== field.value;
}

// The list of recorded races was left, or something was chosen from it; null for nothing.
export function chooseRace(title) {
  if (!title || !chose("ax-recorded")) return;
  before.set(fieldOf("ax-recorded"), fieldOf("ax-recorded").value); // Gradio says it again as the list closes
  emit("chosen", title);
}

function fieldOf(id) {
  return document.querySelector(`#${id} ${FIELD}`);
}

// A list that Escape has closed opens by itself only when it gets the focus, which it still has.
function reopen({ target }) {
  if (!(target instanceof HTMLInputElement)) return;
  const closed = document.activeElement === target && target.getAttribute("aria-expanded") === "false";
  if (closed) target.dispatchEvent(new FocusEvent("focus"));
}

// Gradio opens a list a moment after any key, when Tab has taken the focus on: of keys that choose nothing it does not hear.
function leave(event) {
  if (PASSING.includes(event.key) && event.target.matches(FIELD)) event.stopPropagation();
}

// Another key just before Tab opens the list too late all the same.
function close(changes) {
  for (const { target } of changes) {
    const late = target.matches(FIELD) && target.getAttribute("aria-expanded") === "true" && target !== document.activeElement;
    if (late) target.dispatchEvent(new FocusEvent("blur"));
  }
}
