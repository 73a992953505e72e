// The matrix learns: one pair is chosen, and its row, its parts, its neighbourhood and the busiest rows show it alike.

import { renderApart, renderSizes } from "./apart.js";
import { el, fixed, isDark, setText, small, visible } from "./dom.js";
import { renderHeat } from "./heat.js";
import { changeCell, createPairGraph, pairText } from "./pairgraph.js";
import { currentPair, nameOf, rowsSoFar, successors } from "./pairs.js";
import { language, say } from "./words.js";

const SHOWN = 16; // successors of the row
const CARDS = ["matrix-card", "apart-card", "pairs-card", "heat-card"];

export function createMatrix(part, changed) {
  const state = { chosen: null, place: "", drawn: "" };
  const choose = (name) => {
    state.chosen = name;
    changed();
  };
  const graph = createPairGraph(part, choose);
  part("matrix-picker").addEventListener("change", (event) => choose(event.target.value));
  for (const name of ["pairs-every", "sizes-every"]) part(name).addEventListener("toggle", changed);

  // A pair stays chosen until another step is shown.
  function render(Plotly, race, lane, index) {
    const learns = lane.steps.some((step) => step.rows.length);
    for (const card of CARDS) part(card).hidden = !learns;
    if (!learns) return;
    const place = `${race.id}/${race.lanes.indexOf(lane)}/${index}`;
    if (place !== state.place) Object.assign(state, { place, chosen: null });
    const key = [place, lane.steps.length, state.chosen, isDark(), language(), Boolean(Plotly), part("pairs").clientWidth, part("sizes-chart").clientWidth, part("pairs-every").open, part("sizes-every").open].join("/");
    if (key === state.drawn) return;
    state.drawn = key;
    draw(Plotly, lane, index);
  }

  function draw(Plotly, lane, index) {
    const rows = rowsSoFar(lane.steps, index);
    const name = rows.has(state.chosen) ? state.chosen : currentPair(lane.steps[index]) || lastOf(rows);
    const known = rows.get(name);
    renderPicker(part("matrix-picker"), lane.steps[index].rows, known);
    renderRow(part, known, lane.steps[index].rows.length);
    renderApart(part, known);
    renderSizes(part, Plotly, lane.steps, index);
    renderHeat(part, rows, name, choose);
    part("pairs").hidden = !known;
    if (known) graph.render(Plotly, rows, name);
  }
  return { render };
}

// The row that changed last, where this step changed none.
function lastOf(rows) {
  return [...rows.values()].reduce((last, row) => (last === null || row.at >= last.at ? row : last), null)?.name;
}

// This step's rows, and the chosen one where another was chosen.
function renderPicker(picker, changed, known) {
  const rows = known && !known.now ? [known.row, ...changed] : changed;
  picker.replaceChildren(...rows.map((row) => el("option", { value: nameOf(row.key), text: pairText(row.key_texts) })));
  picker.hidden = rows.length < 2;
  if (known) picker.value = known.name;
}

function renderRow(part, known, changed) {
  const all = known ? successors(known) : [];
  const top = Math.max(0.01, ...all.flatMap(({ weight, change }) => [weight, weight - change]));
  setText(part("matrix-key"), known ? say(known.now ? "matrix.after" : "matrix.still", { pair: pairText(known.row.key_texts) }) : say("matrix.unchanged"));
  part("matrix").replaceChildren(...all.slice(0, SHOWN).map((one) => successorRow(one, top)));
  const hidden = Math.max(0, all.length - SHOWN);
  const words = [hidden ? say("matrix.hidden", { count: hidden }) : "", changed > 1 ? say("matrix.rows", { count: changed }) : ""];
  setText(part("matrix-more"), words.filter(Boolean).join(" "));
}

function successorRow({ text, weight, change }, top) {
  const [bar, mark] = [el("i", { class: "ax-before" }), el("i", { class: "ax-after" })];
  const before = weight - change;
  bar.style.width = `${(100 * before) / top}%`;
  mark.style.left = `${(100 * weight) / top}%`;
  const spoken = el("span", { class: "ax-sr", text: say("matrix.spoken", { before: small(before) }) });
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, el("code", { text: visible(text, 14) })),
    el("td", { class: "ax-track-cell" }, el("div", { class: "ax-track", "aria-hidden": "true" }, bar, mark)),
    el("td", { class: "ax-num" }, spoken, fixed(weight, 2)),
    changeCell(change),
  );
}
