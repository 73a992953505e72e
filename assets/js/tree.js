// The draft tree, drawn by Plotly with the layout that came with the step. Verdicts differ in colour, shape and text.

import { cssToken, el, plotText, visible } from "./dom.js";
import { PLOT_CONFIG, plotted } from "./charts.js";
import { onKey } from "./keys.js";
import { plotDrawing, outlined, registerDrawing } from "./svgexport.js";
import { registerExport } from "./exports.js";
import { column, targetTokenKind } from "./record.js";
import { scoreText } from "./search.js";
import { colourScale, contrasting } from "./scorecolours.js";
import { geometry, lettersFor, numbersOf } from "./treegrid.js";
import { say, sentences } from "./words.js";

const LABELS = ".textpoint text:not([text-anchor='middle'])"; // without the signs inside the marks
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
const LEAST = { accepted: 16, rejected: 13 }; // minimum size in pixels of marks that contain a sign
const MANY = 150; // from this number of nodes on, only visible marks and labels are drawn
const AROUND = 300; // and those within this distance in pixels
const SYMBOLS = { bonus: "square", correction: "diamond", plain: "square" };
export const TARGET = -1; // id of the target's bonus or correction token, which is not a node of the draft

// Data of the drawn nodes, one entry per node; the target's bonus or correction token is the last.
export function treeNodes(step, layout) {
  const { tree } = step;
  const nodes = layout.nodes.map((n, i) => ({
    hidden: step.exists ? !step.exists[n] : false,
    onTrail: step.trail ? step.trail.has(n) : false,
    id: n,
    parent: tree.parents[n],
    x: layout.x[i],
    y: layout.y[i],
    text: tree.texts[n],
    verdict: tree.verdict[n],
    visits: column(tree, "visits")[n],
    folded: layout.folded[i],
    score: step.scores?.has(n) ? scoreText(step.scores.get(n)) : null,
  }));
  if (layout.target && !step.exists) {
    const [x, y] = layout.target;
    const text = step.texts[step.texts.length - 1];
    nodes.push({ id: TARGET, parent: step.path[step.path.length - 1], x, y, text, verdict: targetTokenKind(step), visits: null, folded: 0, score: null });
  }
  return nodes.filter((node) => !node.hidden);
}

export function createTree(root, legend, { onHover, onPick }) {
  const plot = el("div", { class: "ax-plot", "aria-hidden": "true" });
  root.replaceChildren(plot);
  let nodes = [];
  let wired = false;
  let shown = null; // {Plotly, grid, selected} of the picture on screen
  let waiting = 0;

  function draw(Plotly, step, layout, selected, colours) {
    nodes = treeNodes(step, layout);
    shown = { Plotly, grid: geometry(plot.clientWidth, layout, step), selected, colours };
    paint();
    root.setAttribute("aria-label", summary(step, nodes));
    if (!wired) wire();
    const node = nodes.find((n) => n.id === selected);
    if (node && document.activeElement === root) revealNode(root, shown.grid.place(node));
  }

  function paint() {
    waiting = 0;
    const { Plotly, grid } = shown;
    Plotly.react(plot, traces(nodes, shown, nodes.length > MANY ? windowOf(root) : null), plotLayout(grid), PLOT_CONFIG);
  }

  // The saved picture has all marks, not only the visible ones.
  registerDrawing(plot, async () => outlined(await plotDrawing({ data: traces(nodes, shown, null), layout: plotLayout(shown.grid) }), LABELS));
  registerExport("tree", { group: "step", title: "tree.label", place: () => root, picture: () => [legend, plotted(plot)] });

  function wire() {
    wired = true;
    root.addEventListener("scroll", () => {
      if (nodes.length > MANY && !waiting) waiting = requestAnimationFrame(paint);
    });
    const id = (event) => event.points[0].customdata;
    plot.on("plotly_hover", (event) => onHover(id(event)));
    plot.on("plotly_unhover", () => onHover(null));
    plot.on("plotly_click", (event) => onPick(id(event)));
  }

  onKey(root, (event) => {
    const target = neighbour(nodes, Number(root.dataset.node || 0), event.key);
    if (target === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    onPick(target);
  });
  return { draw, show: (node) => (root.dataset.node = String(node)) };
}

// Arrow keys: left to the parent, right to the first child, up and down within the depth; Escape: to the root.
export function neighbour(nodes, from, key) {
  const node = nodes.find((n) => n.id === from) || nodes[0];
  if (!node) return undefined;
  const children = nodes.filter((n) => n.parent === node.id && n.id !== node.id && node.id !== TARGET).sort((a, b) => a.y - b.y);
  const same = nodes.filter((n) => n.x === node.x).sort((a, b) => a.y - b.y);
  const at = same.indexOf(node);
  if (key === "Escape") return 0;
  if (key === "ArrowLeft") return node.parent >= 0 ? node.parent : node.id;
  if (key === "ArrowRight") return children.length ? children[0].id : node.id;
  if (key === "ArrowUp") return same[Math.max(0, at - 1)].id;
  if (key === "ArrowDown") return same[Math.min(same.length - 1, at + 1)].id;
  return undefined;
}

// Scrolls the tree's own box, never the page.
function revealNode(root, [x, y]) {
  const margin = 60;
  if (x < root.scrollLeft + margin || x > root.scrollLeft + root.clientWidth - 2 * margin) root.scrollLeft = x - root.clientWidth / 2;
  if (y < root.scrollTop + margin / 2 || y > root.scrollTop + root.clientHeight - margin) root.scrollTop = y - root.clientHeight / 2;
}

function plotLayout({ width, height }) {
  const axis = { visible: false, fixedrange: true };
  return {
    width,
    height,
    margin: { l: 0, r: 0, t: 0, b: 0 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    showlegend: false,
    hovermode: "closest",
    hoverdistance: 24,
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

// The visible part of a large tree: the first and the last pixel.
function windowOf(root) {
  return [root.scrollTop - AROUND, root.scrollTop + root.clientHeight + AROUND];
}

function traces(nodes, { grid, selected, colours }, seen) {
  const style = styles();
  const { place } = grid;
  const byId = new Map(nodes.map((n) => [n.id, n]));
  const between = (first, end) => !seen || (end >= seen[0] && first <= seen[1]);
  const near = nodes.filter((n) => between(place(n)[1], place(n)[1]));
  const crossing = nodes.filter((n) => n.id && between(place(byId.get(n.parent))[1], place(n)[1]));
  const maxVisits = Math.max(1, ...nodes.map((n) => (n.id > 0 && n.visits) || 0));
  const edges = ["opened", "unverified", "searched", "unreached", "rejected", "accepted", "trail", "bonus", "correction", "plain"].flatMap((kind) =>
    WIDTHS[kind].map((width, bucket) => edgeTrace(crossing, byId, place, kind, style[kind], width, bucket, maxVisits)),
  );
  const letters = lettersFor(grid.wide);
  const fill = filler(style, colours);
  const marks = Object.keys(style).map((kind) => nodeTrace(near, place, kind, style[kind], maxVisits, fill));
  const labels = Object.keys(style).map((kind) => labelTrace(near, place, kind, style[kind], maxVisits, letters));
  const ring = ringTrace(byId.get(selected), place, maxVisits);
  return [...edges, ...marks, ring, ...labels, signTrace(near, place, style, fill), scoreTrace(near, place, maxVisits)].filter((trace) => trace.x.length);
}

function bucketOf(node, maxVisits) {
  if (node.verdict === "accepted" || node.id === TARGET) return 2;
  const share = (node.visits || 0) / maxVisits;
  return share > 0.25 ? 2 : share > 0.08 ? 1 : 0;
}

function edgeTrace(nodes, byId, place, kind, style, width, bucket, maxVisits) {
  const x = [];
  const y = [];
  for (const node of nodes) {
    const drawn = node.onTrail ? "trail" : node.verdict;
    if (drawn !== kind || bucketOf(node, maxVisits) !== bucket) continue;
    curve(place(byId.get(node.parent)), place(node), x, y);
  }
  return { type: "scatter", mode: "lines", x, y, hoverinfo: "skip", opacity: style.pale || 1, line: { color: style.colour, width, dash: style.dash } };
}

// A smooth edge from parent to child, horizontal at both ends.
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

// The fill colour of a node: that of its score if it has one, else that of its verdict.
function filler(style, colours) {
  const colourOf = colourScale();
  return ({ id, verdict }) => {
    const share = colours?.of(id) ?? null;
    return share === null ? style[verdict].fill : colourOf(share);
  };
}

function diameter(node, maxVisits) {
  if (node.id === 0) return 15;
  if (node.id === TARGET) return 14;
  return Math.max(LEAST[node.verdict] || 0, 9 + 9 * Math.sqrt((node.visits || 0) / maxVisits));
}

function nodeTrace(nodes, place, kind, style, maxVisits, fill) {
  const mine = nodes.filter((n) => n.verdict === kind);
  return {
    type: "scatter",
    mode: "markers",
    x: mine.map((n) => place(n)[0]),
    y: mine.map((n) => place(n)[1]),
    customdata: mine.map((n) => n.id),
    hoverinfo: "none",
    cliponaxis: false,
    marker: {
      symbol: SYMBOLS[kind] || "circle",
      size: mine.map((n) => diameter(n, maxVisits)),
      color: mine.map(fill),
      line: { color: style.colour, width: style.border },
      opacity: 1,
    },
  };
}

// Labels of a row are on one line, whatever the sizes of the marks.
function labelTrace(nodes, place, kind, style, maxVisits, letters) {
  const mine = nodes.filter((n) => n.verdict === kind);
  const muted = cssToken("--ax-muted");
  const label = (n) => {
    const text = plotText(visible(n.text, letters));
    const numbers = numbersOf(n);
    const suffix = numbers ? ` <span style="font-size:10px;color:${muted}">${numbers}</span>` : "";
    return n.onTrail || kind === "accepted" || n.id === TARGET ? `<b>${text}</b>${suffix}` : text + suffix;
  };
  const at = (n) => offset(place(n), 0.45 * diameter(n, maxVisits) + 3, -11);
  return textTrace(mine, at, label, "right", { family: cssToken("--ax-mono"), size: 12, color: style.text });
}

function offset([x, y], right, down) {
  return [x + right, y + down];
}

// One text per node, which does not react to the pointer.
function textTrace(nodes, at, text, position, font) {
  return {
    type: "scatter",
    mode: "text",
    x: nodes.map((n) => at(n)[0]),
    y: nodes.map((n) => at(n)[1]),
    text: nodes.map(text),
    textposition: `middle ${position}`,
    textfont: font,
    hoverinfo: "skip",
    cliponaxis: false,
  };
}

// The sign of a verdict, in the colour with more contrast to the node.
function signTrace(nodes, place, style, fill) {
  const mine = nodes.filter((n) => style[n.verdict].sign);
  const inks = [cssToken("--ax-ink"), cssToken("--ax-card")];
  const font = { family: cssToken("--ax-sans"), size: 11, color: mine.map((n) => contrasting(fill(n), inks)) };
  return textTrace(mine, place, (n) => `<b>${style[n.verdict].sign}</b>`, "center", font);
}

// The scores that the selection compares, below the end of the edge from the parent, where no label is.
function scoreTrace(nodes, place, maxVisits) {
  const mine = nodes.filter((n) => n.score !== null);
  const at = (n) => offset(place(n), -diameter(n, maxVisits) / 2 - 1, 8);
  return textTrace(mine, at, (n) => n.score, "left", { family: cssToken("--ax-mono"), size: 10, color: cssToken("--ax-aded") });
}

function ringTrace(node, place, maxVisits) {
  const [x, y] = node ? place(node) : [null, null];
  const marker = { symbol: `${SYMBOLS[node?.verdict] || "circle"}-open`, size: node ? diameter(node, maxVisits) + 9 : 1 };
  return {
    type: "scatter",
    mode: "markers",
    x: [x],
    y: [y],
    hoverinfo: "skip",
    marker: { ...marker, color: cssToken("--ax-ink"), line: { color: cssToken("--ax-ink"), width: 2 } },
  };
}

function summary(step, nodes) {
  const drafted = step.tree.tokens.length - 1;
  if (nodes.some(({ verdict }) => verdict === "unverified")) return sentences(say("predict.covered", { count: drafted }), say("tree.keys"));
  const added = nodes.find((n) => n.id === TARGET);
  const end = added ? say(`tree.${added.verdict}`, { token: visible(added.text) }) : "";
  return sentences(say("tree.summary", { count: drafted, accepted: step.path.length - 1 }), end, say("tree.keys"));
}
