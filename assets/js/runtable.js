// Statistics of the runs as a table.

import { el, number, rate } from "./dom.js";
import { runStats, stepsDone } from "./record.js";

export function createRunTable(part, changed) {
  const box = part("race-every");
  box.addEventListener("toggle", changed);

  function render(state) {
    if (box.open) part("race-rows").replaceChildren(...state.race.runs.map((run) => runRow(run, state.time)));
  }
  return { render };
}

function runRow(run, time) {
  const now = runStats(run, stepsDone(run, time));
  const cells = [now.tokens, now.steps, number(now.seconds), rate(now.rate), number(now.perStep)];
  return el("tr", {}, el("th", { scope: "row", text: run.label }), ...cells.map((text) => el("td", { class: "ax-num", text: String(text) })));
}
