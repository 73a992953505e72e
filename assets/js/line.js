// The line below the bar: prompt, methods and settings of the race on screen. Its pens open the controls.

import { emit } from "./events.js";
import { setText } from "./dom.js";
import { engineText } from "./enginetext.js";
import { say, sayOr } from "./words.js";

export function createLine(part, root) {
  root.addEventListener("click", (event) => {
    const pen = event.target.closest("[data-edit]");
    if (pen) emit("edit", pen.dataset.edit);
  });

  function render(race) {
    const { header } = race.runs[0];
    setText(part("line-methods"), race.runs.map((run) => run.label).join(" · "));
    setText(part("line-settings"), settingsText(header.settings));
    setText(part("source"), race.source ? say(`source.${race.source}`) : "");
    setText(part("race-title"), sayOr(`title.${race.title}`, race.title));
    part("race-title").className = race.source === "recorded" ? "ax-sr" : ""; // its chip is marked
    setText(part("machine"), engineText(header.device).replace(/^\w+ \((.*)\)$/, "$1"));
    part("machine").title = [header.model, engineText(header.device), header.dtype].join(" · ");
  }
  return { render };
}

// The settings of a race in one line: length, draft budget, temperature, and what else is not the default.
export function settingsText({ max_new_tokens: tokens, budget, temperature, top_p, top_k, seed }) {
  const nodes = budget === undefined ? [] : [budget === "auto" ? say("line.auto") : say("line.nodes", { count: budget })];
  const parts = [say("line.tokens", { count: tokens }), ...nodes, `T ${temperature}`];
  if (temperature > 0 && top_p < 1) parts.push(`top-p ${top_p}`);
  if (temperature > 0 && top_k > 0) parts.push(`top-k ${top_k}`);
  if (temperature > 0) parts.push(say("line.seed", { seed }));
  return parts.join(" · ");
}
