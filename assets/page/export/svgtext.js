// Text of the page as SVG text: each line at its position, in its font, with its underlines and strike-throughs.

import { paint, short } from "./svgboxes.js";
import { svg } from "../core/dom.js";

const UNSAFE = /[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu; // characters that XML does not allow
const SAME = 1; // pixels below which two positions are equal

const measure = { pen: null };

// SVG elements of a text node, relative to `origin`; text decorations of ancestors up to `root` are included.
export function textShapes(node, root, origin) {
  const style = getComputedStyle(node.parentElement);
  const fill = paint("fill", style.color);
  if (!fill) return [];
  const ascent = ascentOf(style);
  return textRuns(node).flatMap(({ text, left, right, top }) => {
    const [x, y] = [left - origin.x, Math.round(top + ascent) - origin.y];
    const length = right - left;
    const shape = svg("text", { x: short(x), y: short(y), textLength: short(length), lengthAdjust: "spacingAndGlyphs", ...fill, ...fontOf(style), text: text.replace(UNSAFE, "\ufffd") });
    return [shape, ...lines(node.parentElement, root, { x, y, length, size: parseFloat(style.fontSize) })];
  });
}

// A text at the top left corner {x, y} of a line box.
export function textShape(text, style, { x, y }) {
  return svg("text", { x: short(x), y: Math.round(y + ascentOf(style)), ...paint("fill", style.color), ...fontOf(style), text });
}

// Text runs, each on one line: {text, left, right, top} in window pixels.
function textRuns(node) {
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

// Appends a character to the text run that it touches, on either side because of right-to-left scripts, or starts a new one.
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
    style: "white-space:pre", // spaces at the ends belong to a token
  };
}

// Distance in pixels from the top of a line to its baseline.
function ascentOf(style) {
  return Math.round(penFor(style).measureText("").fontBoundingBoxAscent);
}

function penFor({ fontStyle, fontWeight, fontSize, fontFamily }) {
  if (!measure.pen) measure.pen = document.createElement("canvas").getContext("2d");
  measure.pen.font = `${fontStyle} ${fontWeight} ${fontSize} ${fontFamily}`;
  return measure.pen;
}

// Width in pixels of a text in a font.
export function widthOf(text, font) {
  return penFor(font).measureText(text).width;
}

// Underlines and strike-throughs of a piece of text, from its element and the inline elements around it.
function lines(element, root, { x, y, length, size }) {
  const drawn = [];
  for (let inline = element; inline; inline = inline === root || getComputedStyle(inline).display !== "inline" ? null : inline.parentElement) {
    const style = getComputedStyle(inline);
    const colour = paint("stroke", style.textDecorationColor);
    if (style.textDecorationLine === "none" || !colour) continue;
    const width = parseFloat(style.textDecorationThickness) || 1;
    const middle = style.textDecorationLine.includes("line-through") ? -0.3 * size : (parseFloat(style.textUnderlineOffset) || 2) + width / 2;
    const dash = style.textDecorationStyle === "dotted" ? `${width} ${width}` : null;
    for (const down of style.textDecorationStyle === "double" ? [0, 2 * width] : [0]) {
      const at = short(y + middle + down);
      drawn.push(svg("line", { x1: short(x), x2: short(x + length), y1: at, y2: at, ...colour, "stroke-width": width, "stroke-dasharray": dash }));
    }
  }
  return drawn;
}
