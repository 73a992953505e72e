// Plotly, loaded after the first race is on screen, and the layout of line charts.

import { cssToken, el, plotText } from "../core/dom.js";
import { on } from "../core/events.js";
import { loadScript, pageFiles, textOf } from "../core/files.js";
import { say } from "../core/words.js";

export const PLOT_CONFIG = { displayModeBar: false, responsive: false, scrollZoom: false, doubleClick: false, showTips: false };

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

// A box that Plotly has drawn into, or null.
export function plotted(box) {
  return box.data ? box : null;
}

// What the pointer shows at a point of a line chart: the name of the line, and both values with the titles of their axes, which say the unit.
export function hoverOf(name, { x, y }) {
  const literal = (text) => plotText(text).replaceAll("%", "&#37;");
  const value = (axis, { title, ticksuffix = "" }) => `${literal(title)}: %{${axis}:.4~g}${ticksuffix}`;
  return `<b>${literal(name)}</b><br>${value("x", x)}<br>${value("y", y)}<extra></extra>`;
}

export function hoverLabel(font = "--ax-sans", size = 12) {
  return { bgcolor: cssToken("--ax-card"), bordercolor: cssToken("--ax-line"), font: { family: cssToken(font), size, color: cssToken("--ax-ink") } };
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
