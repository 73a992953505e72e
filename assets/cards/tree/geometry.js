// Pixel positions of the nodes of a draft tree, fitted to its box or zoomed: depth from left to right or, in a narrow box, as an
// indented list.

import { lettersOf, visible } from "../../page/core/dom.js";
import { TARGET } from "../../page/record/record.js";

export const NARROW = 560; // boxes up to this width get the indented list
const ROW = { least: 7, most: 50, list: 27 }; // height of a row in pixels
const COLUMN = { most: 210, indent: 20 };
const READABLE = 15; // height of a row from which its label can be read without zooming
const LISTED = 20; // the same in the list, where a score is between two rows
const MARGIN = { left: 22, top: 36, bottom: 22 };
const LEFT = 22; // pixels before the root of the list, so that no score of its children is cut off
const LETTER = { token: 7.3, number: 5.4, mark: 20 }; // widths in pixels of a character of a token, of a number, and of the space before a label
const LETTERS = { least: 4, most: 14, path: 22 }; // characters of a label's token; on the accepted path
const LOWEST = 0.62; // smallest font size, as a share of the full one
const BELOW = 34; // height of a row from which the numbers are below the label
const LEAST = { accepted: 16, rejected: 13 }; // minimum size in pixels of marks that contain a sign
const TEXT = { token: 7.3, number: 6, score: 6.1, below: 5.9 }; // most pixels of a character at full size: token, number beside it, score, number below it
const HALF = { token: 7.5, score: 6, below: 7 }; // half the height in pixels of such a text
const APART = 2; // pixels between a text and a score

const onPath = ({ id, verdict, onTrail }) => id === 0 || id === TARGET || verdict === "accepted" || Boolean(onTrail);

// The nodes as an indented list: one row per node, children below their parent, in the order of the drawing.
function listed(nodes) {
  const children = new Map();
  for (const node of nodes) if (node.id) children.set(node.parent, [...(children.get(node.parent) || []), node]);
  const rows = new Map();
  const waiting = nodes.filter(({ id }) => id === 0);
  while (waiting.length) {
    const node = waiting.pop();
    rows.set(node.id, rows.size);
    waiting.push(...(node.id === TARGET ? [] : children.get(node.id) || []).sort((a, b) => b.y - a.y));
  }
  return nodes.map((node) => ({ ...node, y: rows.get(node.id) }));
}

// The picture of a tree for a box {width, height}; `zoom` enlarges it, 1 fits all of it into the box; `tall` enlarges the rows, like `zoom`
// unless given.
//   nodes: with their final rows; place: pixels of a node; width, height: of the picture; size: font size as a share of the full one
//   numbers: where the small numbers are: "below", "beside" or null; letters: characters of a label; list: whether it is an indented list
//   scored: whether its rows are high enough for scores
export function geometry(box, nodes, zoom, tall = zoom) {
  return box.width <= NARROW ? indented(box, listed(nodes), tall) : columns(box, nodes, zoom, tall);
}

function columns(box, nodes, zoom, tall) {
  const depth = Math.max(1, ...nodes.map(({ x }) => x));
  const rows = Math.max(1, ...nodes.map(({ y }) => y));
  const right = Math.max(80, ...nodes.filter(({ x }) => x === depth).map(labelWidth));
  const room = { x: (box.width - MARGIN.left - right) / depth, y: (box.height - MARGIN.top - MARGIN.bottom) / rows };
  const wide = zoom * Math.min(COLUMN.most, Math.max(24, room.x));
  const high = tall * Math.min(ROW.most, Math.max(ROW.least, room.y));
  const letters = Math.max(LETTERS.least, Math.min(LETTERS.most, Math.floor((wide - 24) / LETTER.token)));
  const size = fontSize(high);
  const stagger = nodes.some((node) => onPath(node) && node.x < depth && lettersOf(visible(node.text, LETTERS.path)) * LETTER.token + 8 > wide);
  const top = MARGIN.top + (stagger ? 14 : 0);
  const place = ({ x, y }) => [MARGIN.left + x * wide, top + y * high];
  return {
    nodes, place, letters, size, wide, list: false, stagger, onPath,
    width: Math.max(MARGIN.left + right + wide * depth, 200),
    height: top + MARGIN.bottom + high * rows,
    numbers: high >= BELOW ? "below" : high >= READABLE && wide > 96 ? "beside" : null,
    readable: tall * (READABLE / high),
    scored: high > READABLE - 1,
  };
}

function indented(box, nodes, zoom) {
  const depth = Math.max(1, ...nodes.map(({ x }) => x));
  const indent = Math.min(COLUMN.indent, (box.width - 156 - LEFT) / depth);
  const high = zoom * Math.max(ROW.least, Math.min(ROW.list, (box.height - MARGIN.bottom) / Math.max(1, nodes.length)));
  const place = ({ x, y }) => [LEFT + x * indent, 16 + y * high];
  const height = 30 + high * (nodes.length - 1);
  return { nodes, place, letters: LETTERS.path, size: fontSize(high), wide: box.width, list: true, stagger: false, onPath, width: box.width, height, numbers: high >= READABLE ? "beside" : null, readable: zoom * (LISTED / high), scored: high > LISTED - 1 };
}

function fontSize(high) {
  return Math.min(1, Math.max(LOWEST, high / 17));
}

// Pixels from a node in the last column to the end of its label and its numbers.
function labelWidth(node) {
  return LETTER.mark + LETTER.token * lettersOf(visible(node.text, onPath(node) ? LETTERS.path : LETTERS.most)) + LETTER.number * numbersOf(node).length + 6;
}

// The label of every node, by id: whole on the path, cut elsewhere; different tokens never get the same label.
export function labelsOf(nodes, letters) {
  const cut = new Map(nodes.map((node) => [node.id, visible(node.text, onPath(node) ? LETTERS.path : letters)]));
  const texts = new Map();
  for (const { id, text } of nodes) texts.set(cut.get(id), new Set([...(texts.get(cut.get(id)) || []), text]));
  const alike = (id) => texts.get(cut.get(id)).size > 1;
  return new Map(nodes.map(({ id, text }) => [id, alike(id) ? cutInside(visible(text, 60), [...texts.get(cut.get(id))], letters) : cut.get(id)]));
}

// A token cut in its middle; whole if another one would look like it.
function cutInside(name, texts, letters) {
  const short = (text) => (text.length > letters ? `${text.slice(0, Math.ceil((letters - 1) / 2))}…${text.slice(-Math.floor((letters - 1) / 2))}` : text);
  return texts.filter((text) => short(visible(text, 60)) === short(name)).length > 1 ? name : short(name);
}

export function diameter(node, most, size) {
  const full = node.id === 0 ? 15 : node.id === TARGET ? 14 : Math.max(LEAST[node.verdict] || 0, 9 + 9 * Math.sqrt((node.visits || 0) / most));
  return Math.max(6, full * size);
}

// Where a label begins: above the edge in the columns, on two levels where the labels of the path are wider than a column; beside the mark
// in a list.
export function labelPlace(node, grid, most) {
  const [x, y] = grid.place(node);
  if (grid.list) return [x + 0.5 * diameter(node, most, grid.size) + 5, y];
  const high = grid.stagger && grid.onPath(node) && node.x % 2;
  return [x + 0.45 * diameter(node, most, grid.size) + 3, y - 11 * grid.size - (high ? 14 : 0)];
}

// Where the numbers below the edge begin.
export function numbersPlace(node, grid, most) {
  return [labelPlace(node, { ...grid, stagger: false }, most)[0], grid.place(node)[1] + 11];
}

// Where a score ends: below the end of the edge from the parent.
export function scorePlace(node, { place, size }, most) {
  const [x, y] = place(node);
  return [x - diameter(node, most, size) / 2 - 1, y + 8];
}

// The nodes whose scores do not touch a token, and where numbers must end so that they touch no score:
//   ends: {beside, below}, from the id of a node to a pixel
export function placeScores(nodes, names, grid, most) {
  const ends = { beside: new Map(), below: new Map() };
  if (!grid.scored) return { shown: [], ends };
  const texts = nodes.some(({ score }) => score !== null) ? nodes.flatMap((node) => textsOf(node, names, grid, most)) : [];
  const shown = nodes.filter((node) => {
    if (node.score === null) return false;
    const [right, y] = scorePlace(node, grid, most);
    const left = right - TEXT.score * node.score.length - APART;
    const near = texts.filter((text) => text.left < right && Math.abs(text.y - y) < text.half + HALF.score);
    if (near.some((text) => text.end > left)) return false;
    for (const { kind, id } of near) ends[kind].set(id, Math.min(left, ends[kind].get(id) ?? Infinity));
    return true;
  });
  return { shown, ends };
}

// The texts of a node that a score may meet: its label, of which the token ends at `end`, and its numbers below, which can be left out.
function textsOf(node, names, grid, most) {
  const { id } = node;
  const [left, y] = labelPlace(node, grid, most);
  const label = { id, kind: "beside", left, y, half: HALF.token * grid.size, end: left + TEXT.token * grid.size * lettersOf(names.get(id)) };
  if (grid.numbers !== "below") return [label];
  const [start, low] = numbersPlace(node, grid, most);
  return [label, { id, kind: "below", left: start, y: low, half: HALF.below, end: start }];
}

// The small numbers below each edge, by id: all that fit before the next score.
export function numbersBelow(nodes, grid, most, ends) {
  const fits = (node, text) => numbersPlace(node, grid, most)[0] + TEXT.below * text.length <= (ends.below.get(node.id) ?? Infinity);
  return new Map(nodes.map((node) => [node.id, shorter(node).find((text) => fits(node, text)) ?? ""]));
}

// The numbers of a node, and what is left out first.
const shorter = (node) => [numbersOf(node), numbersOf({ ...node, prior: null }), ""];

// The small numbers beside each label, by id: all that fit before the next node of the row and before the next score.
export function numbersBeside(nodes, names, grid, most, ends) {
  const { wide, size, list } = grid;
  const taken = new Set(list ? [] : nodes.map(({ x, y }) => `${x}/${y}`));
  const fits = (node, text) => !taken.has(`${node.x + 1}/${node.y}`) || (lettersOf(names.get(node.id)) * LETTER.token + text.length * LETTER.number) * size + LETTER.mark < wide;
  const ending = (node, text) => labelPlace(node, grid, most)[0] + (TEXT.token * (lettersOf(names.get(node.id)) + 1) + TEXT.number * text.length) * size;
  const clear = (node, text) => !text || ending(node, text) <= (ends.beside.get(node.id) ?? Infinity);
  return new Map(nodes.map((node) => [node.id, shorter(node).find((text) => fits(node, text) && clear(node, text)) ?? ""]));
}

// The small numbers of a node: visit count and prior; number of folded nodes below it.
export function numbersOf({ visits, prior, folded }) {
  const parts = [visits === null ? null : `N ${Math.round(visits)}`, prior === null ? null : `P ${prior.toFixed(2)}`, folded ? `+${folded}` : null];
  return parts.filter((value) => value !== null).join(" · ");
}
