// The lanes' figures as a table: the race's pictures in numbers.

import { el, number, rate } from "./dom.js";
import { figures, stepsDone } from "./record.js";

export function createFigures(part, changed) {
  const box = part("race-every");
  box.addEventListener("toggle", changed);

  function render(state) {
    if (box.open) part("race-rows").replaceChildren(...state.race.lanes.map((lane) => figuresRow(lane, state.time)));
  }
  return { render };
}

function figuresRow(lane, time) {
  const now = figures(lane, stepsDone(lane, time));
  const cells = [now.tokens, now.passes, number(now.seconds), rate(now.rate), number(now.perPass)];
  return el("tr", {}, el("th", { scope: "row", text: lane.label }), ...cells.map((text) => el("td", { class: "ax-num", text: String(text) })));
}
