// The matrix learns: one pair is chosen, and its row, its parts, its neighbourhood and the busiest rows show it alike.

import { renderApart, renderSizes } from "./apart.js";
import { rowsTable } from "./csv.js";
import { el, fixed, isDark, setText, small, visible } from "./dom.js";
import { renderHeat } from "./heat.js";
import { offer } from "./offers.js";
import { changeCell, createPairGraph, pairText } from "./pairgraph.js";
import { currentPair, nameOf, rowsSoFar, successors } from "./pairs.js";
import { language, say, sentences } from "./words.js";

const SHOWN = 16; // successors of the row
const CARDS = ["matrix-card", "apart-card", "pairs-card", "heat-card"];

export function createMatrix(part, { onChange, onPair }) {
  const graph = createPairGraph(part, onPair);
  let drawn = "";
  const kept = { key: "", height: 0 };
  part("matrix-picker").addEventListener("change", (event) => onPair(event.target.value));
  part("pair-clear").addEventListener("click", () => onPair(null));
  for (const name of ["pairs-every", "sizes-every"]) part(name).addEventListener("toggle", onChange);

  function render(Plotly, { race, lane: at, step: index, pair }) {
    const lane = race.lanes[at];
    const learns = lane.steps.some((step) => step.rows.length);
    for (const card of CARDS) part(card).hidden = !learns;
    if (!learns) return;
    const key = [race.id, at, index, lane.steps.length, pair, isDark(), language(), Boolean(Plotly), part("pairs").clientWidth, part("sizes-chart").clientWidth, part("pairs-every").open, part("sizes-every").open].join("/");
    if (key === drawn) return;
    drawn = key;
    draw(Plotly, race, lane, at, index, pair);
  }

  function draw(Plotly, race, lane, at, index, pair) {
    const rows = rowsSoFar(lane.steps, index);
    const name = pair || currentPair(lane.steps[index]) || lastOf(rows);
    const known = rows.get(name);
    part("pair-clear").hidden = !pair;
    renderPicker(part("matrix-picker"), lane.steps[index].rows, known);
    renderRow(part, known, lane.steps[index].rows.length);
    renderApart(part, known);
    renderSizes(part, Plotly, lane.steps, index);
    offer("rows", { group: "matrix", title: "save.rows", place: () => part("matrix-card"), table: () => rowsTable(race) });
    renderHeat(part, rows, name, onPair);
    part("pairs").hidden = !known;
    if (known) graph.render(Plotly, rows, name);
    keepHeight(part("pairs"), [race.id, at, index, part("pairs").clientWidth].join("/"));
  }

  // While a step is looked at, what stands below the graph does not come nearer when a pair with fewer neighbours is chosen.
  function keepHeight(box, key) {
    box.style.minHeight = key === kept.key ? `${kept.height}px` : "";
    Object.assign(kept, { key, height: box.offsetHeight });
    box.style.minHeight = `${kept.height}px`;
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
  setText(part("matrix-more"), sentences(hidden ? say("matrix.hidden", { count: hidden }) : "", changed > 1 ? say("matrix.rows", { count: changed }) : ""));
  const picture = () => [part("matrix-key"), part("matrix")];
  offer("matrix", { group: "matrix", title: "matrix.row", place: () => known && part("matrix"), picture, table: () => successorsTable(known) });
}

// All of a pair's successors, before and after the step; a row that it did not change is the same in both.
function successorsTable({ row, now }) {
  const rows = row.tokens.map((token, k) => [row.key_texts.join(""), token, row.texts[k], (now ? row.before : row.after)[k], row.after[k], row.learned?.[k]]);
  return [["pair", "token", "text", "before", "after", "learned"], ...rows];
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
