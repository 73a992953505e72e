// Where drafting pays, drawn: what a pass costs, what a draft brings, and the speed that comes of both; the same in a table.

import { PLOT_CONFIG, laneColour, lineLayout, plotted } from "./charts.js";
import { cssToken, el, fitted, fixed, milliseconds, number, setText } from "./dom.js";
import { offer } from "./offers.js";
import { DEEPEST, fittedCost, limits, machineCost, measured, passes, payingTable } from "./paying.js";
import { last } from "./record.js";
import { recorded } from "./recorded.js";
import { say, sentences } from "./words.js";

const MACHINE_NODES = 64; // nodes up to which a measured cost is drawn

// The costs are the record's, as they were measured where the race ran; where it has none, its own passes say them.
export function renderPaying(part, Plotly, race, lane, dark) {
  const found = measured(lane);
  part("paying-pictures").hidden = part("paying-every").hidden = !found;
  if (!found) return setText(part("paying-sentence"), say("paying.nothing", { name: lane.label }));
  const points = passes(race);
  const known = lane.header.cost ?? null;
  const seconds = known ? machineCost(known, last(lane.steps).position) : fittedCost(points);
  const table = payingTable(found, seconds);
  setText(part("paying-sentence"), payingSentence(lane, found, table));
  setText(part("paying-source"), say(known ? "paying.machine" : "paying.fitted", { device: fitted(recorded(lane.header.device), 60) }));
  part("paying-rows").replaceChildren(...table.slice(0, 13).map((row) => tableRow(row, found.points)));
  offerPaying(part, points, seconds, table, found.points);
  if (!Plotly) return undefined;
  const colour = laneColour(lane, dark);
  drawCost(Plotly, part("cost-chart"), points, seconds, known !== null);
  drawTokens(Plotly, part("tokens-chart"), found.points, table, colour);
  return drawSpeed(Plotly, part("speed-chart"), table, colour);
}

// What a pass costs and what a draft brings: three pictures, the points and the line of the first one, and the table of both others.
function offerPaying(part, points, seconds, table, seen) {
  const group = "experiment";
  const place = () => part("paying-pictures");
  const costs = () => [["nodes", "passes", "seconds_per_pass", "line_seconds"], ...points.map((p) => [p.nodes, p.passes, p.seconds, seconds(p.nodes)])];
  offer("paying", { group, title: "paying.title", place, table: () => levelsTable(table, seen) });
  offer("cost", { group, title: "save.cost", place, picture: () => [plotted(part("cost-chart")), part("paying-source")], table: costs });
  for (const name of ["tokens", "speed"]) {
    const box = part(`${name}-chart`);
    offer(name, { group, title: `save.${name}`, place, picture: () => [plotted(box), box.nextElementSibling] });
  }
}

function levelsTable(table, points) {
  const rows = table.map(({ depth, tokens, nodes, seconds, ratio }) => {
    const seen = points.find((point) => point.depth === depth);
    return [depth, tokens, seen?.tokens, seen?.steps, nodes, seconds, ratio];
  });
  return [["depth", "expected_tokens", "measured_tokens", "measured_steps", "nodes", "seconds", "times_plain"], ...rows];
}

export function payingSentence(lane, { alpha, spread }, table) {
  const { best, stops } = limits(table);
  const values = { name: lane.label, alpha: alpha.toFixed(2), spread: spread.toFixed(1), depth: best.depth, ratio: fixed(best.ratio, 2) };
  const kind = best.ratio < 1 ? "never" : best.depth === DEEPEST ? "deeper" : "pays";
  const end = stops === null ? say("paying.always", { depth: DEEPEST }) : say("paying.stops", { depth: stops });
  return sentences(say("paying.alpha", values), say(`paying.${kind}`, values), kind === "pays" ? end : "");
}

function tableRow(row, points) {
  const point = points.find(({ depth }) => depth === row.depth);
  const seen = point ? say("paying.seen", { tokens: point.tokens.toFixed(2), count: point.steps }) : "–";
  const cells = [number(row.tokens), seen, number(row.nodes, 1), milliseconds(row.seconds), `${number(row.ratio)}×`];
  return el("tr", {}, el("th", { scope: "row", text: String(row.depth) }), ...cells.map((text) => el("td", { class: "ax-num", text })));
}

const line = (x, y, colour, dash = "solid") => ({ type: "scatter", mode: "lines", x, y, hoverinfo: "none", line: { color: colour, width: 2.5, dash } });

// Dots whose area follows how often a value was seen.
function dots(x, y, counts, colour) {
  const most = Math.max(...counts);
  const size = counts.map((count) => 5 + 9 * Math.sqrt(count / most));
  return { type: "scatter", mode: "markers", x, y, hoverinfo: "none", marker: { color: colour, size, opacity: 0.7, line: { width: 0 } } };
}

function draw(Plotly, box, data, axes, now, shapes = []) {
  const layout = lineLayout(box, axes, now);
  return Plotly.react(box, data, { ...layout, shapes: [...layout.shapes, ...shapes] }, PLOT_CONFIG);
}

function drawCost(Plotly, box, points, seconds, here) {
  const most = Math.max(here ? MACHINE_NODES : 8, ...points.map((p) => p.nodes));
  const x = Array.from({ length: most }, (_, i) => i + 1);
  const y = x.map((nodes) => 1000 * seconds(nodes));
  const seen = points.map((p) => 1000 * p.seconds);
  const data = [line(x, y, cssToken("--ax-ink")), dots(points.map((p) => p.nodes), seen, points.map((p) => p.passes), cssToken("--ax-muted"))];
  const axes = { x: { range: [0, most * 1.03], nticks: 6, title: say("axis.nodes") }, y: { range: [0, 1.15 * Math.max(...y, ...seen)], nticks: 5, title: say("axis.milliseconds") } };
  draw(Plotly, box, data, axes, null);
}

function drawTokens(Plotly, box, points, table, colour) {
  const data = [
    line(table.map((row) => row.depth), table.map((row) => row.tokens), cssToken("--ax-ink")),
    dots(points.map((p) => p.depth), points.map((p) => p.tokens), points.map((p) => p.steps), colour),
  ];
  const top = Math.max(...table.map((row) => row.tokens), ...points.map((p) => p.tokens));
  draw(Plotly, box, data, { x: depthAxis(), y: { range: [0, top * 1.15], nticks: 5, title: say("axis.tokens.step") } }, null);
}

function drawSpeed(Plotly, box, table, colour) {
  const { best } = limits(table);
  const data = [line(table.map((row) => row.depth), table.map((row) => row.ratio), colour)];
  const plain = { type: "line", x0: 0, x1: 1, xref: "paper", y0: 1, y1: 1, line: { color: cssToken("--ax-muted"), width: 1.5, dash: "2px,3px" } };
  const axes = { x: depthAxis(), y: { range: [0, 1.15 * Math.max(1.2, best.ratio)], nticks: 5, ticksuffix: "×", title: say("axis.speed") } };
  draw(Plotly, box, data, axes, best.depth, [plain]);
}

function depthAxis() {
  return { range: [-0.5, DEEPEST + 0.5], nticks: 7, title: say("axis.depth") };
}
