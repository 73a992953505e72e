// The figure of a part: a bar chart of values or of a list in the record, its numbers as a table, and a button that saves the picture.

import { cssToken, el, setText } from "../core/dom.js";
import { emit } from "../core/events.js";
import { say } from "../core/words.js";
import { download } from "../export/save.js";
import { drawingOf, svgText } from "../export/svgexport.js";
import { PLOT_CONFIG, hoverOf, lineLayout, plotly, plotted } from "../plot/charts.js";
import { spoken } from "./markup.js";
import { shownValue, resolved } from "./values.js";

// Returns {element, refresh}; `context()` returns {race, facts, shown}.
export function createFigure(figure, context) {
  const box = el("div", { class: "ax-lesson-chart", "aria-hidden": "true" });
  const rows = el("tbody");
  const head = el("thead", {}, el("tr", {}, ...[spoken(figure.x) || say("lesson.figure.what"), spoken(figure.y)].map((text) => el("th", { scope: "col", text }))));
  const table = el("details", {}, el("summary", { text: say("chart.every") }), el("div", { class: "ax-wide", tabindex: "0" }, el("table", {}, head, rows)));
  const save = el("button", { type: "button", class: "ax-pill ax-small-pill", "data-part": "lesson-save", text: say("lesson.figure.save") });
  const element = el("figure", { class: "ax-lesson-figure" }, el("figcaption", { text: spoken(figure.title) }), box, save, table);

  async function refresh() {
    const bars = barsOf(figure, context());
    rows.replaceChildren(...bars.map(({ label, text }) => el("tr", {}, el("th", { scope: "row", text: label }), el("td", { class: "ax-num", text }))));
    const Plotly = await plotly().catch(() => null);
    if (Plotly && box.clientWidth) draw(Plotly, box, figure, bars);
    else if (!Plotly) setText(box, say("error.charts"));
  }

  save.addEventListener("click", async () => {
    if (!plotted(box)) return;
    try {
      const text = svgText(await drawingOf(spoken(figure.title), [box]));
      download("figure.svg", text);
    } catch {
      emit("linkErrors", [["save.failed", { file: "figure.svg" }]]);
    }
  });
  return { element, refresh };
}

// Labels, numbers and their texts, with the decimals of a fact; a number is null while the record is not there.
export function barsOf({ series, bars }, { race, facts, shown }) {
  const of = (value) => resolved(value, { race, facts, shown });
  const found = series !== null ? (of(series) ?? []).map((value, i) => ({ label: String(i + 1), value })) : bars.map(({ label, value }) => ({ label: spoken(label), value: of(value), fact: facts[value] }));
  return found.map(({ label, value, fact }) => ({ label, value, text: shownValue(value, fact) }));
}

function draw(Plotly, box, { x, y, series }, bars) {
  const known = bars.filter(({ value }) => typeof value === "number");
  const top = Math.max(0, ...known.map(({ value }) => value));
  const many = series !== null;
  const axes = { x: { title: spoken(x), ...(many ? { nticks: 8 } : { tickvals: bars.map((_, i) => i), ticktext: bars.map(({ label }) => broken(label)), range: [-0.6, bars.length - 0.4] }) }, y: { title: spoken(y), range: [0, 1.18 * top || 1], nticks: 5 } };
  const data = { type: "bar", x: known.map(({ label }) => (many ? Number(label) : bars.findIndex((bar) => bar.label === label))), y: known.map(({ value }) => value), marker: { color: cssToken("--ax-accept") }, hovertemplate: hoverOf(spoken(y), axes) };
  const text = many ? {} : { text: known.map(({ text: shown }) => shown), textposition: "outside", textfont: { color: cssToken("--ax-ink") }, cliponaxis: false };
  const layout = lineLayout(box, axes, null);
  Plotly.react(box, [{ ...data, ...text }], { ...layout, bargap: many ? 0.15 : 0.35, margin: { ...layout.margin, b: many ? 34 : (bars.some(({ label }) => broken(label).includes("<br>")) ? 44 : 28) + (x ? 18 : 0) } }, PLOT_CONFIG);
}

// A label in at most two lines.
function broken(label) {
  if (label.length <= 12 || !label.includes(" ")) return label;
  const spaces = [...label.matchAll(/ /g)].map(({ index }) => index);
  const at = spaces.reduce((best, index) => (Math.abs(index - label.length / 2) < Math.abs(best - label.length / 2) ? index : best));
  return `${label.slice(0, at)}<br>${label.slice(at + 1)}`;
}
