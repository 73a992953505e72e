// The offer to run an ablation in a part of a lesson: a button that opens its controls. On a page without a model a sentence says what is needed.

import { el, withCode } from "../core/dom.js";
import { emit } from "../core/events.js";
import { say } from "../core/words.js";

const [GROUP, RUN] = ["#ax-ablation", "#ax-ablate"]; // of ui/controls.py

// `onSheet()`: whether the lesson is a sheet at the bottom.
export function offerAblation(onSheet) {
  if (!document.querySelector(GROUP)) return el("p", { class: "ax-dim", "data-part": "lesson-ablation" }, ...withCode(say("lesson.ablation.alone")));
  const button = el("button", { type: "button", class: "ax-pill", "data-part": "lesson-ablation", text: say("lesson.ablation") });
  button.addEventListener("click", () => {
    const group = document.querySelector(GROUP);
    emit("edit", "ablation");
    unfold(group, () => {
      document.querySelector(RUN)?.focus({ preventScroll: true });
      if (onSheet()) group.scrollIntoView({ block: "start" }); // above the sheet
    });
  });
  return el("p", {}, button, " ", el("span", { class: "ax-dim", text: say("lesson.ablation.about", { run: { say: "control.ablate" } }) }));
}

// Opens a group of Gradio's controls, and calls `then` when what is in it is on screen.
function unfold(group, then) {
  const head = group.querySelector("button.label-wrap");
  if (!head.classList.contains("open")) head.click();
  requestAnimationFrame(() => requestAnimationFrame(then));
}
