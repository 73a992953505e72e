// Pixel positions of the nodes of a draft tree, fitted to its box or zoomed: depth from left to right or, in a narrow box, as an
// indented list.

import { distinctNames, lettersOf } from "../../page/core/dom.js";
import { TARGET } from "../../page/record/record.js";

export const NARROW = 560; // boxes up to this width get the indented list
const ROW = { most: 50, list: 27 }; // height of a row in pixels
const COLUMN = { least: 24, most: 210, indent: 20 };
const READABLE = 15; // height of a row from which its label can be read without zooming
const LISTED = 20; // the same in the list, where a score is between two rows
const MARGIN = { left: 22, top: 36, bottom: 22 };
const BENEATH = 8; // pixels between the first row, whose marks are the largest, and the labels of the second
const LIST = { top: 16, bottom: 14 }; // pixels above and below the list
const LEFT = 22; // pixels before the root of the list, so that no score of its children is cut off
const LETTER = { token: 7.3, number: 6, mark: 20 }; // widths in pixels of a character of a token, of a number, and of the space before a label
const LETTERS = { least: 4, most: 14, path: 22 }; // characters of a label's token; on the accepted path
const LEVELS = { most: 3, height: 14, first: 5 }; // levels of the labels of the path where they are wider than a column: their number, the height of one, and how much higher the first one is then, above the marks
const FULL = 17; // height of a row from which texts have their full size
const SMALLEST_MARK = 0.25; // as a share of its full size, in a row that is much lower
const BELOW = 34; // height of a row from which the numbers are below the label
const LEAST = { accepted: 16, rejected: 13 }; // minimum size in pixels of marks that contain a sign
const TEXT = { token: 7.3, number: 6, score: 6.1, below: 5.9 }; // most pixels of a character at full size: token, number beside it, score, number below it
const HALF = { token: 7.5, score: 6, below: 7 }; // half the height in pixels of such a text
const APART = 2; // pixels between a text and a score
const MOST = 8; // largest zoom
const NEARER = 2; // by which a tree with readable labels can be zoomed at least

// `type` enlarges texts, marks and spaces; `lowest`: smallest font size in low rows, as a share of the full one.
export const LOOKS = { page: { type: 1, lowest: 0.62 }, presented: { type: 1.8, lowest: 1 } };

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

// The picture of a tree for a box {width, height} of pixels; `zoom` 1 fits all of it into the box, null makes its rows high enough to read
// the labels. Lengths of the result are in units of `type` pixels.
//   nodes: with their final rows; place: of a node; width, height: of the picture; type: pixels of a unit
//   size: font size as a share of the full one; marks: size of the marks, likewise; scale, most: the zoom of the picture, and the largest one
//   numbers: where the small numbers are: "below", "beside" or null; list: whether it is an indented list
//   letters: characters of a node's label; raised: by how much it is higher than others; scored: whether its rows are high enough for scores
export function geometry(box, nodes, zoom, looks = LOOKS.page) {
  const { type } = looks;
  const inner = { width: box.width / type, height: box.height / type };
  return { ...(inner.width <= NARROW ? indented(inner, listed(nodes), zoom, looks) : columns(inner, nodes, zoom, looks)), type };
}

// Heights of rows for a zoom, from the height that fits all rows into the box: {high, scale, readable, most, size, marks}.
function rowHeights(fit, zoom, least, lowest) {
  const readable = Math.max(1, least / fit);
  const scale = zoom ?? readable;
  const high = fit * scale;
  const share = Math.min(1, high / FULL);
  return { high, scale, readable, most: Math.max(MOST, NEARER * readable), size: Math.max(lowest, share), marks: Math.max(SMALLEST_MARK, share) };
}

function columns(box, nodes, zoom, { lowest }) {
  const depth = Math.max(1, ...nodes.map(({ x }) => x));
  const rows = Math.max(1, ...nodes.map(({ y }) => y));
  const whole = namesOf(nodes, (node) => (onPath(node) ? LETTERS.path : LETTERS.most));
  const right = Math.max(80, ...nodes.filter(({ x }) => x === depth).map((node) => labelWidth(node, whole)));
  const fitting = Math.max(1, Math.min(COLUMN.most, (box.width - MARGIN.left - right) / depth));
  const levels = levelsOf(nodes.filter((node) => node.y === 0 && onPath(node) && node.x < depth), whole, zoom === 1 ? fitting : Math.max(COLUMN.least, fitting));
  const top = MARGIN.top + (levels > 1 ? LEVELS.first + (levels - 1) * LEVELS.height : 0);
  const { high, readable, ...heights } = rowHeights(Math.min(ROW.most, Math.max(0.5, (box.height - top - BENEATH - MARGIN.bottom) / rows)), zoom, READABLE * Math.max(1, lowest * 1.2), lowest);
  const wide = zoom === 1 ? fitting : Math.max(COLUMN.least, fitting) * Math.max(1, heights.scale / readable);
  const letters = Math.max(LETTERS.least, Math.min(LETTERS.most, Math.floor((wide - 24) / LETTER.token)));
  const onPathLetters = Math.max(LETTERS.least, Math.min(LETTERS.path, Math.floor((levels * wide - 10) / LETTER.token)));
  const inFirstRow = (node) => node.y === 0 && onPath(node);
  const place = ({ x, y }) => [MARGIN.left + x * wide, top + (y ? BENEATH : 0) + y * high];
  return {
    ...heights, nodes, place, wide, list: false, onPath,
    letters: (node) => (!inFirstRow(node) ? letters : node.x === depth ? LETTERS.path : onPathLetters),
    raised: (node) => (inFirstRow(node) && levels > 1 ? LEVELS.first + (node.x % levels) * LEVELS.height : 0),
    width: Math.max(MARGIN.left + right + wide * depth, 200),
    height: top + BENEATH + MARGIN.bottom + high * rows,
    numbers: high >= BELOW ? "below" : high >= READABLE ? "beside" : null,
    scored: high > READABLE - 1,
  };
}

// The number of levels that the labels of the path need in columns of this width.
function levelsOf(path, names, wide) {
  const widths = path.map(({ id }) => lettersOf(names.get(id)) * LETTER.token + 8);
  return Math.min(LEVELS.most, Math.max(1, Math.ceil(Math.max(0, ...widths) / wide)));
}

function indented(box, nodes, zoom, { lowest }) {
  const depth = Math.max(1, ...nodes.map(({ x }) => x));
  const indent = Math.min(COLUMN.indent, (box.width - 156 - LEFT) / depth);
  const { high, ...heights } = rowHeights(Math.min(ROW.list, Math.max(0.5, (box.height - LIST.top - LIST.bottom) / Math.max(1, nodes.length - 1))), zoom, LISTED, lowest);
  const place = ({ x, y }) => [LEFT + x * indent, LIST.top + y * high];
  return {
    ...heights, nodes, place, wide: box.width, list: true, onPath,
    letters: () => LETTERS.path,
    raised: () => 0,
    width: box.width,
    height: LIST.top + LIST.bottom + high * (nodes.length - 1),
    numbers: high >= READABLE ? "beside" : null,
    scored: high > LISTED - 1,
  };
}

// `letters`: most characters of a node's name.
const namesOf = (nodes, letters) => distinctNames(nodes.map((node) => ({ key: node.id, token: node.token, text: node.text, limit: letters(node) })));

// Pixels from a node in the last column to the end of its label and its numbers.
function labelWidth(node, names) {
  return LETTER.mark + LETTER.token * lettersOf(names.get(node.id)) + LETTER.number * numbersOf(node).length + 6;
}

// The label of every node, by id, cut to the space that it has; different tokens never get the same label. Where two labels would overlap, as
// in a large tree that is fitted to its box, only that of the node with more visits is there, and that of the path first.
export function labelsOf(nodes, grid, most) {
  const names = namesOf(nodes, grid.letters);
  const rank = (node) => (onPath(node) ? Infinity : node.visits ?? node.prior ?? 0);
  const drawn = [];
  for (const node of [...nodes].sort((a, b) => rank(b) - rank(a) || a.id - b.id)) {
    const [left, y] = labelPlace(node, grid, most);
    const box = { left, y, end: left + TEXT.token * grid.size * lettersOf(names.get(node.id)) };
    if (drawn.some((other) => Math.abs(other.y - y) < 12 * grid.size && other.left < box.end && box.left < other.end)) names.set(node.id, "");
    else drawn.push(box);
  }
  return names;
}

export function diameter(node, most, marks) {
  const full = node.id === 0 ? 15 : node.id === TARGET ? 14 : Math.max(LEAST[node.verdict] || 0, 9 + 9 * Math.sqrt((node.visits || 0) / most));
  return Math.max(3, full * marks);
}

// Where a label begins: above the edge in the columns, on several levels where the labels of the path are wider than a column; beside the
// mark in a list.
export function labelPlace(node, grid, most) {
  const [x, y] = grid.place(node);
  if (grid.list) return [x + 0.5 * diameter(node, most, grid.marks) + 5, y];
  return [x + 0.45 * diameter(node, most, grid.marks) + 3, y - 11 * grid.size - grid.raised(node)];
}

// Where the numbers below the edge begin.
export function numbersPlace(node, grid, most) {
  return [labelPlace(node, grid, most)[0], grid.place(node)[1] + 11];
}

// Where a score ends: below the end of the edge from the parent.
export function scorePlace(node, { place, marks }, most) {
  const [x, y] = place(node);
  return [x - diameter(node, most, marks) / 2 - 1, y + 8];
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

// Returns a function: where the mark of the next node in the row of a node begins.
function marksOf(nodes, grid, most) {
  const marks = new Map(grid.list ? [] : nodes.map((node) => [`${node.x}/${node.y}`, grid.place(node)[0] - 0.5 * diameter(node, most, grid.marks) - APART]));
  return ({ x, y }) => marks.get(`${x + 1}/${y}`) ?? Infinity;
}

// The small numbers below each edge, by id: all that fit before the next node of the row and before the next score.
export function numbersBelow(nodes, grid, most, ends) {
  const marks = marksOf(nodes, grid, most);
  const end = (node) => Math.min(marks(node), ends.below.get(node.id) ?? Infinity);
  const fits = (node, text) => numbersPlace(node, grid, most)[0] + TEXT.below * text.length <= end(node);
  return new Map(nodes.map((node) => [node.id, shorter(node).find((text) => fits(node, text)) ?? ""]));
}

// The numbers of a node, and what is left out first.
const shorter = (node) => [numbersOf(node), numbersOf({ ...node, prior: null }), ""];

// The small numbers beside each label, by id: all that fit before the next node of the row and before the next score.
export function numbersBeside(nodes, names, grid, most, ends) {
  const { size } = grid;
  const marks = marksOf(nodes, grid, most);
  const ending = (node, text) => labelPlace(node, grid, most)[0] + (TEXT.token * (lettersOf(names.get(node.id)) + 1) + TEXT.number * text.length) * size;
  const end = (node) => Math.min(marks(node), ends.beside.get(node.id) ?? Infinity);
  return new Map(nodes.map((node) => [node.id, shorter(node).find((text) => !text || (names.get(node.id) && ending(node, text) <= end(node))) ?? ""]));
}

const PRIOR_SIGNS = { prior: "P", "draft-probability": "q" };

// The small numbers of a node: visit count, and prior P or draft probability q; number of folded nodes below it.
export function numbersOf({ visits, prior, priorTerm = "prior", folded }) {
  const parts = [visits === null ? null : `N ${Math.round(visits)}`, prior === null ? null : `${PRIOR_SIGNS[priorTerm]} ${prior.toFixed(2)}`, folded ? `+${folded}` : null];
  return parts.filter((value) => value !== null).join(" · ");
}
