// A number of the search: a slider over values that are worth trying, and the exact one beside it, which can be typed.

import { setText } from "./dom.js";
import { keepWorded, say } from "./words.js";

// Where the slider stands for a text: 0 for no number, else the place of the nearest value, counted from 1.
export function notchOf(text, notches) {
  const value = numberOf(text);
  if (value === null) return 0;
  const far = (notch) => Math.abs(notch - value);
  return 1 + notches.reduce((best, notch, i) => (far(notch) < far(notches[best]) ? i : best), 0);
}

// A typed text as a number; null where it is none.
export function numberOf(text) {
  const value = Number(text);
  return text.trim() && Number.isFinite(value) ? value : null;
}

// `name` is a setting's, `notches` are its values, `nothing` is the text that stands for no number.
export function mountNumber(element, props, watch, { name, notches, nothing }) {
  const part = (id) => element.querySelector(`[data-part="${id}"]`);
  const [range, typed] = [part("range"), part("typed")];
  const text = () => props.value ?? nothing;
  range.max = String(notches.length);

  function tell(next) {
    if (next !== props.value) props.value = next;
    draw();
  }

  function draw() {
    const at = notchOf(text(), notches);
    if (document.activeElement !== typed) typed.value = text();
    if (Number(range.value) !== at) range.value = String(at);
    typed.setAttribute("aria-invalid", String(!isGood(text(), nothing)));
    range.dataset.unset = String(at === 0);
    range.setAttribute("aria-valuetext", at ? text() : say("control.default"));
    typed.placeholder = say("control.default");
    setText(part("label"), say(`control.${name}`));
    for (const field of [range, typed]) field.setAttribute("aria-label", say(`control.${name}`));
  }

  range.addEventListener("input", () => tell(Number(range.value) ? String(notches[Number(range.value) - 1]) : nothing));
  typed.addEventListener("input", () => tell(typed.value));
  typed.addEventListener("blur", draw);
  watch("value", draw);
  keepWorded(element, draw);
  draw();
}

export function isGood(text, nothing) {
  return !text.trim() || text.trim().toLowerCase() === nothing || numberOf(text) !== null;
}
