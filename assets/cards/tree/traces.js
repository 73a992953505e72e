// The draft tree as traces of Plotly. Verdicts differ in colour, shape and text.

import { cssToken, plotText, probability, small, visible } from "../../page/core/dom.js";
import { hoverLabel } from "../../page/plot/charts.js";
import { say } from "../../page/core/words.js";
import { TARGET } from "../../page/record/record.js";
import { FORK, markOf } from "./columnwidths.js";
import { edgeEnds, edgePoints, elbow, polesOf } from "./edges.js";
import { RING, diameter, labelPlace, labelsOf, numbersBelow, numbersBeside, numbersPlace, placeScores, scorePlace } from "./geometry.js";
import { colourScale, contrasting } from "./scorecolours.js";

const WIDTHS = {
  searched: [1.2, 1.6, 2],
  trail: [3.4, 3.4, 3.4],
  opened: [1, 1, 1],
  unverified: [1, 1.6, 2.4],
  unreached: [1, 1, 1],
  rejected: [1, 1.4, 1.9],
  accepted: [3.4, 3.4, 3.4],
  bonus: [3.4, 3.4, 3.4],
  correction: [3.4, 3.4, 3.4],
  plain: [3.4, 3.4, 3.4],
};
const SIGNED = 0.5; // share of their full size from which marks contain a sign
const SYMBOLS = { bonus: "square", correction: "diamond" }; // a token of a step without a draft is a filled circle

// Lengths of a grid are in units of `type` pixels.
export function plotLayout({ width, height, type, least }) {
  const axis = { visible: false, fixedrange: true };
  return {
    width: width * type,
    height: height * type,
    margin: { l: 0, r: 0, t: 0, b: 0 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    showlegend: false,
    hovermode: "closest",
    hoverdistance: 24,
    hoverlabel: hoverLabel("--ax-mono", Math.max(12, least)),
    dragmode: false,
    font: { family: cssToken("--ax-mono"), size: 12 },
    xaxis: { ...axis, range: [0, width] },
    yaxis: { ...axis, range: [height, 0] },
  };
}

function styles() {
  const c = (name) => cssToken(`--ax-${name}`);
  return {
    root: { colour: c("ink"), fill: c("ink"), border: 1.5, dash: "solid", text: c("ink") },
    accepted: { colour: c("accept"), fill: c("accept-tint"), border: 3, sign: "✓", dash: "solid", text: c("ink") },
    rejected: { colour: c("reject"), fill: c("card"), border: 1.5, sign: "×", dash: "5px,3px", text: c("muted"), pale: 0.6 },
    unreached: { colour: c("faint"), fill: c("card"), border: 1.5, dash: "2px,3px", text: c("muted"), pale: 0.8 },
    searched: { colour: c("aded"), fill: c("aded-tint"), border: 2.5, dash: "solid", text: c("ink"), pale: 0.55 },
    opened: { colour: c("faint"), fill: c("card"), border: 1.5, dash: "2px,3px", text: c("muted"), pale: 0.8 },
    unverified: { colour: c("muted"), fill: c("card"), border: 1.5, dash: "solid", text: c("ink"), pale: 0.7 },
    trail: { colour: c("aded"), dash: "solid", text: c("ink") },
    ...Object.fromEntries(["bonus", "correction", "plain"].map((kind) => [kind, { colour: c("target"), fill: c("target"), border: 1.5, dash: "solid", text: c("target") }])),
  };
}

export const mostVisits = (nodes) => Math.max(1, ...nodes.map((n) => (n.id > 0 && n.visits) || 0));

// The texts of the picture: {names, scores, beside, below}, the last two the numbers of the nodes by id, or null.
export function textsOf(nodes, grid) {
  const most = mostVisits(nodes);
  const names = labelsOf(nodes, grid, most);
  const scores = placeScores(nodes, names, grid, most);
  const beside = grid.numbers === "beside" || grid.numbers === "path" ? numbersBeside(nodes, names, grid, most, scores.ends) : null;
  return { names, scores, beside, below: grid.numbers === "below" ? numbersBelow(nodes, grid, most, scores.ends) : null };
}

// `band`: the first and the last height at which labels, numbers and scores are drawn.
export function traces(nodes, { grid, texts, colours, prior, band = [-Infinity, Infinity] }) {
  const style = styles();
  const byId = new Map(nodes.map((n) => [n.id, n]));
  const most = mostVisits(nodes);
  const below = nodes.filter((n) => n.id);
  const { names, scores, beside } = texts;
  const ends = edgeEnds(nodes, names, beside, scores.shown, grid, most);
  const edges = ["opened", "unverified", "searched", "unreached", "rejected", "accepted", "trail", "bonus", "correction", "plain"].flatMap((kind) =>
    WIDTHS[kind].map((width, bucket) => edgeTrace(below, byId, grid, ends, kind, style[kind], width, bucket, most)),
  );
  const fill = filler(style, colours);
  const kinds = Object.keys(style);
  const marks = kinds.map((kind) => nodeTrace(nodes, grid, kind, style[kind], most, fill, prior));
  const labels = kinds.map((kind) => labelTrace(nodes, grid, kind, style[kind], most, names, beside, band));
  const numbers = texts.below ? [numberTrace(nodes, grid, most, texts.below, band)] : [];
  return [poleTrace(polesOf(nodes, names, grid, most), grid), ...edges, ...marks, ...labels, ...numbers, signTrace(nodes, grid, style, fill), scoreTrace(scores.shown, grid, most, band)].filter((trace) => trace.x.length);
}

// Whether the mark of a node is not a circle.
export const isSquare = ({ verdict }) => verdict in SYMBOLS;

function bucketOf(node, maxVisits) {
  if (node.verdict === "accepted" || node.id === TARGET) return 2;
  const share = (node.visits || 0) / maxVisits;
  return share > 0.25 ? 2 : share > 0.08 ? 1 : 0;
}

function edgeTrace(nodes, byId, { place, list, type }, { starts, stops }, kind, style, width, bucket, most) {
  const x = [];
  const y = [];
  for (const node of nodes) {
    const drawn = node.onTrail ? "trail" : node.verdict;
    if (drawn !== kind || bucketOf(node, most) !== bucket) continue;
    const [from, to] = [place(byId.get(node.parent)), place(node)];
    if (from[1] === to[1]) from[0] = Math.min(to[0], starts.get(node.parent) ?? from[0]);
    const points = (list ? elbow : edgePoints)(from, [stops.get(node.id) ?? to[0], to[1]]);
    x.push(...points.map((point) => point[0]), null);
    y.push(...points.map((point) => point[1]), null);
  }
  return lineTrace(x, y, style.pale || 1, { color: style.colour, width: width * type, dash: style.dash });
}

const lineTrace = (x, y, opacity, line) => ({ type: "scatter", mode: "lines", x, y, hoverinfo: "skip", opacity, line });

const poleTrace = (poles, { type }) => lineTrace(poles.flatMap(({ x }) => [x, x, null]), poles.flatMap(({ from, to }) => [from, to, null]), 1, { color: cssToken("--ax-faint"), width: type });

// The fill colour of a node: that of its score if it has one, else that of its verdict.
function filler(style, colours) {
  const colourOf = colourScale();
  return ({ id, verdict }) => {
    const share = colours?.of(id) ?? null;
    return share === null ? style[verdict].fill : colourOf(share);
  };
}

function nodeTrace(nodes, { place, marks, type }, kind, style, most, fill, prior) {
  const mine = nodes.filter((n) => n.verdict === kind);
  return {
    type: "scatter",
    mode: "markers",
    x: mine.map((n) => place(n)[0]),
    y: mine.map((n) => place(n)[1]),
    customdata: mine.map((n) => n.id),
    hoverinfo: "text",
    hovertext: mine.map((n) => hoverText(n, prior)),
    cliponaxis: false,
    marker: {
      symbol: SYMBOLS[kind] || "circle",
      size: mine.map((n) => type * diameter(n, most, marks)),
      color: mine.map(fill),
      line: { color: style.colour, width: type * style.border },
      opacity: 1,
    },
  };
}

// What the pointer shows at a node: its token, and all its numbers.
function hoverText(node, prior) {
  const numbers = [["visits", node.visits, (value) => Math.round(value)], [prior, node.prior, probability], ["value", node.value, small], ["exploration", node.exploration, small]];
  const shown = numbers.filter(([, value]) => value !== null).map(([name, value, format]) => `${say(`fact.${name}`)}: ${format(value)}`);
  return [`<b>${plotText(visible(node.text, 40))}</b>`, ...shown].join("<br>");
}

// Labels of a row are on one line, whatever the sizes of the marks.
function labelTrace(nodes, grid, kind, style, most, names, beside, band) {
  const mine = inBand(nodes.filter((n) => n.verdict === kind), grid, band);
  const muted = cssToken("--ax-muted");
  const fork = `<span style="color:${cssToken("--ax-target")}"><b>${FORK.trim()}</b></span> `;
  const label = (n) => {
    const text = plotText(names.get(n.id).slice(markOf(n).length));
    const numbers = beside?.get(n.id);
    const suffix = numbers ? ` <span style="font-size:${Math.round(10 * grid.fonts(n).small * grid.type)}px;color:${muted}">${numbers}</span>` : "";
    return (n.fork && text ? fork : "") + (grid.onPath(n) && n.id && text ? `<b>${text}</b>` : text) + suffix;
  };
  return textTrace(mine, (n) => labelPlace(n, grid, most), label, "right", { family: cssToken("--ax-mono"), size: (n) => 12 * grid.fonts(n).size * grid.type, color: style.text });
}

// The numbers of a node, below its edge.
function numberTrace(nodes, grid, most, texts, band) {
  const mine = inBand(nodes.filter(({ id }) => texts.get(id)), grid, band);
  const at = (node) => numbersPlace(node, grid, most).map((length, axis) => length + (axis && texts.get(node.id).includes("\n") ? 7 : 0)); // middle of the lines
  return textTrace(mine, at, ({ id }) => texts.get(id).replace("\n", "<br>"), "right", { family: cssToken("--ax-sans"), size: (n) => 10.5 * Math.max(1, grid.fonts(n).small) * grid.type, color: cssToken("--ax-muted") });
}

const inBand = (nodes, { place }, [first, last]) => nodes.filter((node) => first <= place(node)[1] && place(node)[1] <= last);

// One text per node that has one, which does not react to the pointer. A point whose text is empty would get none later: Plotly removes its
// element for good. The size of the font is that of a node.
function textTrace(all, at, text, position, font) {
  const nodes = all.filter((node) => text(node));
  return {
    type: "scatter",
    mode: "text",
    x: nodes.map((n) => at(n)[0]),
    y: nodes.map((n) => at(n)[1]),
    text: nodes.map(text),
    textposition: `middle ${position}`,
    textfont: { ...font, size: nodes.map(font.size) },
    hoverinfo: "skip",
    cliponaxis: false,
  };
}

// The sign of a verdict, in the colour with more contrast to the node.
function signTrace(nodes, { place, marks, type }, style, fill) {
  const mine = nodes.filter((n) => style[n.verdict].sign && marks > SIGNED);
  const inks = [cssToken("--ax-ink"), cssToken("--ax-card")];
  const font = { family: cssToken("--ax-sans"), size: () => 11 * marks * type, color: mine.map((n) => contrasting(fill(n), inks)) };
  return textTrace(mine, place, (n) => `<b>${style[n.verdict].sign}</b>`, "center", font);
}

// The scores that the selection compares.
function scoreTrace(nodes, grid, most, band) {
  return textTrace(inBand(nodes, grid, band), (n) => scorePlace(n, grid, most), (n) => n.score, "left", { family: cssToken("--ax-mono"), size: (n) => 10 * grid.fonts(n).small * grid.type, color: cssToken("--ax-aded") });
}

export function ringTrace(node, { place, marks, type }, most) {
  const [x, y] = node ? place(node) : [null, null];
  const marker = { symbol: `${SYMBOLS[node?.verdict] || "circle"}-open`, size: node ? type * (diameter(node, most, marks) + RING) : 1 };
  return { type: "scatter", mode: "markers", x: [x], y: [y], hoverinfo: "skip", marker: { ...marker, color: cssToken("--ax-ink"), line: { color: cssToken("--ax-ink"), width: 2 } } };
}
