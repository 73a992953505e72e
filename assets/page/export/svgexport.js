// A part of the page as one SVG: the elements on screen are drawn again, box by box and line by line, with their colours and fonts.
// All pictures are saved by this code, whether they are HTML, SVG, a canvas or Plotly.

import { boxShapes, paint, short } from "./svgboxes.js";
import { cssToken, svg } from "../core/dom.js";
import { textShape, textShapes, widthOf } from "./svgtext.js";

const MARGIN = 16; // pixels around the picture
const GAP = { y: 8, x: 18 }; // pixels between its parts
const TITLE = { fontStyle: "normal", fontWeight: "650", fontSize: "17px", height: 26 };
const LARGEST = 16000; // maximum width and height in pixels that every browser supports
const PAINTED = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity"];

const drawings = new WeakMap();

// Registers `draw`, which returns (a promise of) the SVG of an element that is not only boxes and texts.
export function registerDrawing(element, draw) {
  drawings.set(element, draw);
}

// One SVG with a title and the elements below each other, on the background of a card. A list in place of an element is a row of elements, a list
// in such a row a column.
export async function drawingOf(title, elements) {
  const { shapes, ...size } = await drawAll(elements, "y");
  const font = { ...TITLE, fontFamily: cssToken("--ax-sans") };
  const width = Math.ceil(Math.max(widthOf(title, font), size.width) + 2 * MARGIN);
  const top = MARGIN + TITLE.height;
  const placed = [svg("g", { transform: `translate(${MARGIN} ${top})` }, ...shapes)];
  const height = Math.ceil(top + size.height + MARGIN);
  const card = svg("rect", { width, height, ...paint("fill", cssToken("--ax-card")) });
  const head = svg("text", { x: MARGIN, y: MARGIN + 15, "font-family": font.fontFamily, "font-size": font.fontSize, "font-weight": font.fontWeight, ...paint("fill", cssToken("--ax-ink")), text: title });
  return svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "xml:space": "preserve" }, svg("title", { text: title }), card, head, ...placed);
}

// The drawing of an element, or of a list of them one after the other along an axis: {shapes, width, height}.
async function drawAll(elements, axis) {
  if (!Array.isArray(elements)) return drawPart(elements);
  const parts = (await Promise.all(elements.map((one) => drawAll(one, axis === "y" ? "x" : "y")))).filter(({ height }) => height);
  const [along, across] = axis === "y" ? ["height", "width"] : ["width", "height"];
  let end = 0;
  const shapes = parts.map((part) => {
    const place = axis === "y" ? [0, end] : [end, 0];
    end += Math.ceil(part[along]) + GAP[axis];
    return svg("g", { transform: `translate(${place.map(short).join(" ")})` }, ...part.shapes);
  });
  return { shapes, [along]: Math.max(0, end - GAP[axis]), [across]: Math.max(0, ...parts.map((part) => part[across])) };
}

export function svgText(drawing) {
  return new XMLSerializer().serializeToString(drawing);
}

// The drawing as PNG data, at twice the resolution of the page if it is not too large.
export async function pixels(drawing) {
  const [width, height] = ["width", "height"].map((name) => Number(drawing.getAttribute(name)));
  const scale = Math.min(2, LARGEST / Math.max(width, height));
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgText(drawing))}`;
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: Math.round(width * scale), height: Math.round(height * scale) });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

// A Plotly figure as an SVG element.
export async function plotDrawing({ data, layout }) {
  const text = await window.Plotly.toImage({ data, layout }, { format: "svg", width: layout.width, height: layout.height, imageDataOnly: true });
  return document.importNode(new DOMParser().parseFromString(text, "image/svg+xml").documentElement, true);
}

// A picture whose labels have an outline in the background colour, as on the page (card.css of the tree and of the bigrams).
export function outlined(drawing, labels = ".textpoint text") {
  for (const text of drawing.querySelectorAll(labels)) Object.assign(text.style, { paintOrder: "stroke", stroke: cssToken("--ax-card"), strokeWidth: "4px", strokeLinejoin: "round" });
  return drawing;
}

let drawn = 0; // number of parts so far, for unique ids

// One element with its content, unscrolled: {shapes, width, height}.
async function drawPart(root) {
  const own = new Map();
  for (const element of [root, ...root.querySelectorAll("*")]) {
    const draw = drawings.get(element) || (element.classList.contains("js-plotly-plot") ? () => plotDrawing(element) : null);
    if (draw) own.set(element, await draw());
  }
  const box = root.getBoundingClientRect();
  const defs = svg("defs");
  drawn += 1;
  const name = `ax-${drawn}`;
  const define = (shape) => {
    shape.id = `${name}-${defs.children.length}`;
    defs.append(shape);
    return `url(#${shape.id})`;
  };
  const sketch = { root, own, define, origin: { x: Math.round(box.left) - root.scrollLeft, y: Math.round(box.top) - root.scrollTop } };
  const shapes = drawElement(root, sketch);
  return { shapes: [defs, ...shapes], width: Math.max(box.width, root.scrollWidth), height: Math.max(box.height, root.scrollHeight) };
}

function drawElement(element, sketch) {
  if (element.hasAttribute("data-no-picture")) return []; // only of use on the page
  const style = getComputedStyle(element);
  const rects = [...element.getClientRects()].map((rect) => moved(rect, sketch.origin));
  if (style.visibility === "hidden" || style.clipPath !== "none" || !rects.length) return [];
  const boxes = style.transform === "none" ? rects.flatMap((rect) => boxShapes(rect, style, sketch.define)) : turnedBox(element, rects[0], style, sketch);
  const shapes = [...boxes, ...drawContent(element, rects[0], sketch)];
  const clipped = style.overflowX === "hidden" && element !== sketch.root && element.scrollWidth > element.clientWidth + 1;
  const opacity = style.opacity === "1" ? null : style.opacity;
  if (!clipped && !opacity) return shapes;
  const clip = clipped ? sketch.define(svg("clipPath", {}, svg("rect", sized(rects[0])))) : null;
  return [svg("g", { opacity, "clip-path": clip }, ...shapes)];
}

// The box of a rotated element: drawn upright, then rotated about its centre. `rect` surrounds the rotated box.
function turnedBox({ offsetWidth: width, offsetHeight: height }, rect, style, { define }) {
  const [x, y] = [rect.x + rect.width / 2, rect.y + rect.height / 2];
  const { a, b } = new DOMMatrix(style.transform);
  const upright = boxShapes({ x: x - width / 2, y: y - height / 2, width, height }, style, define);
  return [svg("g", { transform: `rotate(${short((180 * Math.atan2(b, a)) / Math.PI)} ${short(x)} ${short(y)})` }, ...upright)];
}

function drawContent(element, rect, sketch) {
  const own = sketch.own.get(element) || (element instanceof SVGSVGElement ? copied(element) : null);
  if (own) {
    for (const [name, value] of Object.entries(sized(rect))) own.setAttribute(name, value);
    return [own];
  }
  const children = [...element.childNodes].flatMap((node) => (node instanceof Text ? textShapes(node, sketch.root, sketch.origin) : node instanceof Element ? drawElement(node, sketch) : []));
  return [...drawMark(element, rect), ...children, ...drawPseudo(element, rect, sketch)];
}

// A pseudo-element that the style sheet positions after the content of an element.
function drawPseudo(element, rect, { define }) {
  const style = getComputedStyle(element, "::after");
  if (style.content === "none" || style.position !== "absolute") return [];
  const [left, top, width, height, margin] = ["left", "top", "width", "height", "marginLeft"].map((name) => parseFloat(style[name]));
  return boxShapes({ x: rect.x + left + margin, y: rect.y + top, width, height }, style, define);
}

// Text that the style sheet inserts before the content of an element.
function drawMark(element, rect) {
  const style = getComputedStyle(element, "::before");
  const [, text] = /^"(.+)"$/.exec(style.content) || [];
  return text ? [textShape(text, style, rect)] : [];
}

// A box relative to the part, rounded to whole pixels; boxes thinner than one pixel keep their size.
function moved({ left, top, right, bottom }, origin) {
  const [x, y] = [Math.round(left) - origin.x, Math.round(top) - origin.y];
  const side = (from, to) => (to - from < 1 ? to - from : Math.round(to) - Math.round(from));
  return { x, y, width: side(left, right), height: side(top, bottom) };
}

function sized({ x, y, width, height }) {
  return { x: short(x), y: short(y), width: short(width), height: short(height) };
}

// A copy of an SVG of the page with all styles as attributes.
function copied(source) {
  const copy = source.cloneNode(true);
  const pairs = [source, ...source.querySelectorAll("*")].map((from, i) => [from, [copy, ...copy.querySelectorAll("*")][i]]);
  for (const [from, to] of pairs) {
    const style = getComputedStyle(from);
    for (const name of PAINTED) to.setAttribute(name, style.getPropertyValue(name));
    to.removeAttribute("class");
    to.removeAttribute("style");
  }
  return copy;
}
