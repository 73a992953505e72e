// What a drafter that remembers gains from prompt to prompt: how near its matrix comes to the model.

import { PARTS_OF_MATRIX, mean, values } from "./agreement.js";
import { PLOT_CONFIG, lineLayout } from "./charts.js";
import { cssToken, el, number, setText, small } from "./dom.js";
import { figures } from "./record.js";
import { say } from "./words.js";

const SHOWN = ["base", "session"];

// The series with a finished race taken in: a drafter that remembers nothing yet begins another one.
export function taken(series, race) {
  const lane = race.lanes.find((one) => one.remembers !== null);
  if (!lane || !lane.steps.length) return series;
  const near = Object.fromEntries(SHOWN.map((who) => [who, mean(values(lane.steps, who, "total_variation"))]));
  const row = { prompt: lane.header.prompt, label: lane.header.label, perPass: figures(lane, lane.steps.length).perPass, ...near };
  return lane.remembers === 0 ? [row] : [...series, row];
}

export function successiveSentence(series) {
  const now = series[series.length - 1];
  const [gain, first] = [lead(now), lead(series[0])];
  const values = { name: now.label, count: series.length, base: small(now.base), session: small(now.session), gain: small(Math.abs(gain)), first: small(first).replace("-", "−") };
  return say(series.length === 1 ? "memory.one" : gain < 0 ? "memory.farther" : "memory.nearer", values);
}

// How much nearer to the model the session is than the base matrix alone.
function lead({ base, session }) {
  return base - session;
}

export function renderSuccessive(part, Plotly, series) {
  part("memory-card").hidden = !series.length;
  if (!series.length) return;
  setText(part("memory-sentence"), successiveSentence(series));
  part("memory-rows").replaceChildren(...series.map(seriesRow));
  if (Plotly) draw(Plotly, part("memory-chart"), series);
}

function seriesRow({ prompt, base, session, perPass }, index) {
  const cells = [small(base), small(session), number(perPass)].map((text) => el("td", { class: "ax-num", text }));
  return el("tr", {}, el("th", { scope: "row", text: String(index + 1) }), el("td", { class: "ax-cut", text: prompt, title: prompt }), ...cells);
}

function draw(Plotly, box, series) {
  const x = series.map((_, i) => i + 1);
  const data = SHOWN.map((who) => {
    const { dash, colour } = PARTS_OF_MATRIX[who];
    const paint = cssToken(colour);
    return { type: "scatter", mode: "lines+markers", x, y: series.map((row) => row[who]), hoverinfo: "none", line: { color: paint, dash, width: 2.5 }, marker: { color: paint, size: 8 } };
  });
  const axes = { x: { range: [0.5, Math.max(3, x.length) + 0.5], dtick: 1, tickformat: "d", title: say("axis.prompt") }, y: { range: [0, 1.02], tickvals: [0, 0.5, 1] } };
  Plotly.react(box, data, { ...lineLayout(box, axes, 0), shapes: [] }, PLOT_CONFIG);
}
