// The matrix learns: one bigram is selected; its row, its base and session counts, its neighbourhood and the most changed rows are shown.

import { renderLearnedShare, renderSizes } from "./learnedshare.js";
import { rowsTable } from "./csv.js";
import { el, fixed, isDark, setText, small, visible } from "./dom.js";
import { renderHeatmap } from "./heatmap.js";
import { registerExport } from "./exports.js";
import { changeCell, createBigramGraph, bigramText } from "./bigramgraph.js";
import { currentBigram, nameOf, rowsSoFar, successors } from "./bigrams.js";
import { language, say, sentences } from "./words.js";

const SHOWN = 16; // successors of the selected row
const CARDS = ["matrix-card", "learned-card", "bigrams-card", "heat-card"];

export function createMatrix(part, { onChange, onBigram }) {
  const graph = createBigramGraph(part, onBigram);
  let drawn = "";
  const kept = { key: "", height: 0 };
  part("matrix-picker").addEventListener("change", (event) => onBigram(event.target.value));
  part("bigram-clear").addEventListener("click", () => onBigram(null));
  for (const name of ["bigrams-every", "sizes-every"]) part(name).addEventListener("toggle", onChange);

  function render(Plotly, { race, run: at, step: index, bigram }) {
    const run = race.runs[at];
    const learns = run.steps.some((step) => step.rows.length);
    for (const card of CARDS) part(card).hidden = !learns;
    if (!learns) return;
    const key = [race.id, at, index, run.steps.length, bigram, isDark(), language(), Boolean(Plotly), part("bigrams").clientWidth, part("sizes-chart").clientWidth, part("bigrams-every").open, part("sizes-every").open].join("/");
    if (key === drawn) return;
    drawn = key;
    draw(Plotly, race, run, at, index, bigram);
  }

  function draw(Plotly, race, run, at, index, bigram) {
    const rows = rowsSoFar(run.steps, index);
    const name = bigram || currentBigram(run.steps[index]) || lastOf(rows);
    const known = rows.get(name);
    part("bigram-clear").hidden = !bigram;
    renderPicker(part("matrix-picker"), run.steps[index].rows, known);
    renderRow(part, known, run.steps[index].rows.length);
    renderLearnedShare(part, known);
    renderSizes(part, Plotly, run.steps, index);
    registerExport("rows", { group: "matrix", title: "save.rows", place: () => part("matrix-card"), table: () => rowsTable(race) });
    renderHeatmap(part, rows, name, onBigram);
    part("bigrams").hidden = !known;
    if (known && part("bigrams").clientWidth) graph.render(Plotly, rows, name);
    keepHeight(part("bigrams"), [race.id, at, index, part("bigrams").clientWidth].join("/"));
  }

  // While a step is shown, the graph keeps its height when a bigram with fewer neighbours is selected, so that nothing below moves.
  function keepHeight(box, key) {
    box.style.minHeight = key === kept.key ? `${kept.height}px` : "";
    Object.assign(kept, { key, height: box.offsetHeight });
    box.style.minHeight = `${kept.height}px`;
  }
  return { render };
}

// The row that changed last, if this step changed none.
function lastOf(rows) {
  return [...rows.values()].reduce((last, row) => (last === null || row.at >= last.at ? row : last), null)?.name;
}

// The rows that this step changed, and the selected one if it is another.
function renderPicker(picker, changed, known) {
  const rows = known && !known.now ? [known.row, ...changed] : changed;
  picker.replaceChildren(...rows.map((row) => el("option", { value: nameOf(row.key), text: bigramText(row.key_texts) })));
  picker.hidden = rows.length < 2;
  if (known) picker.value = known.name;
}

function renderRow(part, known, changed) {
  const all = known ? successors(known) : [];
  const top = Math.max(0.01, ...all.flatMap(({ weight, change }) => [weight, weight - change]));
  setText(part("matrix-key"), known ? say(known.now ? "matrix.after" : "matrix.still", { bigram: bigramText(known.row.key_texts) }) : say("matrix.unchanged"));
  part("matrix").replaceChildren(...all.slice(0, SHOWN).map((one) => successorRow(one, top)));
  const hidden = Math.max(0, all.length - SHOWN);
  setText(part("matrix-more"), sentences(hidden ? say("matrix.hidden", { count: hidden }) : "", changed > 1 ? say("matrix.rows", { count: changed }) : ""));
  const picture = () => [part("matrix-key"), part("matrix")];
  registerExport("matrix", { group: "matrix", title: "matrix.row", place: () => known && part("matrix"), picture, table: () => successorsTable(known) });
}

// All successors of a bigram, before and after the step; equal if the step did not change the row.
function successorsTable({ row, now }) {
  const rows = row.tokens.map((token, k) => [row.key_texts.join(""), token, row.texts[k], (now ? row.before : row.after)[k], row.after[k], row.learned?.[k]]);
  return [["bigram", "token", "text", "before", "after", "learned"], ...rows];
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
