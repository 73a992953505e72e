// Tree attention: the nodes that each node attends to in the forward pass that verifies the draft: the context and its ancestors.

import { cssToken, el, setText, svg, visible } from "../../page/core/dom.js";
import { registerDrawing } from "../../page/export/svgexport.js";
import { offerExport, registerExport } from "../../page/export/exports.js";
import { say } from "../../page/core/words.js";
import { namesOfStep } from "../../page/record/record.js";

const CELL = 34; // maximum size of a cell in pixels
const BESIDE = { size: 240, width: 144, text: 200 }; // size up to which the legend is beside the mask in a narrow window, its width, and that of text and legend in a wide one
const NAMES = { row: 12, width: 124 }; // height of a row in pixels from which it has the name of its node, and width of the names
const TEXT = 0.12; // share of the width for the context

export function mount({ part, subscribe, hover, pick }) {
  offerExport("mask", { group: "step", title: "mask.title", at: part("mask"), picture: true, table: true });
  const canvas = part("mask");
  let order = [];
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return order[Math.min(order.length - 1, Math.floor(((event.clientY - box.top) / box.height) * order.length))];
  };
  canvas.addEventListener("mousemove", (event) => order.length && hover(at(event)));
  canvas.addEventListener("mouseleave", () => hover(null));
  canvas.addEventListener("click", (event) => order.length && pick(at(event)));
  subscribe("quiet", ({ view }) => [view.recorded], ({ view }) => (part("pass-none").hidden = view.recorded.tree.tokens.length > 1));
  subscribe("quiet", ({ view }) => [view.step], ({ view: { step } }) => {
    registerExport("mask", { place: () => canvas, picture: () => [part("mask-text"), part("mask-axes"), canvas, part("mask-legend")], table: () => maskTable(step) });
  });
  const selected = ({ view, tab, hover: hovered, node, dark }) => (tab === "pass" ? [view.step, view.layout, hovered ?? node, dark, canvas.clientWidth] : null);
  subscribe("quiet", selected, ({ view, hover: hovered, node }) => {
    order = view.layout.nodes;
    draw(canvas, part("mask-text"), view.step, order, hovered ?? node);
    renderNames(part("mask-names"), canvas, view.step, order);
  });
}

function draw(canvas, caption, step, order, selected) {
  canvas.style.setProperty("--ax-mask-cells", `${CELL * order.length}px`);
  const size = canvas.clientWidth;
  const dots = window.devicePixelRatio || 1;
  canvas.width = canvas.height = Math.round(size * dots);
  const pen = canvas.getContext("2d");
  pen.scale(dots, dots);
  paint(pen, size, step.tree, order, selected);
  registerDrawing(canvas, () => drawing(size, (sketch) => paint(sketch, size, step.tree, order, selected)));
  setText(caption, describe(step.tree, selected));
  caption.title = caption.textContent; // all of it, since long captions are cut off
}

// The token of each row's node beside the mask, if the rows are high enough and nothing must move for it.
function renderNames(list, canvas, step, order) {
  const { clientHeight: height, clientWidth: width } = canvas;
  const wide = getComputedStyle(canvas.parentElement).display === "contents"; // card.css
  const needed = width + NAMES.width + (wide ? BESIDE.text : width <= BESIDE.size ? BESIDE.width : 0);
  list.hidden = height / order.length < NAMES.row || needed > canvas.closest("[data-part='mask-card']").clientWidth;
  list.style.height = `${height}px`;
  const names = namesOfStep(step);
  list.replaceChildren(...(list.hidden ? [] : order.map((node) => el("li", { text: names.get(step.tree.tokens[node]) }))));
}

// The same picture as SVG: each filled rectangle of the canvas becomes a rectangle.
function drawing(size, draw) {
  const root = svg("svg", { viewBox: `0 0 ${size} ${size}` });
  const place = (n) => n.toFixed(2);
  draw({
    fillRect(x, y, width, height) {
      root.append(svg("rect", { x: place(x), y: place(y), width: place(width), height: place(height), fill: this.fillStyle, "fill-opacity": this.globalAlpha }));
    },
  });
  return root;
}

function ancestors(tree, node) {
  const line = [];
  for (let n = node; n >= 0; n = tree.parents[n]) line.push(n);
  return line;
}

function paint(pen, size, tree, order, selected) {
  const left = size * TEXT;
  const cell = { w: (size - left) / order.length, h: size / order.length };
  const gap = cell.h > 5 ? 1 : 0;
  const place = new Map(order.map((node, i) => [node, i]));
  const fill = { accepted: "--ax-accept", root: "--ax-ink", rejected: "--ax-reject", unreached: "--ax-faint", unverified: "--ax-muted" };
  const colours = Object.fromEntries(Object.entries(fill).map(([verdict, name]) => [verdict, cssToken(name)]));
  const [soft, context] = [cssToken("--ax-soft"), cssToken("--ax-target")];
  order.forEach((node, row) => {
    const chosen = node === selected;
    const y = row * cell.h;
    pen.globalAlpha = chosen ? 1 : 0.5;
    pen.fillStyle = context;
    pen.fillRect(0, y, left - 3, cell.h - gap);
    pen.globalAlpha = 1;
    pen.fillStyle = soft;
    pen.fillRect(left, y, size - left, cell.h - gap);
    pen.globalAlpha = chosen || selected < 0 ? 1 : 0.55;
    pen.fillStyle = colours[tree.verdict[node]];
    for (const seen of ancestors(tree, node)) {
      if (place.has(seen)) pen.fillRect(left + place.get(seen) * cell.w, y, cell.w - gap, cell.h - gap);
    }
  });
}

function describe(tree, node) {
  if (node < 0) return say("mask.row");
  const line = ancestors(tree, node).slice(1).reverse();
  const seen = line.map((n) => visible(tree.texts[n])).join(" › ");
  return say(seen ? "mask.ancestors" : "mask.root", { token: visible(tree.texts[node]), seen });
}

// The nodes that each node attends to in addition to the context: its ancestors from the root on, and itself.
export function maskTable({ tree }) {
  const attended = [];
  for (const [node, parent] of tree.parents.entries()) attended.push([...(parent < 0 ? [] : attended[parent]), node]);
  return [["node", "token", "text", "attends_to"], ...attended.map((nodes, node) => [node, tree.tokens[node], tree.texts[node], nodes.join(" ")])];
}
