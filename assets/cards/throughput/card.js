// Throughput by draft depth as charts and a table: cost of a forward pass, tokens per step, and the resulting speed-up.

import { PLOT_CONFIG, hoverOf, lineLayout, plotted } from "../../page/plot/charts.js";
import { runColour, splitAt } from "../../page/plot/lines.js";
import { cssToken, el, fitted, fixed, milliseconds, number, setText } from "../../page/core/dom.js";
import { offerExport, registerExport } from "../../page/export/exports.js";
import { MAX_DEPTH, fittedCost, forwardPasses, machineCost, measured, measuredDepth, measuredNodes, optimum, throughputTable } from "../../page/record/estimate.js";
import { FEW, last, plainRun, runStats, speedSpread } from "../../page/record/record.js";
import { engineText } from "../../page/record/enginetext.js";
import { say, sentences } from "../../page/core/words.js";

const MACHINE_NODES = 64; // measured costs are drawn up to this number of nodes

export function mount({ part, subscribe }) {
  offerExport("throughput", { group: "experiment", title: "throughput.title", at: part("throughput-pictures"), table: true });
  offerExport("cost", { group: "experiment", title: "save.cost", at: part("throughput-pictures"), picture: true, table: true });
  offerExport("tokens", { group: "experiment", title: "save.tokens", at: part("throughput-pictures"), picture: true });
  offerExport("speed", { group: "experiment", title: "save.speed", at: part("throughput-pictures"), picture: true });
  const selected = ({ race, run, dark, Plotly }) => (part("measure").open && !race.running ? [race, run, dark, Plotly, part("measure").clientWidth] : null);
  subscribe("quiet", selected, ({ race, run, dark, Plotly }) => renderThroughput(part, Plotly, race, race.runs[run], dark));
}

// Costs come from the record, as measured on the recording machine; a record without them is fitted by its own forward passes.
function renderThroughput(part, Plotly, race, run, dark) {
  const found = measured(run);
  part("throughput-pictures").hidden = part("throughput-every").hidden = !found;
  if (!found) return setText(part("throughput-sentence"), say("throughput.nothing", { name: run.label }));
  const points = forwardPasses(race);
  const known = run.header.cost ?? null;
  const seconds = known ? machineCost(known, last(run.steps).position) : fittedCost(points);
  const table = throughputTable(found, seconds);
  const nodes = measuredNodes(known, points);
  const deepest = measuredDepth(found, table, nodes);
  setText(part("throughput-sentence"), throughputSentence(run, found, table, deepest, measuredSpeed(run, plainRun(race))));
  setText(part("throughput-source"), say(known ? "throughput.machine" : "throughput.fitted", { device: fitted(engineText(run.header.device), 60) }));
  part("throughput-rows").replaceChildren(...table.slice(0, 13).map((row) => tableRow(row, found.points, deepest)));
  exportThroughput(part, points, seconds, table, found.points);
  if (!Plotly) return undefined;
  const colour = runColour(run, dark);
  drawCost(Plotly, part("cost-chart"), points, seconds, nodes, known !== null);
  drawTokens(Plotly, part("tokens-chart"), found.points, table, last(found.points).depth, colour);
  return drawSpeed(Plotly, part("speed-chart"), table, deepest, colour, run.label);
}

// Registers the exports: cost with its own table, tokens and speed-up with a common one.
function exportThroughput(part, points, seconds, table, seen) {
  const place = () => part("throughput-pictures");
  const costs = () => [["nodes", "forward_passes", "seconds_per_forward_pass", "line_seconds"], ...points.map((p) => [p.nodes, p.count, p.seconds, seconds(p.nodes)])];
  registerExport("throughput", { place, table: () => depthsTable(table, seen) });
  registerExport("cost", { place, picture: () => [plotted(part("cost-chart")), part("throughput-source")], table: costs });
  for (const name of ["tokens", "speed"]) {
    const box = part(`${name}-chart`);
    registerExport(name, { place, picture: () => [plotted(box), box.nextElementSibling] });
  }
}

function depthsTable(table, points) {
  const rows = table.map(({ depth, tokens, nodes, seconds, ratio }) => {
    const seen = points.find((point) => point.depth === depth);
    return [depth, tokens, seen?.tokens, seen?.steps, nodes, seconds, ratio];
  });
  return [["depth", "expected_tokens", "measured_tokens", "measured_steps", "nodes", "seconds", "speedup"], ...rows];
}

// The measured speed-up over plain decoding, for the sentence of the estimate: of this run, and the median with its repeats where it differs.
export function measuredSpeed(run, base) {
  if (!base) return "";
  const [own, plain] = [run, base].map((one) => runStats(one, one.steps.length));
  if (Math.min(own.tokens, plain.tokens) < FEW) return "";
  const now = fixed(own.rate / plain.rate, 2);
  const median = fixed(speedSpread(run, base)?.[1] ?? Number(now), 2);
  return now === median ? say("throughput.run", { now }) : say("throughput.runs", { now, median });
}

function throughputSentence(run, { alpha, nodesPerDepth }, table, deepest, measuredText) {
  const { best, slower } = optimum(table);
  const values = { name: run.label, alpha: alpha.toFixed(2), nodes: nodesPerDepth.toFixed(1), depth: best.depth, ratio: fixed(best.ratio, 2), measured: measuredText };
  const kind = best.ratio < 1 ? "never" : best.depth === MAX_DEPTH ? "deeper" : "best";
  const slowerText = slower === null ? say("throughput.always", { depth: MAX_DEPTH }) : say("throughput.slower", { depth: slower });
  return sentences(say("throughput.alpha", values), say(`throughput.${kind}`, values), kind === "best" ? slowerText : "", deepest < MAX_DEPTH ? say("throughput.beyond", { depth: deepest }) : "");
}

function tableRow(row, points, deepest) {
  const point = points.find(({ depth }) => depth === row.depth);
  const seen = point ? say("throughput.seen", { tokens: point.tokens.toFixed(2), count: point.steps }) : row.depth > deepest ? say("throughput.extrapolated") : "–";
  const cells = [number(row.tokens), seen, number(row.nodes, 1), milliseconds(row.seconds), `${number(row.ratio)}×`];
  return el("tr", {}, el("th", { scope: "row", text: String(row.depth) }), ...cells.map((text) => el("td", { class: "ax-num", text })));
}

// A line whose part beyond `limit` is extrapolated.
function lines(name, axes, limit, { x, y }, colour) {
  return splitAt(limit, x, y).map(({ beyond, dash, ...points }) => {
    const hovertemplate = hoverOf(beyond ? say("line.extrapolated", { name }) : name, axes);
    return { type: "scatter", mode: "lines", ...points, hovertemplate, line: { color: colour, width: 2.5, dash } };
  });
}

// Dots; the more steps one represents, the larger it is.
function dots(name, axes, { x, y }, counts, colour) {
  const most = Math.max(...counts);
  const size = counts.map((count) => 5 + 9 * Math.sqrt(count / most));
  const hovertemplate = hoverOf(name, axes).replace("<extra>", `<br>${say("throughput.steps")}: %{customdata}<extra>`);
  return { type: "scatter", mode: "markers", x, y, customdata: counts, hovertemplate, marker: { color: colour, size, opacity: 0.7, line: { width: 0 } } };
}

function draw(Plotly, box, data, axes, now, shapes = []) {
  const layout = lineLayout(box, axes, now);
  return Plotly.react(box, data, { ...layout, shapes: [...layout.shapes, ...shapes] }, PLOT_CONFIG);
}

function drawCost(Plotly, box, points, seconds, limit, here) {
  const most = Math.max(here ? MACHINE_NODES : 8, ...points.map((p) => p.nodes));
  const x = Array.from({ length: most }, (_, i) => i + 1);
  const y = x.map((nodes) => 1000 * seconds(nodes));
  const seen = points.map((p) => 1000 * p.seconds);
  const axes = { x: { range: [0, most * 1.03], nticks: 6, title: say("axis.nodes") }, y: { range: [0, 1.15 * Math.max(...y, ...seen)], nticks: 5, title: say("axis.milliseconds") } };
  const curve = lines(say(here ? "throughput.line.measured" : "throughput.line.fitted"), axes, limit, { x, y }, cssToken("--ax-ink"));
  const passes = dots(say("throughput.dots.passes"), axes, { x: points.map((p) => p.nodes), y: seen }, points.map((p) => p.count), cssToken("--ax-muted"));
  draw(Plotly, box, [...curve, passes], axes, null);
}

function drawTokens(Plotly, box, points, table, deepest, colour) {
  const top = Math.max(...table.map((row) => row.tokens), ...points.map((p) => p.tokens));
  const axes = { x: depthAxis(), y: { range: [0, top * 1.15], nticks: 5, title: say("axis.tokens.step") } };
  const curve = lines(say("throughput.expected"), axes, deepest, { x: table.map((row) => row.depth), y: table.map((row) => row.tokens) }, cssToken("--ax-ink"));
  const seen = dots(say("throughput.measured"), axes, { x: points.map((p) => p.depth), y: points.map((p) => p.tokens) }, points.map((p) => p.steps), colour);
  draw(Plotly, box, [...curve, seen], axes, null);
}

function drawSpeed(Plotly, box, table, deepest, colour, name) {
  const { best } = optimum(table);
  const axes = { x: depthAxis(), y: { range: [0, 1.15 * Math.max(1.2, best.ratio)], nticks: 5, ticksuffix: "×", title: say("axis.speed") } };
  const data = lines(name, axes, deepest, { x: table.map((row) => row.depth), y: table.map((row) => row.ratio) }, colour);
  const plain = { type: "line", x0: 0, x1: 1, xref: "paper", y0: 1, y1: 1, line: { color: cssToken("--ax-muted"), width: 1.5, dash: "2px,3px" } };
  draw(Plotly, box, data, axes, best.depth, [plain]);
}

function depthAxis() {
  return { range: [-0.5, MAX_DEPTH + 0.5], nticks: 7, title: say("axis.depth") };
}
