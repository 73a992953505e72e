// Lines of the charts: the colour and the dash of each run and of each part of the matrix, their legends, and curved edges.

import { cssToken, el, svg } from "../core/dom.js";

const DASHES = ["solid", "9px,4px", "16px,4px", "12px,4px,2px,4px", "5px,3px", "16px,3px,3px,3px"];

export const PARTS_OF_MATRIX = {
  base: { dash: "2px,3px", colour: "--ax-muted" },
  overlay: { dash: "9px,4px", colour: "--ax-accept" },
  session: { dash: "solid", colour: "--ax-aded" },
};

export function runColour(run, dark) {
  return run.colours ? run.colours[dark ? 1 : 0] : cssToken("--ax-muted");
}

// Sets the colours of a run on an element, as CSS variables.
export function paintRun(node, run) {
  node.classList.add("ax-run-colours");
  if (!run.colours) return;
  node.style.setProperty("--run-light", run.colours[0]);
  node.style.setProperty("--run-dark", run.colours[1]);
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

export function partKey([who, { dash, colour }]) {
  return namedLine(dash, `var(${colour})`, el("span", { "data-say": `matrix.${who}` }));
}

// The part of a line up to `limit`, and dashed the part beyond it: {x, y, dash, beyond}; parts without points are left out.
export function splitAt(limit, x, y) {
  const cut = x.findLastIndex((value) => value <= limit);
  const parts = [
    { x: x.slice(0, cut + 1), y: y.slice(0, cut + 1), dash: "solid", beyond: false },
    { x: x.slice(Math.max(0, cut)), y: y.slice(Math.max(0, cut)), dash: "6px,5px", beyond: true },
  ];
  return parts.filter((one) => one.x.length > (one.beyond && cut >= 0 ? 1 : 0));
}

// A smooth edge, horizontal at both ends.
export function curve([x0, y0], [x1, y1], x, y) {
  const points = y0 === y1 ? 1 : 14;
  const bend = Math.min(70, x1 - x0);
  for (let i = 0; i <= points; i++) {
    const t = i / points;
    const s = t * t * (3 - 2 * t);
    x.push(x0 + bend * t);
    y.push(y0 + (y1 - y0) * s);
  }
  x.push(x1, null);
  y.push(y1, null);
}
