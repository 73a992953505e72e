// An HTML box as SVG shapes: background, borders, and shadows without blur.

import { svg } from "../core/dom.js";

const SIDES = ["Top", "Right", "Bottom", "Left"];
const COLOUR = /(?:rgba?|color|oklab|oklch|lab|lch)\([^)]*\)|#\w+|transparent/g;

const pixel = { pen: null, cache: new Map() };

// A CSS colour as SVG attributes: an rgb() colour and its opacity; null if it is transparent.
export function paint(name, colour) {
  const [r, g, b, a] = channels(colour);
  const alpha = name === "stop-color" ? "stop-opacity" : `${name}-opacity`;
  return a ? { [name]: `rgb(${r},${g},${b})`, [alpha]: a < 255 ? (a / 255).toFixed(3) : null } : null;
}

// Red, green, blue and alpha (0 to 255) of any CSS colour.
function channels(colour) {
  if (!pixel.pen) pixel.pen = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  if (!pixel.cache.has(colour)) {
    const { pen } = pixel;
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    pixel.cache.set(colour, [...pen.getImageData(0, 0, 1, 1).data]);
  }
  return pixel.cache.get(colour);
}

// SVG shapes of a box {x, y, width, height} with a computed style; `define` adds a paint server to <defs> and returns its url().
export function boxShapes(box, style, define) {
  if (!box.width || !box.height) return [];
  const radius = radiusOf(box, style);
  return [...outside(box, style, radius), ...background(box, style, radius, define), ...inside(box, style, radius), ...borders(box, style, radius)];
}

function radiusOf({ width, height }, style) {
  const { borderTopLeftRadius } = style;
  const radius = parseFloat(borderTopLeftRadius) * (borderTopLeftRadius.includes("%") ? width / 100 : 1);
  return Math.min(radius, width / 2, height / 2);
}

function rectangle({ x, y, width, height }, rx, attributes) {
  return svg("rect", { x: short(x), y: short(y), width: short(width), height: short(height), rx: rx ? short(rx) : null, ...attributes });
}

export function short(value) {
  return String(Math.round(value * 100) / 100);
}

function background(box, style, radius, define) {
  const fill = paint("fill", style.backgroundColor);
  const image = style.backgroundImage === "none" ? null : gradient(style.backgroundImage);
  return [fill && rectangle(box, radius, fill), image && rectangle(box, radius, { fill: define(image) })].filter(Boolean);
}

// The two kinds of gradients on this page: left to right, and repeating stripes at an angle.
function gradient(image) {
  const colours = image.match(COLOUR);
  if (!image.startsWith("repeating")) {
    const stops = colours.map((colour, i) => svg("stop", { offset: i / (colours.length - 1), ...paint("stop-color", colour) }));
    return svg("linearGradient", {}, ...stops);
  }
  const [angle] = image.match(/-?[\d.]+(?=deg)/);
  const [width, period] = [...image.matchAll(/([\d.]+)px/g)].map((found) => Number(found[1])).filter((_, i, all) => i === 1 || i === all.length - 1);
  const stripe = svg("rect", { width, height: period, ...paint("fill", colours[0]) });
  return svg("pattern", { width: period, height: period, patternUnits: "userSpaceOnUse", patternTransform: `rotate(${angle - 90})` }, stripe);
}

function borders(box, style, radius) {
  const sides = SIDES.map((side) => ({ side, width: parseFloat(style[`border${side}Width`]), line: style[`border${side}Style`], colour: style[`border${side}Color`] }));
  const seen = sides.filter(({ width, line, colour }) => width && line !== "none" && line !== "hidden" && paint("stroke", colour));
  const [first] = seen;
  const even = seen.length === SIDES.length && seen.every(({ width, line, colour }) => width === first.width && line === first.line && colour === first.colour);
  if (even) return [rectangle(grown(box, -first.width / 2), Math.max(0, radius - first.width / 2), { fill: "none", ...stroke(first) })];
  return seen.map((side) => svg("line", { ...edge(box, side), ...stroke(side) }));
}

function stroke({ width, line, colour }) {
  const dash = { dashed: `${3 * width} ${2 * width}`, dotted: `${width} ${width}` }[line];
  return { ...paint("stroke", colour), "stroke-width": width, "stroke-dasharray": dash };
}

function edge({ x, y, width, height }, { side, width: thick }) {
  const [right, bottom, half] = [x + width, y + height, thick / 2];
  const ends = { Top: [x, y + half, right, y + half], Right: [right - half, y, right - half, bottom], Bottom: [x, bottom - half, right, bottom - half], Left: [x + half, y, x + half, bottom] }[side];
  return Object.fromEntries(["x1", "y1", "x2", "y2"].map((name, i) => [name, short(ends[i])]));
}

function grown({ x, y, width, height }, by) {
  return { x: x - by, y: y - by, width: Math.max(0, width + 2 * by), height: Math.max(0, height + 2 * by) };
}

// Shadows without blur as {fill, inset, right, down, spread}; blurred shadows are not exported.
function shadows(style) {
  if (style.boxShadow === "none") return [];
  return style.boxShadow.split(/,(?![^(]*\))/).flatMap((text) => {
    const [right, down, blur, spread] = [...text.matchAll(/(-?[\d.]+)px/g)].map((found) => Number(found[1]));
    const fill = paint("fill", text.match(COLOUR)[0]);
    return blur || !fill ? [] : [{ fill, inset: text.includes("inset"), right, down, spread }];
  });
}

function inside(box, style, radius) {
  return shadows(style)
    .filter(({ inset }) => inset)
    .map(({ fill, right, down, spread }) => (right || down ? frame(box, cut(moved(grown(box, -spread), right, down), box), fill) : ring(grown(box, -spread), radius - spread, spread, fill)));
}

function outside(box, style, radius) {
  return shadows(style)
    .filter(({ inset }) => !inset)
    .map(({ fill, right, down, spread }) => (right || down ? frame(moved(grown(box, spread), right, down), box, fill) : ring(box, radius, spread, fill)));
}

// An outline around a box, with the box's corner radius.
function ring(box, radius, width, { fill: stroke, "fill-opacity": opacity }) {
  return rectangle(grown(box, width / 2), Math.max(0, radius + width / 2), { fill: "none", stroke, "stroke-opacity": opacity, "stroke-width": width });
}

function moved(box, right, down) {
  return { ...box, x: box.x + right, y: box.y + down };
}

// The intersection of two boxes.
function cut(box, other) {
  const [x, y] = [Math.max(box.x, other.x), Math.max(box.y, other.y)];
  const [right, bottom] = [Math.min(box.x + box.width, other.x + other.width), Math.min(box.y + box.height, other.y + other.height)];
  return { x, y, width: Math.max(0, right - x), height: Math.max(0, bottom - y) };
}

// The area of `outer` without `inner`.
function frame(outer, inner, fill) {
  const path = ({ x, y, width, height }) => `M${short(x)} ${short(y)}h${short(width)}v${short(height)}h${short(-width)}z`;
  return svg("path", { d: path(outer) + path(inner), "fill-rule": "evenodd", ...fill });
}
