// Plotly, fetched from this server when first needed, and the one line chart of the race.

import { curveTable } from "./csv.js";
import { cssToken, el, svg } from "./dom.js";
import { offer } from "./offers.js";
import { duration, last, stepsDone } from "./record.js";
import { say } from "./words.js";

export const PLOT_CONFIG = { displayModeBar: false, responsive: false, scrollZoom: false, doubleClick: false, showTips: false };
const DASHES = ["solid", "9px,4px", "16px,4px", "12px,4px,2px,4px", "5px,3px", "16px,3px,3px,3px"];

// Loads once per page; every caller waits for the same promise.
export function plotly(url) {
  if (window.Plotly) return Promise.resolve(window.Plotly);
  const known = document.querySelector("script[data-ax-plotly]");
  const script = known || document.createElement("script");
  return new Promise((resolve, reject) => {
    script.addEventListener("load", () => resolve(window.Plotly));
    script.addEventListener("error", () => reject(new Error(say("error.charts"))));
    if (known) return;
    script.dataset.axPlotly = "";
    script.src = url;
    document.head.append(script);
  });
}

export function laneColour(lane, dark) {
  return lane.colours ? lane.colours[dark ? 1 : 0] : cssToken("--ax-muted");
}

// A box that Plotly has drawn into, or null.
export function plotted(box) {
  return box.data ? box : null;
}

// Tokens over time, one line a lane on its own clock, with a line where the clock of the replay stands; of a part of the
// time, where there is a `span`, and of each lane's first steps, as many as `seen`. With a mouse a part is drawn out over the
// chart; a finger scrolls the page.
export function drawRaceChart(Plotly, part, state, dark, span, seen) {
  const box = part("chart");
  const { lanes } = state.race;
  const most = Math.max(1, ...lanes.map((lane) => lane.counts[lane.counts.length - 1] || 0));
  const end = duration(state.race) || 1;
  const data = lanes.map((lane, i) => ({
    type: "scatter",
    mode: "lines",
    x: [0, ...lane.ends.slice(0, seen[i])],
    y: [0, ...lane.counts.slice(0, seen[i])],
    hoverinfo: "none",
    line: { width: 2.5, color: laneColour(lane, dark), dash: laneDash(lanes, i) },
  }));
  const [low, high] = span ? tokensIn(lanes, span) : [0, most];
  const x = { range: span || [0, end * 1.02], fixedrange: false, nticks: 5, title: say("axis.seconds") };
  const whole = high - low < 6 ? { dtick: 1 } : { nticks: 5 }; // tokens are whole
  const y = { range: [low, high + 0.12 * (high - low)], ...whole, title: say("axis.tokens") };
  const dragmode = window.matchMedia("(pointer: fine)").matches ? "zoom" : false;
  Plotly.react(box, data, { ...lineLayout(box, { x, y }, state.time), dragmode }, PLOT_CONFIG);
  offer("race", { group: "race", title: "chart.title", place: () => box, picture: () => [part("chart-key"), box], table: () => curveTable(state.race) });
}

// The fewest and the most tokens that a lane has in a part of the time.
function tokensIn(lanes, [from, to]) {
  const counts = lanes.map((lane) => [0, ...lane.counts]);
  const low = Math.min(...lanes.map((lane, i) => counts[i][stepsDone(lane, from)]));
  return [low, Math.max(low + 1, ...lanes.map((lane, i) => last(counts[i].slice(0, stepsDone(lane, to) + 2), 0)))];
}

// The layout of a line chart that fills its box: two axes, each with a title that says its unit, and an upright line at `now` where that is not null.
export function lineLayout(box, { x, y }, now) {
  const muted = cssToken("--ax-muted");
  const titled = (text, standoff) => ({ text, font: { size: 12 }, standoff });
  const axis = { fixedrange: true, zeroline: false, showgrid: false, color: muted, linecolor: cssToken("--ax-line"), showline: true };
  return {
    width: box.clientWidth,
    height: box.clientHeight,
    margin: { l: 50, r: 12, t: 12, b: 34 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    showlegend: false,
    hovermode: false,
    dragmode: false,
    font: { family: cssToken("--ax-sans"), size: 12, color: muted },
    xaxis: { ...axis, ...x, title: titled(x.title, 6) },
    yaxis: { ...axis, ...y, title: titled(y.title, 4) },
    shapes: now === null ? [] : [{ type: "line", x0: now, x1: now, y0: 0, y1: 1, yref: "paper", line: { color: cssToken("--ax-ink"), width: 1 } }],
  };
}

// Dots for plain decoding, then one kind of line after the other: colour is not the only key.
export function laneDash(lanes, index) {
  if (lanes[index].header.method === "plain") return "2px,3px";
  const before = lanes.slice(0, index).filter((lane) => lane.header.method !== "plain").length;
  return DASHES[before % DASHES.length];
}

// A piece of such a line, for a key.
export function lineKey(dash) {
  const line = svg("line", { x1: 1, y1: 4, x2: 25, y2: 4, "stroke-dasharray": dash === "solid" ? null : dash.replaceAll("px", "") });
  return svg("svg", { class: "ax-line-key", viewBox: "0 0 26 8", "aria-hidden": "true" }, line);
}

// Such a piece and what its line is of, in the line's colour.
export function namedLine(dash, colour, name) {
  const key = el("span", { class: "ax-key" }, lineKey(dash), name);
  key.style.setProperty("--lane", colour);
  return key;
}
