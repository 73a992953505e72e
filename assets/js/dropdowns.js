// Fixes for Gradio's dropdowns: a click opens them again, they close when the keyboard leaves them, and only real selections are reported.

import { isComposing } from "./keys.js";

const FIELD = "input[role='combobox']";
const PASSING = ["Tab", "Shift", "Control", "Alt", "Meta"];

const before = new WeakMap(); // input element to the text in it when it got the focus

export function fixDropdowns(root) {
  root.addEventListener("pointerdown", reopen);
  root.addEventListener("keydown", leave, { capture: true });
  root.addEventListener("focusin", ({ target }) => target.matches(FIELD) && before.set(target, target.value));
  new MutationObserver(close).observe(root, { subtree: true, attributeFilter: ["aria-expanded"] });
}

// Whether the selection changed since the dropdown got the focus; Gradio also reports a change when a dropdown is left.
export function chose(id) {
  const field = fieldOf(id);
  return Boolean(field.value) && before.get(field) !== field.value;
}

function fieldOf(id) {
  return document.querySelector(`#${id} ${FIELD}`);
}

// A dropdown closed with Escape would only open again on focus, which it still has.
function reopen({ target }) {
  if (!(target instanceof HTMLInputElement)) return;
  const closed = document.activeElement === target && target.getAttribute("aria-expanded") === "false";
  if (closed) target.dispatchEvent(new FocusEvent("focus"));
}

// Gradio opens a dropdown shortly after any key, even after Tab has moved the focus on, and selects by Enter; keys that select nothing,
// and those of an input method, are hidden from it.
function leave(event) {
  if ((PASSING.includes(event.key) || isComposing(event)) && event.target.matches(FIELD)) event.stopPropagation();
}

// A key pressed just before Tab still opens the dropdown too late; it is closed here.
function close(changes) {
  for (const { target } of changes) {
    const late = target.matches(FIELD) && target.getAttribute("aria-expanded") === "true" && target !== document.activeElement;
    if (late) target.dispatchEvent(new FocusEvent("blur"));
  }
}
