// Plotly, fetched from this server when first needed, and the one line chart of the race.

import { cssColour } from "./dom.js";
import { duration } from "./record.js";

export const PLOT_CONFIG = { displayModeBar: false, responsive: false, scrollZoom: false, doubleClick: false };
export const FONT = '-apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif';
export const MONO = 'ui-monospace, "SF Mono", "Cascadia Mono", "DejaVu Sans Mono", Menlo, Consolas, monospace';
const DASHES = ["solid", "dash", "longdash", "dashdot"];

// Loads once per page; every caller waits for the same promise.
export function plotly(url) {
  if (window.Plotly) return Promise.resolve(window.Plotly);
  const known = document.querySelector("script[data-ax-plotly]");
  const script = known || document.createElement("script");
  return new Promise((resolve, reject) => {
    script.addEventListener("load", () => resolve(window.Plotly));
    script.addEventListener("error", () => reject(new Error("the charts' library did not load")));
    if (known) return;
    script.dataset.axPlotly = "";
    script.src = url;
    document.head.append(script);
  });
}

export function laneColour(lane, dark) {
  return lane.colours ? lane.colours[dark ? 1 : 0] : cssColour("--ax-muted");
}

// Tokens over time, one line a lane on its own clock, with a line where the clock of the replay stands.
export function drawRaceChart(Plotly, box, state, dark) {
  const { lanes } = state.race;
  const most = Math.max(1, ...lanes.map((lane) => lane.counts[lane.counts.length - 1] || 0));
  const end = duration(state.race) || 1;
  const data = lanes.map((lane, i) => ({
    type: "scatter",
    mode: "lines",
    x: [0, ...lane.ends],
    y: [0, ...lane.counts],
    hoverinfo: "none",
    line: { width: 2.5, color: laneColour(lane, dark), dash: laneDash(lanes, i) },
  }));
  Plotly.react(box, data, chartLayout(box, state, dark, most, end), PLOT_CONFIG);
}

function chartLayout(box, state, dark, most, end) {
  const muted = cssColour("--ax-muted");
  const axis = { fixedrange: true, zeroline: false, showgrid: false, color: muted, linecolor: cssColour("--ax-line"), showline: true };
  return {
    width: box.clientWidth,
    height: box.clientHeight,
    margin: { l: 36, r: 12, t: 14, b: 34 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    showlegend: false,
    hovermode: false,
    dragmode: false,
    font: { family: FONT, size: 12, color: muted },
    xaxis: { ...axis, range: [0, end * 1.02], nticks: 5, title: { text: "seconds, own clock", font: { size: 12 }, standoff: 6 } },
    yaxis: { ...axis, range: [0, most * 1.12], nticks: 5 },
    shapes: [{ type: "line", x0: state.time, x1: state.time, y0: 0, y1: 1, yref: "paper", line: { color: cssColour("--ax-ink"), width: 1 } }],
  };
}

// Dots for plain decoding, then one kind of line after the other: colour is not the only key.
export function laneDash(lanes, index) {
  if (lanes[index].header.method === "plain") return "dot";
  const before = lanes.slice(0, index).filter((lane) => lane.header.method !== "plain").length;
  return DASHES[before % DASHES.length];
}
