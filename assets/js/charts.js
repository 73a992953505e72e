// Plotly, loaded after the first race is on screen, and the line chart of the race.

import { curveTable } from "./csv.js";
import { cssToken, el, svg } from "./dom.js";
import { on } from "./events.js";
import { registerExport } from "./exports.js";
import { loadScript, pageFiles, textOf } from "./files.js";
import { duration, last, stepsDone } from "./record.js";
import { say } from "./words.js";

export const HOVER = "%{x:.4~g} · %{y:.4~g}<extra></extra>"; // what the pointer shows at a point of a line chart
export const PLOT_CONFIG = { displayModeBar: false, responsive: false, scrollZoom: false, doubleClick: false, showTips: false };
const DASHES = ["solid", "9px,4px", "16px,4px", "12px,4px,2px,4px", "5px,3px", "16px,3px,3px,3px"];

let library = null;

// The library, loaded once per page.
export function plotly() {
  library ??= loaded();
  return library;
}

async function loaded() {
  if (window.Plotly) return window.Plotly;
  await painted();
  const { plotly: file, packed } = pageFiles();
  const mark = { "data-ax-plotly": "" };
  try {
    if (packed) document.head.append(el("script", { ...mark, text: await textOf(file) }));
    else await loadScript({ ...mark, src: file });
  } catch {
    throw new Error(say("error.charts"));
  }
  return window.Plotly;
}

// Resolves after the first race was drawn and painted.
async function painted() {
  await new Promise((resolve) => on("shown", resolve));
  await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
}

export function runColour(run, dark) {
  return run.colours ? run.colours[dark ? 1 : 0] : cssToken("--ax-muted");
}

// A box that Plotly has drawn into, or null.
export function plotted(box) {
  return box.data ? box : null;
}

// Tokens over decode time, one line per run, with a line at the current replay time. `span`: part of the time to show, or null;
// `seen`: number of steps to show per run. With a mouse, a part can be selected by dragging; on touch screens dragging scrolls the page.
export function drawRaceChart(Plotly, part, state, dark, span, seen) {
  const box = part("chart");
  const { runs } = state.race;
  const most = Math.max(1, ...runs.map((run) => run.counts[run.counts.length - 1] || 0));
  const end = duration(state.race) || 1;
  const data = runs.map((run, i) => ({
    type: "scatter",
    mode: "lines",
    x: [0, ...run.ends.slice(0, seen[i])],
    y: [0, ...run.counts.slice(0, seen[i])],
    hovertemplate: HOVER,
    line: { width: 2.5, color: runColour(run, dark), dash: runDash(runs, i) },
  }));
  const [low, high] = span ? tokensIn(runs, span) : [0, most];
  const x = { range: span || [0, end * 1.02], fixedrange: false, nticks: 5, title: say("axis.seconds") };
  const integer = high - low < 6 ? { dtick: 1 } : { nticks: 5 };
  const y = { range: [low, high + 0.12 * (high - low)], ...integer, title: say("axis.tokens") };
  const dragmode = window.matchMedia("(pointer: fine)").matches ? "zoom" : false;
  Plotly.react(box, data, { ...lineLayout(box, { x, y }, state.time), dragmode }, PLOT_CONFIG);
  registerExport("race", { group: "race", title: "chart.title", place: () => box, picture: () => [part("chart-key"), box], table: () => curveTable(state.race) });
}

// The smallest and the largest token count of all runs within a part of the time.
function tokensIn(runs, [from, to]) {
  const counts = runs.map((run) => [0, ...run.counts]);
  const low = Math.min(...runs.map((run, i) => counts[i][stepsDone(run, from)]));
  return [low, Math.max(low + 1, ...runs.map((run, i) => last(counts[i].slice(0, stepsDone(run, to) + 2), 0)))];
}

export function hoverLabel(font = "--ax-sans") {
  return { bgcolor: cssToken("--ax-card"), bordercolor: cssToken("--ax-line"), font: { family: cssToken(font), size: 12, color: cssToken("--ax-ink") } };
}

// Layout of a line chart that fills its box: two axes with titles and units, and a vertical line at `now` unless it is null.
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
    hovermode: "closest",
    hoverlabel: hoverLabel(),
    dragmode: false,
    font: { family: cssToken("--ax-sans"), size: 12, color: muted },
    xaxis: { ...axis, ...x, title: titled(x.title, 6) },
    yaxis: { ...axis, ...y, title: titled(y.title, 4) },
    shapes: now === null ? [] : [{ type: "line", x0: now, x1: now, y0: 0, y1: 1, yref: "paper", line: { color: cssToken("--ax-ink"), width: 1 } }],
  };
}

// Dots for plain decoding, then one dash style after the other: lines differ in more than colour.
export function runDash(runs, index) {
  if (runs[index].header.method === "plain") return "2px,3px";
  const before = runs.slice(0, index).filter((run) => run.header.method !== "plain").length;
  return DASHES[before % DASHES.length];
}

// A short piece of such a line, for a legend.
export function lineKey(dash) {
  const line = svg("line", { x1: 1, y1: 4, x2: 25, y2: 4, "stroke-dasharray": dash === "solid" ? null : dash.replaceAll("px", "") });
  return svg("svg", { class: "ax-line-key", viewBox: "0 0 26 8", "aria-hidden": "true" }, line);
}

// A legend entry: the piece of line and its name, in the line's colour.
export function namedLine(dash, colour, name) {
  const key = el("span", { class: "ax-key" }, lineKey(dash), name);
  key.style.setProperty("--run", colour);
  return key;
}
