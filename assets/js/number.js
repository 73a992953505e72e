// A field for a number: its text, and a slider over values that are worth trying where there are such.

import { fitted, setText } from "./dom.js";
import { keepWorded, say } from "./words.js";

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?$/i;
const LONGEST = 40; // letters of a text that are said again

// Where the slider stands for a text: 0 for no number, else the place of the nearest value, counted from 1.
export function notchOf(text, notches) {
  const value = numberOf(text);
  if (value === null) return 0;
  const near = Math.max(notches[0], Math.min(notches[notches.length - 1], value));
  const far = (notch) => Math.abs(notch - near);
  return 1 + notches.reduce((best, notch, i) => (far(notch) < far(notches[best]) ? i : best), 0);
}

// A typed text as a number, wide digits too, infinity for one beyond all; null where it is none.
export function numberOf(text) {
  const plain = text.normalize("NFKC").trim();
  return NUMBER.test(plain) ? Number(plain) : null;
}

function isNothing(text, { nothing }) {
  return nothing !== null && ["", nothing].includes(text.normalize("NFKC").trim().toLowerCase());
}

// What is wrong with a text, as the server says it too: number, empty, range or whole; null where nothing is.
export function faultOf(text, field) {
  if (isNothing(text, field)) return null;
  const value = numberOf(text);
  if (value === null) return text.trim() ? "number" : "empty";
  if (value < field.least || value > field.most) return "range";
  return field.whole && !Number.isInteger(value) ? "whole" : null;
}

// The shortest way to write the same; a text with a fault stays as it is.
export function settled(text, field) {
  if (faultOf(text, field)) return text;
  return isNothing(text, field) ? field.nothing : String(numberOf(text));
}

// The fault in a sentence that names the field and its range.
export function faultText(text, field) {
  const fault = faultOf(text, field);
  if (!fault) return "";
  const { name, least, most, nothing } = field;
  const or = nothing === null ? "" : say(nothing ? "field.auto" : "field.preset");
  return say(`field.${fault}`, { label: say(`control.${name}`), value: fitted(text.trim(), LONGEST), least, most, or });
}

// `field` is what ui/numbers.py says of it: {name, least, most, whole, notches, nothing}.
export function mountNumber(element, props, watch, field) {
  const part = (id) => element.querySelector(`[data-part="${id}"]`);
  const [range, typed, fault] = [part("range"), part("typed"), part("fault")];
  const { name, notches, nothing } = field;
  const text = () => props.value ?? nothing ?? "";
  range.hidden = !notches.length;
  range.min = nothing === null ? "1" : "0";
  range.max = String(notches.length);
  fault.id = `ax-fault-${name}`;
  typed.setAttribute("aria-describedby", fault.id);

  function tell(next) {
    if (next !== props.value) props.value = next;
    draw();
  }

  function draw() {
    const typing = document.activeElement === typed;
    const at = notchOf(text(), notches);
    const words = faultText(text(), field);
    const unset = nothing || say("control.default");
    if (!typing) typed.value = text();
    if (Number(range.value) !== at) range.value = String(at);
    typed.setAttribute("aria-invalid", String(Boolean(words)));
    if (!typing || !words || !fault.hidden) showFault(words);
    range.dataset.unset = String(at === 0);
    range.setAttribute("aria-valuetext", at ? text() : unset);
    typed.placeholder = nothing === null ? "" : unset;
    setText(part("label"), say(`control.${name}`));
    for (const input of [range, typed]) input.setAttribute("aria-label", say(`control.${name}`));
  }

  // Said once one has typed to the end, and for as long as it holds.
  function showFault(words) {
    setText(fault, words);
    fault.hidden = !words;
  }

  range.addEventListener("input", () => tell(Number(range.value) ? String(notches[Number(range.value) - 1]) : nothing));
  typed.addEventListener("input", () => tell(typed.value));
  typed.addEventListener("change", () => {
    tell(settled(typed.value, field));
    typed.value = text();
    showFault(faultText(text(), field));
  });
  typed.addEventListener("blur", draw);
  watch("value", draw);
  keepWorded(element, draw);
  draw();
}
