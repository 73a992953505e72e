// Fixes for Gradio's widgets, which have no options for them: dropdowns, placeholder texts, the keyboard focus around a race, and the order of Tab.

import { isComposing } from "../core/dom.js";
import { onLanguage, say } from "../core/words.js";

const FIELD = "input[role='combobox']";
const PASSING = ["Tab", "Shift", "Control", "Alt", "Meta"];
const LISTS = ["examples"]; // dropdowns with a placeholder text while nothing is selected
const [START, STOP] = ["#ax-run, #ax-ablate", "#ax-stop"];

const before = new WeakMap(); // input element to the text in it when it got the focus

// A click opens a dropdown again, and it closes when the keyboard leaves it.
export function fixDropdowns(root) {
  root.addEventListener("pointerdown", reopen);
  root.addEventListener("keydown", leave, { capture: true });
  root.addEventListener("focusin", ({ target }) => target.matches(FIELD) && before.set(target, target.value));
  new MutationObserver(close).observe(root, { subtree: true, attributeFilter: ["aria-expanded"] });
}

// Whether the selection changed since the dropdown got the focus; Gradio also reports a change when a dropdown is left.
export function wasChosen(id) {
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

// Placeholder texts, and the direction of the prompt by its first letters. Gradio may create the input elements again, so they are adjusted
// after every change below `root`.
export function adjustFields(root) {
  const adjust = () => {
    const prompt = root.querySelector("#ax-prompt textarea");
    if (prompt && prompt.dir !== "auto") prompt.dir = "auto";
    for (const name of LISTS) {
      const field = root.querySelector(`#ax-${name} input`);
      if (field && field.placeholder !== say(`hint.${name}`)) field.placeholder = say(`hint.${name}`);
    }
  };
  onLanguage(adjust);
  new MutationObserver(adjust).observe(root, { childList: true, subtree: true });
  adjust();
}

// During a race, the keyboard focus moves from the button that starts it, which is then disabled, to Stop, and back.
export function keepRunFocus(root) {
  let started = null; // the button that started the latest race
  let moves = false; // whether it was pressed by keyboard
  let held = null; // the element with the focus, or the one that lost it by being disabled

  function settle() {
    const stop = root.querySelector(STOP);
    if (!started || !stop) return;
    const running = started.disabled;
    if (running && moves && !stop.disabled && held === started) stop.focus();
    else if (!running && stop.disabled && held === stop) started.focus();
    if (running && !stop.disabled) moves = false;
  }

  root.addEventListener("click", ({ target }) => {
    const button = target instanceof Element ? target.closest(START) : null;
    if (!button) return;
    started = button;
    moves = button.matches(":focus-visible"); // after a mouse click the focus stays: the next space key would stop the race
  });
  root.addEventListener("focusin", ({ target }) => (held = target));
  root.addEventListener("focusout", ({ target }) => {
    if (!target.disabled) held = null;
  });
  new MutationObserver(settle).observe(root, { subtree: true, attributeFilter: ["disabled"] });
}

const [BAR, RUN_ROW, HEADER_BUTTONS] = ["#ax-bar", "#ax-run-row", ".ax-header-buttons"];

// The elements of the bar in the order in which they are seen: Run is before the buttons of the header, and after them in the document.
export function seenOrder(elements) {
  const place = (element) => (element.closest(RUN_ROW) ? 1 : element.closest(HEADER_BUTTONS) ? 2 : 0);
  return [0, 1, 2].flatMap((at) => elements.filter((element) => place(element) === at));
}

// Tab goes through the bar in this order.
export function tabAsSeen(root) {
  const inBar = () => [...root.querySelectorAll(BAR)].flatMap((bar) => [...bar.querySelectorAll("button, summary, select, input, a[href]")]).filter((element) => !element.disabled && element.tabIndex >= 0 && element.checkVisibility({ visibilityProperty: true }));
  let back = false; // whether Shift+Tab is pressed

  root.addEventListener("keydown", (event) => {
    back = event.key === "Tab" && event.shiftKey;
    if (event.key !== "Tab" || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || !event.target.closest(BAR)) return;
    const elements = inBar();
    const order = seenOrder(elements);
    const at = order.indexOf(event.target);
    const next = order[at + (back ? -1 : 1)];
    if (at < 0 || (back && !next)) return;
    if (next) event.preventDefault();
    (next ?? last(elements)).focus(); // after the last one in the document the browser goes on below the bar
  });
  root.addEventListener("focusin", ({ target, relatedTarget }) => {
    if (back && relatedTarget && !relatedTarget.closest(BAR) && target.closest(RUN_ROW)) last(seenOrder(inBar()))?.focus();
  });
  root.addEventListener("keyup", () => (back = false));
}

const last = (list) => list[list.length - 1];
