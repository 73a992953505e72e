// A number field: text input, and a slider over useful values if the field has any.

import { fitted, setText } from "../core/dom.js";
import { emit } from "../core/events.js";
import { localize, say } from "../core/words.js";

const NUMBER = /^[+-]?(\d+[.,]?\d*|[.,]\d+)(e[+-]?\d{1,3})?$/i;
const THOUSANDS = /^[+-]?[1-9]\d{0,2},\d{3}$/; // a comma that may separate thousands is no decimal comma
const LONGEST = 40; // maximum length of the text quoted in a message

// Slider position for a text: 0 for no number, else the index of the nearest tick, from 1.
export function tickOf(text, ticks) {
  const value = numberOf(text);
  if (value === null) return 0;
  const near = Math.max(ticks[0], Math.min(ticks[ticks.length - 1], value));
  const far = (tick) => Math.abs(tick - near);
  return 1 + ticks.reduce((best, tick, i) => (far(tick) < far(ticks[best]) ? i : best), 0);
}

// A typed text as a number (with a decimal point or comma; full-width digits too; Infinity if too large); null if it is not a number.
export function numberOf(text) {
  const plain = text.normalize("NFKC").trim();
  return NUMBER.test(plain) && !THOUSANDS.test(plain) ? Number(plain.replace(",", ".")) : null;
}

function isBlank(text, { blank }) {
  return blank !== null && ["", blank].includes(text.normalize("NFKC").trim().toLowerCase());
}

const ERRORS = ["number", "empty", "range", "integer"];

// The error of a text, one of ERRORS, as ui/numbers.py checks it; null if there is none.
export function errorOf(text, field) {
  if (isBlank(text, field)) return null;
  const value = numberOf(text);
  if (value === null) return text.trim() ? "number" : "empty";
  if (value < field.minimum || value > field.maximum) return "range";
  return field.integer && !Number.isInteger(value) ? "integer" : null;
}

// The shortest text of the same value; a text with an error is returned unchanged.
export function shortest(text, field) {
  if (errorOf(text, field)) return text;
  return isBlank(text, field) ? field.blank : String(numberOf(text));
}

// The error as a sentence that names the field and its range.
export function errorText(text, field) {
  const error = errorOf(text, field);
  if (!error) return "";
  const { name, minimum, maximum, blank } = field;
  const or = blank === null ? "" : say(blank ? "field.auto" : "field.preset");
  return say(`field.${error}`, { label: say(`control.${name}`), value: fitted(text.trim(), LONGEST), minimum, maximum, or });
}

// `field` comes from ui/numbers.py: {name, minimum, maximum, integer, ticks, blank}.
export function mountNumber(element, props, watch, field) {
  const part = (id) => element.querySelector(`[data-part="${id}"]`);
  const [range, typed, error] = [part("range"), part("typed"), part("error")];
  const { name, ticks, blank } = field;
  const text = () => props.value ?? blank ?? "";
  range.hidden = !ticks.length;
  range.min = blank === null ? "1" : "0";
  range.max = String(ticks.length);
  error.id = `ax-error-${name}`;
  typed.setAttribute("aria-describedby", error.id);

  function change(next) {
    if (next !== props.value) props.value = next;
    draw();
  }

  function draw() {
    const typing = document.activeElement === typed;
    const at = tickOf(text(), ticks);
    const words = errorText(text(), field);
    const unset = blank || say("control.default");
    if (!typing) typed.value = text();
    if (Number(range.value) !== at) range.value = String(at);
    typed.setAttribute("aria-invalid", String(Boolean(words)));
    if (!typing || !words || !error.hidden) showError(words);
    range.dataset.unset = String(at === 0);
    range.setAttribute("aria-valuetext", at ? text() : unset);
    typed.placeholder = blank === null ? "" : unset;
    setText(part("label"), say(`control.${name}`));
    for (const input of [range, typed]) input.setAttribute("aria-label", say(`control.${name}`));
  }

  // Shown when typing has ended, until the error is corrected.
  function showError(words) {
    if (!words && !error.hidden) emit("corrected", ERRORS.map((name) => `field.${name}`));
    setText(error, words);
    error.hidden = !words;
  }

  range.addEventListener("input", () => change(Number(range.value) ? String(ticks[Number(range.value) - 1]) : blank));
  typed.addEventListener("input", () => change(typed.value));
  typed.addEventListener("change", () => {
    change(shortest(typed.value, field));
    typed.value = text();
    showError(errorText(text(), field));
  });
  typed.addEventListener("blur", draw);
  watch("value", draw);
  localize(element, draw);
  draw();
}
