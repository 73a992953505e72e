// The text of the page as text of an SVG: every line at its place, in its font, with the lines under and through it.

import { paint, short } from "./boxes.js";
import { svg } from "./dom.js";

const UNSAFE = /[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu; // what XML cannot hold
const SAME = 1; // pixels within which two places are one

const measure = { pen: null };

// Elements for a text node, moved so that `origin` lies at 0, 0; `root` is where lines that are drawn under it end.
export function textShapes(node, root, origin) {
  const style = getComputedStyle(node.parentElement);
  const fill = paint("fill", style.color);
  if (!fill) return [];
  const ascent = ascentOf(style);
  return runs(node).flatMap(({ text, left, right, top }) => {
    const [x, y] = [left - origin.x, Math.round(top + ascent) - origin.y];
    const length = right - left;
    const shape = svg("text", { x: short(x), y: short(y), textLength: short(length), lengthAdjust: "spacingAndGlyphs", ...fill, ...fontOf(style), text: text.replace(UNSAFE, "\ufffd") });
    return [shape, ...lines(node.parentElement, root, { x, y, length, size: parseFloat(style.fontSize) })];
  });
}

// A text that begins where a line's box {x, y} does.
export function textShape(text, style, { x, y }) {
  return svg("text", { x: short(x), y: Math.round(y + ascentOf(style)), ...paint("fill", style.color), ...fontOf(style), text });
}

// Letters that stand side by side on one line: {text, left, right, top} in pixels of the window.
function runs(node) {
  const found = [];
  const range = document.createRange();
  for (const { segment, index } of new Intl.Segmenter().segment(node.data)) {
    range.setStart(node, index);
    range.setEnd(node, index + segment.length);
    const box = range.getBoundingClientRect();
    if (box.width) place(found, segment, box);
  }
  return found;
}

// Adds a letter to the run beside it, on either side since some scripts run to the left, or begins a new one.
function place(found, segment, { left, right, top }) {
  const run = found[found.length - 1];
  const near = run && Math.abs(run.top - top) < SAME && (Math.abs(run.right - left) < SAME || Math.abs(run.left - right) < SAME);
  if (!near) return void found.push({ text: segment, left, right, top });
  run.text += segment;
  run.left = Math.min(run.left, left);
  run.right = Math.max(run.right, right);
  return undefined;
}

function fontOf(style) {
  return {
    "font-family": style.fontFamily,
    "font-size": style.fontSize,
    "font-weight": style.fontWeight === "400" ? null : style.fontWeight,
    "font-style": style.fontStyle === "normal" ? null : style.fontStyle,
    style: "white-space:pre", // blanks at either end are part of a token
  };
}

// Pixels from the top of a line's letters to the line that they stand on.
function ascentOf(style) {
  return Math.round(penFor(style).measureText("").fontBoundingBoxAscent);
}

function penFor({ fontStyle, fontWeight, fontSize, fontFamily }) {
  if (!measure.pen) measure.pen = document.createElement("canvas").getContext("2d");
  measure.pen.font = `${fontStyle} ${fontWeight} ${fontSize} ${fontFamily}`;
  return measure.pen;
}

// Pixels that a text takes in a font.
export function widthOf(text, font) {
  return penFor(font).measureText(text).width;
}

// The lines that an element and the inline ones around it draw under or through a piece of text.
function lines(element, root, { x, y, length, size }) {
  const drawn = [];
  for (let at = element; at; at = at === root || getComputedStyle(at).display !== "inline" ? null : at.parentElement) {
    const style = getComputedStyle(at);
    const colour = paint("stroke", style.textDecorationColor);
    if (style.textDecorationLine === "none" || !colour) continue;
    const width = parseFloat(style.textDecorationThickness) || 1;
    const middle = style.textDecorationLine.includes("line-through") ? -0.3 * size : (parseFloat(style.textUnderlineOffset) || 2) + width / 2;
    const dash = style.textDecorationStyle === "dotted" ? `${width} ${width}` : null;
    drawn.push(svg("line", { x1: short(x), x2: short(x + length), y1: short(y + middle), y2: short(y + middle), ...colour, "stroke-width": width, "stroke-dasharray": dash }));
  }
  return drawn;
}
