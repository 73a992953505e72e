// Pixel positions of the nodes of a draft tree, fitted to its box or zoomed: depth from left to right or, in a narrow box, as an
// indented list.

import { lettersOf } from "../../page/core/dom.js";
import { TARGET } from "../../page/record/record.js";
import { COLUMN, LETTER, LETTERS, LEVELS, TWO_LINES, columnWidths, inLines, levelsOf, longestLine, namesOf, numbersOf, spaceOf, tightest, total, treeOf } from "./columnwidths.js";

export const NARROW = 560; // boxes up to this width get the indented list
const ROW = { most: 50, list: 27 }; // height of a row in pixels
const READABLE = { least: 12, lowest: 4 }; // height of a row from which its label can be read without zooming; lowest row of a tree that opens fitted
const LISTED = 20; // the same in the list, where a score is between two rows
const MARGIN = { left: 22, top: 28, bottom: 18, low: 10 }; // `low`: below rows that are too low for numbers below the labels
const BENEATH = 8; // pixels between the first row, whose marks are the largest, and the second
const LIST = { top: 16, bottom: 14 }; // pixels above and below the list
const LEFT = 46; // pixels before the children of the root in the list, so that no score is cut off
const FULL = { text: 13.5, mark: 17 }; // height of a row from which texts and marks have their full size
const SMALLEST = { text: 0.75, mark: 0.25, number: 8 }; // texts and marks in lower rows, as a share of their full size; pixels of the smallest numbers
const ABOVE = 27; // height of a row from which labels are above the edges; in lower rows they are beside the marks
const BELOW = 36; // height of a row from which the numbers are below the label
const LEAST = { accepted: 16, rejected: 13 }; // minimum size in pixels of marks that contain a sign
const TEXT = { token: 7.3, number: 6, score: 6.1, below: 5.9 }; // most pixels of a character at full size: token, number beside it, score, number below it
export const HALF = { token: 6.5, score: 5.5, below: 7 }; // half the height in pixels of the letters of such a text
const ROUNDING = 0.01; // of a character
export const APART = 2; // pixels between a text and a score
const MOST = 8; // largest zoom
const NEARER = 2; // by which a tree with readable labels can be zoomed at least

const FONT = { token: 12, number: 10 }; // pixels of texts at full size
const LABEL = { least: 11, apart: 11.5 }; // pixels between two labels at full size that hardly touch, and that do not
const DENSE = 2 / 3; // share of `least` to which texts are reduced in low rows, but the first, before a label is left out
const BESIDE = 5; // pixels between a mark and the texts beside it, which the ring of the selected node is within
export const RING = 9; // by how much that ring is wider than the mark
const RISE = { size: 11, least: 1.5 }; // pixels from an edge up to the middle of the label above it: at full size, and at any size
const POLE = 3; // pixels that a label on one of several levels begins before the middle of its mark
// `type` enlarges texts, marks and spaces as far as the tree still fits; `least`: pixels of the smallest text, of which a fifth is given up before
// a token is cut, and a third, but in the first row, before a label is left out.
export const LOOKS = { page: { type: 1, least: 0 }, presented: { type: 1.8, least: 18 } };

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

// The picture of a tree for a box {width, height} of pixels; `zoom` 1 fits all of it into the box, null does so too, but makes the rows of a
// list and those of a very large tree high enough to read the labels. Lengths of the result are in units of `type` pixels.
//   nodes: with their final rows; place: of a node; width, height: of the picture; high: of a row; type: pixels of a unit
//   fonts: font sizes {size, small} of the token and the numbers of a node, as shares of the full ones; marks: size of the marks, likewise; least: see LOOKS; scale, most: the zoom of the picture, and the largest one
//   readable: the zoom from which the labels can be read
//   numbers: where the small numbers are: "below", "beside", "path", that is beside the labels of the first row only, or null in low rows of a
//   list; levels: of the labels of the first row; list: whether it is an indented list
//   letters: characters of a node's label; above: whether it is above the edge, not beside the mark; raised: by how much it is higher than
//   others; scored: whether its rows are high enough for scores
export function geometry(box, nodes, zoom, { type, least } = LOOKS.page) {
  const list = box.width <= NARROW;
  const tree = list ? null : treeOf(nodes);
  const unit = list ? type : Math.max(1, Math.min(type, largestType(box, tree, zoom ?? 1)));
  const inner = { width: box.width / unit, height: box.height / unit };
  const sizes = (share, shrunk = 1) => textSizes(share, (shrunk * least) / unit, SMALLEST.number / unit);
  return { ...(list ? indented(inner, listed(nodes), zoom, sizes) : columns(inner, tree, zoom, sizes)), type: unit, least };
}

// Font sizes that are a share of the full ones, and at least `least` units, those of numbers at least `lowest` units.
const textSizes = (share, least, lowest) => ({ size: Math.max(share, least / FONT.token), small: Math.max(share, Math.max(least, lowest) / FONT.number) });

// Heights of rows for a zoom, from the height that fits all rows into the box: {high, scale, readable, most, marks, legible, fontsOf};
// `lowest`: from which height on the zoom null fits all rows. In low rows the smallest type is reduced, as far as DENSE, so that labels do not touch.
// `fontsOf`: from a share to which texts are reduced to the `fonts` of geometry().
function rowHeights(fit, zoom, { least, lowest }, sizesOf) {
  const readable = Math.max(1, Math.max(least, LABEL.apart * sizesOf(0, DENSE).size) / fit);
  const scale = zoom ?? (fit < lowest ? readable : 1);
  const high = fit * scale;
  const dense = Math.max(DENSE, Math.min(1, high / (LABEL.apart * sizesOf(0).size)));
  const share = Math.min(1, Math.max(SMALLEST.text, high / FULL.text));
  const fontsOf = (shrunk) => {
    const [first, others] = [1, dense].map((least) => sizesOf(shrunk * sizesOf(share, least).size, Math.min(shrunk, least)));
    return ({ y }) => (y ? others : first);
  };
  const marks = Math.max(SMALLEST.mark, Math.min(1, high / FULL.mark));
  const legible = high >= FONT.token * sizesOf(share, dense).size;
  return { high, scale, readable, most: Math.max(MOST, NEARER * readable), marks, legible, fontsOf };
}

// Pixels of a unit with which the rows and the tokens have their full size.
function largestType(box, tree, zoom) {
  const { needs, right } = tightest(tree);
  return Math.min((zoom * box.height) / (MARGIN.top + BENEATH + MARGIN.bottom + FULL.text * tree.rows), (zoom * box.width) / (MARGIN.left + total(needs) + right));
}

function columns(box, tree, zoom, sizesOf) {
  const { nodes, depth, rows } = tree;
  const bottom = (zoom ?? 1) * box.height < BELOW * rows ? MARGIN.low : MARGIN.bottom;
  const heightsOf = (top) => rowHeights(Math.min(ROW.most, Math.max(0.5, (box.height - top - BENEATH - bottom) / rows)), zoom, READABLE, sizesOf);
  const first = heightsOf(MARGIN.top);
  const { widths, right, shrunk } = columnWidths(box.width - MARGIN.left, tree, first);
  const starts = [...widths.keys(), depth].map((x) => MARGIN.left + total(widths.slice(0, x)));
  const width = Math.max(starts[depth] + right, 200);
  const largest = first.fontsOf(shrunk)({ y: 0 }).size;
  const levels = levelsOf(tree, starts, largest);
  const level = LEVELS.height * Math.max(1, largest);
  const top = MARGIN.top + (levels > 1 ? LEVELS.first + (levels - 1) * level : 0);
  const { high, legible, fontsOf, ...heights } = heightsOf(top);
  const fonts = fontsOf(shrunk);
  const space = (node) => spaceOf(node, tree, starts, levels) ?? width - starts[node.x] - LETTER.end;
  const letters = (node) => Math.max(LETTERS.least, Math.min(LETTERS.most, Math.floor(space(node) / (LETTER.token * fonts(node).size) + ROUNDING)));
  const whole = nodes.every((node) => lettersOf(tree.names.get(node.id)) <= letters(node));
  return {
    ...heights, high, fonts, nodes, list: false, onPath, width, letters,
    place: ({ x, y }) => [starts[x], top + (y ? BENEATH : 0) + y * high],
    above: ({ y }) => !y || high >= ABOVE,
    raised: ({ x, y }) => (y === 0 && levels > 1 ? LEVELS.first + (levels - 1 - (x % levels)) * level : 0),
    height: top + BENEATH + bottom + high * rows,
    levels,
    numbers: whole && high >= BELOW ? "below" : whole && legible ? "beside" : "path",
    scored: legible,
  };
}

function indented(box, nodes, zoom, sizesOf) {
  const depth = Math.max(1, ...nodes.map(({ x }) => x));
  const indent = Math.min(COLUMN.indent, (box.width - 156 - LEFT) / Math.max(1, depth - 1));
  const fit = Math.min(ROW.list, Math.max(0.5, (box.height - LIST.top - LIST.bottom) / Math.max(1, nodes.length - 1)));
  const { high, legible, fontsOf, ...heights } = rowHeights(fit, zoom, { least: LISTED, lowest: LISTED }, sizesOf);
  const place = ({ x, y }) => [LEFT + (x - 1) * indent, LIST.top + y * high];
  return {
    ...heights, fonts: fontsOf(1), nodes, place, list: true, onPath,
    letters: () => LETTERS.most,
    above: () => false,
    raised: () => 0,
    width: box.width,
    height: LIST.top + LIST.bottom + high * (nodes.length - 1),
    numbers: legible ? "beside" : null,
    scored: high > LISTED - 1,
  };
}

// The label of every node, by id, cut to the space that it has; different tokens never get the same label. Where two labels would overlap, as
// in a large tree that is fitted to its box, only one is there: that of the path first, then of its children, then of the node with more visits.
export function labelsOf(nodes, grid, most) {
  const names = namesOf(nodes, grid.letters);
  const path = new Set(nodes.filter(onPath).map(({ id }) => id));
  const nearness = ({ id, parent }) => (path.has(id) ? 2 : path.has(parent) ? 1 : 0);
  const weight = (node) => node.visits ?? node.prior ?? 0;
  const drawn = [];
  for (const node of [...nodes].sort((a, b) => nearness(b) - nearness(a) || weight(b) - weight(a) || a.id - b.id)) {
    const [left, y] = labelPlace(node, grid, most);
    const { size } = grid.fonts(node);
    const box = { left, y, end: left + TEXT.token * size * lettersOf(names.get(node.id)) };
    if (drawn.some((other) => Math.abs(other.y - y) < LABEL.least * size - ROUNDING && other.left < box.end && box.left < other.end)) names.set(node.id, "");
    else drawn.push(box);
  }
  return names;
}

export function diameter(node, most, marks) {
  const full = node.id === 0 ? 15 : node.id === TARGET ? 14 : Math.max(LEAST[node.verdict] || 0, 9 + 9 * Math.sqrt((node.visits || 0) / most));
  return Math.max(3, full * marks);
}

// Where a label begins: beside the mark or, in high rows and in the first one, above the edge. Where the labels of the first row are wider than a
// column, they are on several levels, each one above its mark.
export function labelPlace(node, grid, most) {
  const [x, y] = grid.place(node);
  const raised = grid.raised(node);
  return [raised ? x - POLE : behind(node, grid, most), grid.above(node) ? y - RISE.size * grid.fonts(node).size - RISE.least - raised : y];
}

// Where texts beside a mark or, nearer to it, above and below it begin: the ring of the selected node does not reach them.
const behind = (node, { place, marks, above }, most) => place(node)[0] + (above(node) ? 0.45 * diameter(node, most, marks) + 4 : 0.5 * diameter(node, most, marks) + BESIDE);

// Where the numbers below the edge begin.
export function numbersPlace(node, grid, most) {
  return [behind(node, grid, most), grid.place(node)[1] + 11];
}

// Where a score ends: on the end of the edge from the parent or, in a list, below it.
export function scorePlace(node, { place, marks, list }, most) {
  const [x, y] = place(node);
  return [x - 0.5 * diameter(node, most, marks) - BESIDE, list ? y + 8 : y];
}

// The nodes whose scores do not touch a token or the mark of the parent, and where numbers must end so that they touch no score:
//   ends: {beside, below}, from the id of a node to a pixel
export function placeScores(nodes, names, grid, most) {
  const ends = { beside: new Map(), below: new Map() };
  if (!grid.scored) return { shown: [], ends };
  const texts = nodes.some(({ score }) => score !== null) ? nodes.flatMap((node) => textsOf(node, names, grid, most)) : [];
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const marked = ({ parent }) => (grid.list || !byId.has(parent) ? -Infinity : grid.place(byId.get(parent))[0] + 0.5 * diameter(byId.get(parent), most, grid.marks));
  const shown = nodes.filter((node) => {
    if (node.score === null) return false;
    const [right, y] = scorePlace(node, grid, most);
    const left = scoreStart(node, grid, most);
    if (left < marked(node)) return false;
    const near = texts.filter((text) => text.left < right && Math.abs(text.y - y) < text.half + HALF.score);
    if (near.some((text) => text.end > left)) return false;
    for (const { kind, id } of near) ends[kind].set(id, Math.min(left, ends[kind].get(id) ?? Infinity));
    return true;
  });
  return { shown, ends };
}

export const scoreStart = (node, grid, most) => scorePlace(node, grid, most)[0] - TEXT.score * grid.fonts(node).small * node.score.length - APART;

// The scroll position nearest to {left, top} at which a point is in a box {width, height}, with its label.
export const scrolledTo = ({ left, top, width, height }, [x, y]) => [Math.max(x + 120 - width, Math.min(left, x - 60)), Math.max(y + 60 - height, Math.min(top, y - 30))];

// Pixels of a label with its numbers.
export const labelLength = (name, numbers, { size, small }) => TEXT.token * size * (lettersOf(name) + (numbers ? 1 : 0)) + TEXT.number * small * numbers.length;

// The texts of a node that a score may meet: its label, of which the token ends at `end`, and its numbers below, which can be left out.
function textsOf(node, names, grid, most) {
  const { id } = node;
  const [left, y] = labelPlace(node, grid, most);
  const { size } = grid.fonts(node);
  const label = { id, kind: "beside", left, y, half: HALF.token * size, end: left + TEXT.token * size * lettersOf(names.get(id)) };
  if (grid.numbers !== "below") return [label];
  const [start, low] = numbersPlace(node, grid, most);
  return [label, { id, kind: "below", left: start, y: low, half: HALF.below, end: start }];
}

// Returns a function: where the mark of the next node in the row of a node begins or, in a first row with labels on several levels, which are
// above the marks, the next label of its level or a higher one, with its line; or the picture ends.
function marksOf(nodes, grid, most) {
  const marks = new Map(grid.list ? [] : nodes.map((node) => [`${node.x}/${node.y}`, grid.place(node)[0] - 0.5 * diameter(node, most, grid.marks) - APART]));
  const raised = nodes.filter((node) => grid.levels > 1 && grid.raised(node));
  const next = (node) => raised.filter((other) => other.x > node.x && grid.raised(other) >= grid.raised(node)).map((other) => labelPlace(other, grid, most)[0] - APART);
  return (node) => (grid.levels > 1 && !node.y ? Math.min(grid.width, ...next(node)) : (marks.get(`${node.x + 1}/${node.y}`) ?? grid.width));
}

// The small numbers below each edge, by id: all that fit before the next node of the row and before the next score, those of the first row in two
// lines if they do not fit in one.
export function numbersBelow(nodes, grid, most, ends) {
  const marks = marksOf(nodes, { ...grid, levels: 1 }, most);
  const end = (node) => Math.min(marks(node), ends.below.get(node.id) ?? Infinity);
  const fits = (node, text) => numbersPlace(node, grid, most)[0] + TEXT.below * Math.max(1, grid.fonts(node).small) * longestLine(text) <= end(node);
  const offered = (node) => [numbersOf(node), ...(node.y || grid.high < TWO_LINES ? [] : [inLines(numbersOf(node))]), ...fewer(node)];
  return new Map(nodes.map((node) => [node.id, offered(node).find((text) => fits(node, text)) ?? ""]));
}

// Without space for all numbers of a node: how many nodes are folded below it, or nothing.
const fewer = (node) => [numbersOf({ ...node, visits: null, prior: null }), ""];

// What the picture lacks of the numbers of a node, and of its token, and where it is: {text, x, y, below}, behind its label or, without space
// there, below its mark; null if nothing is missing.
export function tagOf(node, nodes, { names, beside, below }, grid, most) {
  const numbers = numbersOf(node);
  const name = names.get(node.id);
  if (!numbers || (name && [beside, below].some((texts) => [numbers, inLines(numbers)].includes(texts?.get(node.id))))) return null;
  const text = name ? numbers : `${namesOf([node], () => LETTERS.most).get(node.id)} ${numbers}`;
  const [left, height] = labelPlace(node, grid, most);
  const start = left + labelLength(name, "", grid.fonts(node));
  const fits = start + TEXT.token * grid.fonts(node).size * (lettersOf(text) + 2) <= marksOf(nodes, grid, most)(node);
  return fits ? { text, x: start, y: height, below: false } : { text, x: grid.place(node)[0], y: grid.place(node)[1], below: true };
}

// The small numbers beside each label, by id: all that fit before the next node of the row and before the next score.
export function numbersBeside(nodes, names, grid, most, ends) {
  const marks = marksOf(nodes, grid, most);
  const ending = (node, text) => labelPlace(node, grid, most)[0] + labelLength(names.get(node.id), text, grid.fonts(node));
  const end = (node) => Math.min(marks(node), ends.beside.get(node.id) ?? Infinity);
  const offered = (node) => (grid.numbers === "path" && node.y ? [""] : [numbersOf(node), ...fewer(node)]);
  return new Map(nodes.map((node) => [node.id, offered(node).find((text) => !text || (names.get(node.id) && ending(node, text) <= end(node))) ?? ""]));
}
