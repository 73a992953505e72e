// The draft tree in its box: drawn, fitted and zoomed, with the selected node.

import { el, onKey, presenting, setText, toggleClass, visible } from "../../page/core/dom.js";
import { say, sentences } from "../../page/core/words.js";
import { registerExport } from "../../page/export/exports.js";
import { outlined, plotDrawing, registerDrawing } from "../../page/export/svgexport.js";
import { PLOT_CONFIG, plotted } from "../../page/plot/charts.js";
import { TARGET } from "../../page/record/record.js";
import { treeNodes } from "../../page/record/stepview.js";
import { numbersOf } from "./columnwidths.js";
import { LOOKS, RING, diameter, geometry, scrolledTo, tagOf } from "./geometry.js";
import { isSquare, mostVisits, plotLayout, ringTrace, textsOf, traces } from "./traces.js";

const LABELS = ".textpoint text:not([text-anchor='middle'])"; // without the signs inside the marks
const STEP = 1.3; // factor of one zoom step
const SIDEWAYS = ["ArrowLeft", "ArrowRight"];
const MARGIN = 1; // heights of the box above and below it in which the labels of a tall tree are drawn: they take most of the time
const DRAG = 4; // pixels that the pointer moves before a press is a drag

// `zoomButtons`: {fit, in, out}.
export function createTree(root, legend, zoomButtons, { onHover, onPick, onPaint }) {
  const plot = el("div", { class: "ax-plot", "aria-hidden": "true" });
  const ring = el("i", { class: "ax-ring", hidden: true });
  const items = el("div", { class: "ax-sr" });
  const tag = el("span", { class: "ax-ring-tag", "aria-hidden": "true", hidden: true });
  root.replaceChildren(plot, ring, tag, items);
  let nodes = [];
  let wired = false;
  let shown = null; // {Plotly, step, layout, colours, grid, texts, top, band} of the picture on screen; top: the scroll position for which it is drawn
  let selected = 0; // the marked node
  let picked = 0; // the selected one, which may not be the one below the pointer
  let zoom = null; // 1: the whole tree is in its box; null: as it opens (geometry.js)
  let large = presenting();

  // `pointed`: whether `node` is only the one below the pointer.
  function draw(Plotly, step, layout, colours, prior, node, pointed) {
    const other = large !== presenting() || (shown?.step.tree !== step.tree && shown?.layout !== layout);
    large = presenting();
    if (other) zoom = null;
    shown = { Plotly, step, layout, colours, prior };
    paint();
    root.setAttribute("aria-label", summary(step, nodes));
    items.replaceChildren(...nodes.map(item));
    if (!wired) wire();
    if (other) root.scrollTo(0, 0);
    select(node, pointed);
    if (other && !pointed) reveal(node);
  }

  function paint() {
    const { Plotly } = shown;
    const scale = scaleOf(root);
    const box = { width: scale * root.clientWidth, height: scale * root.clientHeight };
    const grid = geometry(box, drawnNodes(shown), zoom, presenting() ? LOOKS.presented : LOOKS.page);
    shown.grid = grid;
    shown.top = root.scrollTop;
    shown.band = [-MARGIN, 1 + MARGIN].map((share) => (scale * root.scrollTop + share * box.height) / grid.type);
    nodes = grid.nodes;
    shown.texts = textsOf(nodes, grid);
    Plotly.react(plot, traces(nodes, shown), plotLayout(grid), PLOT_CONFIG);
    for (const [name, off] of [["out", grid.scale <= 1], ["in", grid.scale >= grid.most]]) zoomButtons[name].setAttribute("aria-disabled", String(off));
    moveRing();
    const numbered = [shown.texts.beside, shown.texts.below].some((texts) => texts && [...texts.values()].some(Boolean));
    onPaint(shown.step, { numbered, scored: grid.scored });
  }

  // Enlarges the tree around a point of its box, by default the middle.
  function zoomTo(value, [x, y] = [root.clientWidth / 2, root.clientHeight / 2]) {
    if (!shown) return;
    const before = shown.grid;
    zoom = Math.max(1, Math.min(before.most, value));
    paint();
    root.scrollLeft = (root.scrollLeft + x) * (shown.grid.width / before.width) - x;
    root.scrollTop = (root.scrollTop + y) * (shown.grid.height / before.height) - y;
  }

  const zoomBy = (factor, point) => shown && zoomTo(shown.grid.scale * factor, point);

  // The marked node: its ring, what the picture lacks of it while presenting, and its name for screen readers. Nothing else is drawn again.
  function select(node, pointed) {
    const moved = !pointed && node !== picked;
    if (moved) picked = node;
    selected = node;
    moveRing();
    const chosen = nodes.some(({ id }) => id === node);
    root.dataset.node = String(node);
    for (const one of items.children) one.setAttribute("aria-selected", String(one.id === itemId(node)));
    if (chosen) root.setAttribute("aria-activedescendant", itemId(node));
    else root.removeAttribute("aria-activedescendant");
    if (moved && document.activeElement === root) reveal(node);
  }

  function reveal(id) {
    const node = nodes.find((one) => one.id === id);
    const box = { left: root.scrollLeft, top: root.scrollTop, width: root.clientWidth, height: root.clientHeight };
    if (node) root.scrollTo(...scrolledTo(box, pixelsOf(node).map((length) => length / scaleOf(root)))); // its own box, never the page
  }

  const pixelsOf = (node) => shown.grid.place(node).map((length) => length * shown.grid.type);

  function moveRing() {
    const node = shown && nodes.find(({ id }) => id === selected);
    const missing = node && presenting() ? tagOf(node, nodes, shown.texts, shown.grid, mostVisits(nodes)) : null;
    ring.hidden = !node;
    tag.hidden = !missing;
    if (!node) return;
    const [x, y] = pixelsOf(node);
    const size = shown.grid.type * (diameter(node, mostVisits(nodes), shown.grid.marks) + RING);
    Object.assign(ring.style, { left: `${x - size / 2}px`, top: `${y - size / 2}px`, width: `${size}px`, height: `${size}px` });
    toggleClass(ring, "ax-ring-square", isSquare(node));
    if (missing) placeTag(missing, size / 2);
  }

  // `beyond`: pixels from the middle of a mark to the edge of its ring.
  function placeTag({ text, x, y, below }, beyond) {
    const [scale, { type, width, height }] = [scaleOf(root), shown.grid];
    setText(tag, text);
    const space = { x: (width * type) / scale - tag.offsetWidth, y: (height * type) / scale - tag.offsetHeight };
    const middle = { x: (x * type) / scale + (below ? -tag.offsetWidth / 4 : 4), y: (y * type) / scale - tag.offsetHeight / 2 };
    const down = below ? beyond / scale + tag.offsetHeight / 2 + 1 : 0;
    const top = middle.y + down > space.y ? middle.y - down : middle.y + down;
    Object.assign(tag.style, { left: `${Math.max(0, Math.min(space.x, middle.x))}px`, top: `${Math.max(0, top)}px` });
  }

  // The saved picture is the fitted tree with the ring, whatever part is on screen.
  registerDrawing(plot, async () => {
    const box = { width: Math.max(root.clientWidth, 900), height: root.clientHeight };
    const { readable } = geometry(box, drawnNodes(shown), 1);
    const grid = geometry(box, drawnNodes(shown), readable);
    const ringed = ringTrace(grid.nodes.find(({ id }) => id === selected), grid, mostVisits(grid.nodes));
    return outlined(await plotDrawing({ data: [...traces(grid.nodes, { ...shown, grid, texts: textsOf(grid.nodes, grid), band: undefined }), ringed], layout: plotLayout(grid) }), LABELS);
  });
  registerExport("tree", { place: () => root, picture: () => [legend, plotted(plot)] });

  function wire() {
    wired = true;
    const id = (event) => event.points[0].customdata;
    plot.on("plotly_hover", (event) => onHover(id(event)));
    plot.on("plotly_unhover", () => onHover(null));
    plot.on("plotly_click", (event) => onPick(id(event)));
  }

  zoomButtons.fit.addEventListener("click", () => zoomTo(1));
  zoomButtons.in.addEventListener("click", () => zoomBy(STEP));
  zoomButtons.out.addEventListener("click", () => zoomBy(1 / STEP));
  root.addEventListener(
    "wheel",
    (event) => {
      if (!shown || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      const { left, top } = root.getBoundingClientRect();
      zoomBy(event.deltaY < 0 ? STEP : 1 / STEP, [event.clientX - left, event.clientY - top]);
    },
    { passive: false },
  );
  root.addEventListener("scroll", () => shown && root.clientHeight && Math.abs(root.scrollTop - shown.top) > 0.5 * MARGIN * root.clientHeight && paint());
  dragToScroll(root);
  onKey(root, (event) => {
    if (!shown || event.ctrlKey || event.metaKey || event.altKey) return;
    if (presenting() && SIDEWAYS.includes(event.key)) return; // the next tab (present.js)
    if (event.key === "Escape" && picked === 0) return; // the end of the presentation
    if (event.key === "+" || event.key === "-") zoomBy(event.key === "+" ? STEP : 1 / STEP);
    const target = event.key === "+" || event.key === "-" ? null : neighbour(nodes, selected, event.key);
    if (target === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    if (target !== null) onPick(target);
  });
  return { draw, select };
}

const drawnNodes = ({ step, layout, prior }) => treeNodes(step, layout).map((node) => ({ ...node, priorTerm: prior }));

// By how much the page is enlarged while it is presented; the plot is not, since Plotly would look for the pointer in the wrong place.
const scaleOf = (root) => root.currentCSSZoom ?? 1;

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
  const words = [visible(node.text), say(`chip.${node.verdict}`), numbersOf(node), node.fork && say("term.fork")].filter(Boolean).join(", ");
  return el("span", { role: "treeitem", id: itemId(node.id), "aria-level": node.x + 1, "aria-selected": "false", text: words });
}

// Arrow keys: left to the parent, right to the first child, up and down within the depth; Escape: to the root.
function neighbour(nodes, from, key) {
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

function summary(step, nodes) {
  const drafted = step.tree.tokens.length - 1;
  if (nodes.some(({ verdict }) => verdict === "unverified")) return sentences(say("predict.covered", { count: drafted }), say("tree.keys"));
  const added = nodes.find((n) => n.id === TARGET);
  const end = added ? say(`tree.${added.verdict}`, { token: visible(added.text) }) : "";
  return sentences(say("tree.summary", { count: drafted, accepted: step.path.length - 1 }), end, say("tree.keys"));
}
