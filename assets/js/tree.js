// The draft tree, drawn by Plotly at positions that came with the step. Colour, shape and text tell verdicts apart.

import { cssToken, el, plotText, visible } from "./dom.js";
import { PLOT_CONFIG, plotted } from "./charts.js";
import { plotDrawing, rimmed, standIn } from "./drawing.js";
import { offer } from "./offers.js";
import { column } from "./record.js";
import { scoreText } from "./search.js";
import { shader, signOn } from "./shades.js";
import { geometry, lettersFor, numbersOf } from "./treegrid.js";
import { say, sentences } from "./words.js";

const LABELS = ".textpoint text:not([text-anchor='middle'])"; // ticks stand on their marks
const WIDTHS = {
  searched: [1.2, 1.6, 2],
  trail: [3.4, 3.4, 3.4],
  opened: [1, 1, 1],
  unjudged: [1, 1.6, 2.4],
  unreached: [1, 1, 1], 
  rejected: [1, 1.4, 1.9],
  accepted: [3.4, 3.4, 3.4],
  own: [3.4, 3.4, 3.4],
};
const LEAST = { accepted: 16, rejected: 13 }; // pixels of a mark in which a sign finds room
const MANY = 150; // nodes from which on marks and labels are drawn only where they can be seen,
const AROUND = 300; // and so many pixels around
export const OWN = -1;

// What the drawing needs of a step: one entry a drawn node, the target's own token last.
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
  if (layout.own && !step.exists) {
    const [x, y] = layout.own;
    const text = step.texts[step.texts.length - 1];
    nodes.push({ id: OWN, parent: step.path[step.path.length - 1], x, y, text, verdict: "own", visits: null, folded: 0, score: null });
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

  function draw(Plotly, step, layout, selected, shades) {
    nodes = treeNodes(step, layout);
    shown = { Plotly, grid: geometry(plot.clientWidth, layout, step), selected, shades };
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

  // Saved with all its marks, not with those alone that can be seen.
  standIn(plot, async () => rimmed(await plotDrawing({ data: traces(nodes, shown, null), layout: plotLayout(shown.grid) }), LABELS));
  offer("tree", { group: "step", title: "tree.label", place: () => root, picture: () => [legend, plotted(plot)] });

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

  root.addEventListener("keydown", (event) => {
    const target = neighbour(nodes, Number(root.dataset.node || 0), event.key);
    if (target === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    onPick(target);
  });
  return { draw, show: (node) => (root.dataset.node = String(node)) };
}

// Arrow keys: left to the parent, right to the first child, up and down within the column; Escape: to the root.
export function neighbour(nodes, from, key) {
  const node = nodes.find((n) => n.id === from) || nodes[0];
  if (!node) return undefined;
  const children = nodes.filter((n) => n.parent === node.id && n.id !== node.id && node.id !== OWN).sort((a, b) => a.y - b.y);
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
  const room = 60;
  if (x < root.scrollLeft + room || x > root.scrollLeft + root.clientWidth - 2 * room) root.scrollLeft = x - root.clientWidth / 2;
  if (y < root.scrollTop + room / 2 || y > root.scrollTop + root.clientHeight - room) root.scrollTop = y - root.clientHeight / 2;
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
    root: { colour: c("ink"), fill: c("ink"), rim: 1.5, dash: "solid", text: c("ink") },
    accepted: { colour: c("accept"), fill: c("accept-tint"), rim: 3, sign: "✓", dash: "solid", text: c("ink") },
    rejected: { colour: c("reject"), fill: c("card"), rim: 1.5, sign: "×", dash: "5px,3px", text: c("muted"), pale: 0.6 },
    unreached: { colour: c("faint"), fill: c("card"), rim: 1.5, dash: "2px,3px", text: c("muted"), pale: 0.8 },
    searched: { colour: c("aded"), fill: c("aded-tint"), rim: 2.5, dash: "solid", text: c("ink"), pale: 0.55 },
    opened: { colour: c("faint"), fill: c("card"), rim: 1.5, dash: "2px,3px", text: c("muted"), pale: 0.8 },
    unjudged: { colour: c("muted"), fill: c("card"), rim: 1.5, dash: "solid", text: c("ink"), pale: 0.7 },
    trail: { colour: c("aded"), dash: "solid", text: c("ink") },
    own: { colour: c("own"), fill: c("own"), rim: 1.5, dash: "solid", text: c("own") },
  };
}

// What of a large tree can be seen: the first and the last pixel.
function windowOf(root) {
  return [root.scrollTop - AROUND, root.scrollTop + root.clientHeight + AROUND];
}

function traces(nodes, { grid, selected, shades }, seen) {
  const style = styles();
  const { place } = grid;
  const byId = new Map(nodes.map((n) => [n.id, n]));
  const between = (first, end) => !seen || (end >= seen[0] && first <= seen[1]);
  const near = nodes.filter((n) => between(place(n)[1], place(n)[1]));
  const crossing = nodes.filter((n) => n.id && between(place(byId.get(n.parent))[1], place(n)[1]));
  const most = Math.max(1, ...nodes.map((n) => (n.id > 0 && n.visits) || 0));
  const edges = ["opened", "unjudged", "searched", "unreached", "rejected", "accepted", "trail", "own"].flatMap((kind) =>
    WIDTHS[kind].map((width, bucket) => edgeTrace(crossing, byId, place, kind, style[kind], width, bucket, most)),
  );
  const letters = lettersFor(grid.wide);
  const fill = filler(style, shades);
  const marks = Object.keys(style).map((kind) => nodeTrace(near, place, kind, style[kind], most, fill));
  const labels = Object.keys(style).map((kind) => labelTrace(near, place, kind, style[kind], most, letters));
  const ring = ringTrace(byId.get(selected), place, most);
  return [...edges, ...marks, ring, ...labels, signTrace(near, place, style, fill), scoreTrace(near, place, most)].filter((trace) => trace.x.length);
}

function bucketOf(node, most) {
  if (node.verdict === "accepted" || node.verdict === "own") return 2;
  const share = (node.visits || 0) / most;
  return share > 0.25 ? 2 : share > 0.08 ? 1 : 0;
}

function edgeTrace(nodes, byId, place, kind, style, width, bucket, most) {
  const x = [];
  const y = [];
  for (const node of nodes) {
    const drawn = node.onTrail ? "trail" : node.verdict;
    if (drawn !== kind || bucketOf(node, most) !== bucket) continue;
    curve(place(byId.get(node.parent)), place(node), x, y);
  }
  return { type: "scatter", mode: "lines", x, y, hoverinfo: "skip", opacity: style.pale || 1, line: { color: style.colour, width, dash: style.dash } };
}

// A smooth step from parent to child: it leaves and arrives level.
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

// Gives a node's colour: that of its score, where it has one, else its verdict's.
function filler(style, shades) {
  const shade = shader();
  return ({ id, verdict }) => {
    const share = shades?.of(id) ?? null;
    return share === null ? style[verdict].fill : shade(share);
  };
}

function diameter(node, most) {
  if (node.id === 0) return 15;
  if (node.verdict === "own") return 14;
  return Math.max(LEAST[node.verdict] || 0, 9 + 9 * Math.sqrt((node.visits || 0) / most));
}

function nodeTrace(nodes, place, kind, style, most, fill) {
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
      symbol: kind === "own" ? "square" : "circle",
      size: mine.map((n) => diameter(n, most)),
      color: mine.map(fill),
      line: { color: style.colour, width: style.rim },
      opacity: 1,
    },
  };
}

// Labels of a row stand on one line, however large their nodes are.
function labelTrace(nodes, place, kind, style, most, letters) {
  const mine = nodes.filter((n) => n.verdict === kind);
  const muted = cssToken("--ax-muted");
  const label = (n) => {
    const text = plotText(visible(n.text, letters));
    const numbers = numbersOf(n);
    const suffix = numbers ? ` <span style="font-size:10px;color:${muted}">${numbers}</span>` : "";
    return n.onTrail || kind === "accepted" || kind === "own" ? `<b>${text}</b>${suffix}` : text + suffix;
  };
  const at = (n) => beside(place(n), 0.45 * diameter(n, most) + 3, -11);
  return textTrace(mine, at, label, "right", { family: cssToken("--ax-mono"), size: 12, color: style.text });
}

function beside([x, y], right, down) {
  return [x + right, y + down];
}

// A text a node, no part of what is pointed at.
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

// What a verdict is told by beside its colour, in whichever of ink and ground stands out on the node.
function signTrace(nodes, place, style, fill) {
  const mine = nodes.filter((n) => style[n.verdict].sign);
  const inks = [cssToken("--ax-ink"), cssToken("--ax-card")];
  const font = { family: cssToken("--ax-sans"), size: 11, color: mine.map((n) => signOn(fill(n), inks)) };
  return textTrace(mine, place, (n) => `<b>${style[n.verdict].sign}</b>`, "center", font);
}

// The scores between which the search decides, below the end of the line that comes from the parent: no label stands there.
function scoreTrace(nodes, place, most) {
  const mine = nodes.filter((n) => n.score !== null);
  const at = (n) => beside(place(n), -diameter(n, most) / 2 - 1, 8);
  return textTrace(mine, at, (n) => n.score, "left", { family: cssToken("--ax-mono"), size: 10, color: cssToken("--ax-aded") });
}

function ringTrace(node, place, most) {
  const [x, y] = node ? place(node) : [null, null];
  const marker = { symbol: node && node.verdict === "own" ? "square-open" : "circle-open", size: node ? diameter(node, most) + 9 : 1 };
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
  if (nodes.some(({ verdict }) => verdict === "unjudged")) return sentences(say("guess.covered", { count: drafted }), say("tree.keys"));
  const own = nodes.find((n) => n.id === OWN);
  const end = own ? say("tree.own", { token: visible(own.text) }) : "";
  return sentences(say("tree.summary", { count: drafted, accepted: step.path.length - 1 }), end, say("tree.keys"));
}
