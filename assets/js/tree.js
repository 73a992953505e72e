// The draft tree, drawn by Plotly with the layout that came with the step. Verdicts differ in colour, shape and text.

import { PLOT_CONFIG, hoverLabel, plotted } from "./charts.js";
import { cssToken, el, plotText, probability, small, toggleClass, visible } from "./dom.js";
import { onKey } from "./keys.js";
import { plotDrawing, outlined, registerDrawing } from "./svgexport.js";
import { registerExport } from "./exports.js";
import { column, targetTokenKind } from "./record.js";
import { scoreText } from "./search.js";
import { colourScale, contrasting } from "./scorecolours.js";
import { TARGET, geometry, labelsOf, numbersBeside, numbersOf } from "./treegrid.js";
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
const SYMBOLS = { bonus: "square", correction: "diamond", plain: "square" };
const ZOOM = { step: 1.3, most: 8 };
const DRAG = 4; // pixels that the pointer moves before a press is a drag

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
    prior: column(tree, "prior")[n],
    value: column(tree, "value")[n],
    exploration: column(tree, "exploration")[n],
    folded: layout.folded[i],
    score: step.scores?.has(n) ? scoreText(step.scores.get(n)) : null,
  }));
  if (layout.target && !step.exists) {
    const [x, y] = layout.target;
    const text = step.texts[step.texts.length - 1];
    nodes.push({ id: TARGET, parent: step.path[step.path.length - 1], x, y, text, verdict: targetTokenKind(step), visits: null, prior: null, value: null, exploration: null, folded: 0, score: null });
  }
  return nodes.filter((node) => !node.hidden);
}

// `zoomButtons`: {fit, in, out}.
export function createTree(root, legend, zoomButtons, { onHover, onPick }) {
  const plot = el("div", { class: "ax-plot", "aria-hidden": "true" });
  const ring = el("i", { class: "ax-ring", hidden: true });
  const items = el("div", { class: "ax-sr" });
  root.replaceChildren(plot, ring, items);
  let nodes = [];
  let wired = false;
  let shown = null; // {Plotly, step, layout, colours, grid} of the picture on screen
  let selected = 0;
  let zoom = null; // null: fitted, with rows as high as needed to read the labels

  function draw(Plotly, step, layout, colours) {
    const other = shown?.step.tree !== step.tree && shown?.layout !== layout;
    if (other) zoom = null;
    shown = { Plotly, step, layout, colours };
    paint();
    root.setAttribute("aria-label", summary(step, nodes));
    items.replaceChildren(...nodes.map(item));
    if (!wired) wire();
    if (other) root.scrollTo(0, 0);
    select(selected);
  }

  function paint() {
    const { Plotly, step, layout } = shown;
    const box = { width: root.clientWidth, height: root.clientHeight };
    const all = treeNodes(step, layout);
    const fitted = geometry(box, all, 1);
    const grid = zoom ? geometry(box, all, zoom) : geometry(box, all, 1, Math.min(ZOOM.most, Math.max(1, fitted.readable)));
    Object.assign(shown, { grid, scale: zoom ?? Math.max(1, fitted.readable) });
    nodes = grid.nodes;
    Plotly.react(plot, traces(nodes, shown), plotLayout(grid), PLOT_CONFIG);
    for (const [name, off] of [["out", shown.scale <= 1], ["in", shown.scale >= ZOOM.most]]) zoomButtons[name].setAttribute("aria-disabled", String(off));
    moveRing();
  }

  // Enlarges the tree around a point of its box, by default the middle.
  function zoomTo(value, [x, y] = [root.clientWidth / 2, root.clientHeight / 2]) {
    if (!shown) return;
    const before = shown.grid;
    zoom = Math.max(1, Math.min(ZOOM.most, value));
    paint();
    root.scrollLeft = (root.scrollLeft + x) * (shown.grid.width / before.width) - x;
    root.scrollTop = (root.scrollTop + y) * (shown.grid.height / before.height) - y;
  }

  // The selected node: its ring, and its name for screen readers. Nothing else is drawn again.
  function select(node) {
    selected = node;
    moveRing();
    const chosen = nodes.find(({ id }) => id === node);
    root.dataset.node = String(node);
    for (const one of items.children) one.setAttribute("aria-selected", String(one.id === itemId(node)));
    if (chosen) root.setAttribute("aria-activedescendant", itemId(node));
    else root.removeAttribute("aria-activedescendant");
    if (chosen && document.activeElement === root) revealNode(root, shown.grid.place(chosen));
  }

  function moveRing() {
    const node = shown && nodes.find(({ id }) => id === selected);
    ring.hidden = !node;
    if (!node) return;
    const [x, y] = shown.grid.place(node);
    const size = diameter(node, mostVisits(nodes), shown.grid.size) + 11;
    Object.assign(ring.style, { left: `${x - size / 2}px`, top: `${y - size / 2}px`, width: `${size}px`, height: `${size}px` });
    toggleClass(ring, "ax-ring-square", node.verdict in SYMBOLS);
  }

  // The saved picture is the fitted tree with the ring, whatever part is on screen.
  registerDrawing(plot, async () => {
    const box = { width: Math.max(root.clientWidth, 900), height: root.clientHeight };
    const grid = geometry(box, treeNodes(shown.step, shown.layout), 1, Math.max(1, geometry(box, nodes, 1).readable));
    const ringed = ringTrace(grid.nodes.find(({ id }) => id === selected), grid, mostVisits(grid.nodes));
    return outlined(await plotDrawing({ data: [...traces(grid.nodes, { ...shown, grid }), ringed], layout: plotLayout(grid) }), LABELS);
  });
  registerExport("tree", { group: "step", title: "tree.label", place: () => root, picture: () => [legend, plotted(plot)] });

  function wire() {
    wired = true;
    const id = (event) => event.points[0].customdata;
    plot.on("plotly_hover", (event) => onHover(id(event)));
    plot.on("plotly_unhover", () => onHover(null));
    plot.on("plotly_click", (event) => onPick(id(event)));
  }

  zoomButtons.fit.addEventListener("click", () => zoomTo(1));
  zoomButtons.in.addEventListener("click", () => zoomTo(shown.scale * ZOOM.step));
  zoomButtons.out.addEventListener("click", () => zoomTo(shown.scale / ZOOM.step));
  root.addEventListener(
    "wheel",
    (event) => {
      if (!shown || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      const { left, top } = root.getBoundingClientRect();
      zoomTo(shown.scale * (event.deltaY < 0 ? ZOOM.step : 1 / ZOOM.step), [event.clientX - left, event.clientY - top]);
    },
    { passive: false },
  );
  dragToScroll(root);
  onKey(root, (event) => {
    if (event.key === "+" || event.key === "-") zoomTo(shown.scale * (event.key === "+" ? ZOOM.step : 1 / ZOOM.step));
    const target = event.key === "+" || event.key === "-" ? null : neighbour(nodes, selected, event.key);
    if (target === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    if (target !== null) onPick(target);
  });
  return { draw, select };
}

// A press of the mouse that moves scrolls the box; touch screens scroll it anyway.
function dragToScroll(root) {
  let from = null;
  root.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "mouse" && event.button === 0) from = { x: event.clientX, y: event.clientY, left: root.scrollLeft, top: root.scrollTop };
  });
  window.addEventListener("pointermove", (event) => {
    if (!from || (Math.abs(event.clientX - from.x) < DRAG && Math.abs(event.clientY - from.y) < DRAG)) return;
    root.scrollTo(from.left - event.clientX + from.x, from.top - event.clientY + from.y);
  });
  window.addEventListener("pointerup", () => (from = null));
}

const itemId = (node) => `ax-treeitem-${node < 0 ? "target" : node}`;

// A node for screen readers.
function item(node) {
  const words = [visible(node.text), say(`chip.${node.verdict}`), numbersOf(node)].filter(Boolean).join(", ");
  return el("span", { role: "treeitem", id: itemId(node.id), "aria-level": node.x + 1, "aria-selected": "false", text: words });
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
    hoverlabel: hoverLabel("--ax-mono"),
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

const mostVisits = (nodes) => Math.max(1, ...nodes.map((n) => (n.id > 0 && n.visits) || 0));

function traces(nodes, { grid, colours }) {
  const style = styles();
  const byId = new Map(nodes.map((n) => [n.id, n]));
  const most = mostVisits(nodes);
  const below = nodes.filter((n) => n.id);
  const edges = ["opened", "unverified", "searched", "unreached", "rejected", "accepted", "trail", "bonus", "correction", "plain"].flatMap((kind) =>
    WIDTHS[kind].map((width, bucket) => edgeTrace(below, byId, grid, kind, style[kind], width, bucket, most)),
  );
  const fill = filler(style, colours);
  const kinds = Object.keys(style);
  const names = labelsOf(nodes, grid.letters);
  const beside = grid.numbers === "beside" ? numbersBeside(nodes, names, grid) : null;
  const marks = kinds.map((kind) => nodeTrace(nodes, grid, kind, style[kind], most, fill));
  const labels = kinds.map((kind) => labelTrace(nodes, grid, kind, style[kind], most, names, beside));
  const numbers = grid.numbers === "below" ? [numberTrace(nodes, grid, most)] : [];
  return [...edges, ...marks, ...labels, ...numbers, signTrace(nodes, grid, style, fill), scoreTrace(nodes, grid, most)].filter((trace) => trace.x.length);
}

function bucketOf(node, maxVisits) {
  if (node.verdict === "accepted" || node.id === TARGET) return 2;
  const share = (node.visits || 0) / maxVisits;
  return share > 0.25 ? 2 : share > 0.08 ? 1 : 0;
}

function edgeTrace(nodes, byId, { place, list }, kind, style, width, bucket, most) {
  const x = [];
  const y = [];
  for (const node of nodes) {
    const drawn = node.onTrail ? "trail" : node.verdict;
    if (drawn !== kind || bucketOf(node, most) !== bucket) continue;
    (list ? elbow : curve)(place(byId.get(node.parent)), place(node), x, y);
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

// An edge of the indented list: down, then to the child.
function elbow([x0, y0], [x1, y1], x, y) {
  x.push(x0, x0, x1, null);
  y.push(y0, y1, y1, null);
}

// The fill colour of a node: that of its score if it has one, else that of its verdict.
function filler(style, colours) {
  const colourOf = colourScale();
  return ({ id, verdict }) => {
    const share = colours?.of(id) ?? null;
    return share === null ? style[verdict].fill : colourOf(share);
  };
}

function diameter(node, most, size) {
  const full = node.id === 0 ? 15 : node.id === TARGET ? 14 : Math.max(LEAST[node.verdict] || 0, 9 + 9 * Math.sqrt((node.visits || 0) / most));
  return Math.max(6, full * size);
}

function nodeTrace(nodes, { place, size }, kind, style, most, fill) {
  const mine = nodes.filter((n) => n.verdict === kind);
  return {
    type: "scatter",
    mode: "markers",
    x: mine.map((n) => place(n)[0]),
    y: mine.map((n) => place(n)[1]),
    customdata: mine.map((n) => n.id),
    hoverinfo: "text",
    hovertext: mine.map(hoverText),
    cliponaxis: false,
    marker: {
      symbol: SYMBOLS[kind] || "circle",
      size: mine.map((n) => diameter(n, most, size)),
      color: mine.map(fill),
      line: { color: style.colour, width: style.border },
      opacity: 1,
    },
  };
}

// What the pointer shows at a node: its token, and all its numbers.
function hoverText(node) {
  const numbers = [["N", node.visits, (value) => Math.round(value)], ["P", node.prior, probability], ["Q", node.value, small], ["U", node.exploration, small]];
  const shown = numbers.filter(([, value]) => value !== null).map(([name, value, format]) => `${name} ${format(value)}`);
  return [`<b>${plotText(visible(node.text, 40))}</b>`, shown.join(" · ")].filter(Boolean).join("<br>");
}

// Where a label is: above the edge in the columns, on two levels where the labels of the path are wider than a column; beside the mark in a list.
function labelPlace(node, grid, most) {
  const [x, y] = grid.place(node);
  if (grid.list) return [x + 0.5 * diameter(node, most, grid.size) + 5, y];
  const high = grid.stagger && grid.onPath(node) && node.x % 2;
  return [x + 0.45 * diameter(node, most, grid.size) + 3, y - 11 * grid.size - (high ? 14 : 0)];
}

// Labels of a row are on one line, whatever the sizes of the marks.
function labelTrace(nodes, grid, kind, style, most, names, beside) {
  const mine = nodes.filter((n) => n.verdict === kind);
  const muted = cssToken("--ax-muted");
  const label = (n) => {
    const text = plotText(names.get(n.id));
    const numbers = beside?.get(n.id);
    const suffix = numbers ? ` <span style="font-size:${Math.round(10 * grid.size)}px;color:${muted}">${numbers}</span>` : "";
    return grid.onPath(n) && n.id ? `<b>${text}</b>${suffix}` : text + suffix;
  };
  return textTrace(mine, (n) => labelPlace(n, grid, most), label, "right", { family: cssToken("--ax-mono"), size: 12 * grid.size, color: style.text });
}

// The numbers of a node, below its edge.
function numberTrace(nodes, grid, most) {
  const mine = nodes.filter((n) => numbersOf(n));
  const at = (n) => [labelPlace(n, { ...grid, stagger: false }, most)[0], grid.place(n)[1] + 11];
  return textTrace(mine, at, numbersOf, "right", { family: cssToken("--ax-sans"), size: 10.5, color: cssToken("--ax-muted") });
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
function signTrace(nodes, { place, size }, style, fill) {
  const mine = nodes.filter((n) => style[n.verdict].sign);
  const inks = [cssToken("--ax-ink"), cssToken("--ax-card")];
  const font = { family: cssToken("--ax-sans"), size: 11 * size, color: mine.map((n) => contrasting(fill(n), inks)) };
  return textTrace(mine, place, (n) => `<b>${style[n.verdict].sign}</b>`, "center", font);
}

// The scores that the selection compares, below the end of the edge from the parent, where no label is.
function scoreTrace(nodes, { place, size }, most) {
  const mine = nodes.filter((n) => n.score !== null);
  const at = (n) => [place(n)[0] - diameter(n, most, size) / 2 - 1, place(n)[1] + 8];
  return textTrace(mine, at, (n) => n.score, "left", { family: cssToken("--ax-mono"), size: 10, color: cssToken("--ax-aded") });
}

function ringTrace(node, { place, size }, most) {
  const [x, y] = node ? place(node) : [null, null];
  const marker = { symbol: `${SYMBOLS[node?.verdict] || "circle"}-open`, size: node ? diameter(node, most, size) + 9 : 1 };
  return { type: "scatter", mode: "markers", x: [x], y: [y], hoverinfo: "skip", marker: { ...marker, color: cssToken("--ax-ink"), line: { color: cssToken("--ax-ink"), width: 2 } } };
}

function summary(step, nodes) {
  const drafted = step.tree.tokens.length - 1;
  if (nodes.some(({ verdict }) => verdict === "unverified")) return sentences(say("predict.covered", { count: drafted }), say("tree.keys"));
  const added = nodes.find((n) => n.id === TARGET);
  const end = added ? say(`tree.${added.verdict}`, { token: visible(added.text) }) : "";
  return sentences(say("tree.summary", { count: drafted, accepted: step.path.length - 1 }), end, say("tree.keys"));
}
