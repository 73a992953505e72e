// A number with a slider: both change it; a text that is not valid stays in the field, with what would be.

import { errorOf, numberOf } from "../controls/number.js";
import { el, setText } from "../core/dom.js";
import { say } from "../core/words.js";

// `field`: as in theory.js; `changed(text)` is called after every change. Returns {element, show(text, valid)}; `valid`: the last valid text, where the
// slider is.
export function createField(field, changed) {
  const { name, minimum, maximum, step } = field;
  const label = say(`calculator.${name}`);
  const ids = { typed: `ax-tool-${name}`, error: `ax-tool-${name}-error` };
  const range = el("input", { type: "range", min: minimum, max: maximum, step, "aria-label": label, "data-part": `tool-${name}-range` });
  const typed = el("input", { type: "text", id: ids.typed, inputmode: "decimal", autocomplete: "off", "aria-describedby": ids.error, "data-part": `tool-${name}` });
  const error = el("p", { id: ids.error, class: "ax-tool-error", role: "status" });
  const element = el("div", { class: "ax-tool-field" }, el("label", { for: ids.typed, text: label }), range, typed, el("p", { class: "ax-dim", text: say(`calculator.${name}.about`) }), error);

  function show(next, valid) {
    const wrong = errorOf(next, field);
    if (document.activeElement !== typed) typed.value = next;
    range.value = String(numberOf(valid));
    typed.setAttribute("aria-invalid", String(Boolean(wrong)));
    setText(error, wrong ? say(`field.${wrong}`, { label, value: next.trim().slice(0, 20), minimum, maximum, or: "" }) : "");
  }

  range.addEventListener("input", () => changed(range.value));
  typed.addEventListener("input", () => changed(typed.value));
  return { element, show };
}
