// Widths of the columns of a draft tree: with space for the labels and, where there is enough, for their numbers.

import { distinctNames, lettersOf } from "../../page/core/dom.js";

export const COLUMN = { least: 24, most: 210, indent: 20 };
export const LETTER = { token: 7.3, number: 6, mark: 22, end: 16 }; // widths in pixels of a character of a token, of a number, and of the space for the marks around a label or the one before it
export const LETTERS = { least: 3, most: 22 }; // characters of a label's token
export const LEVELS = { most: 3, height: 14, first: 10 }; // levels of the labels of the first row where they are wider than a column: their number, the height of one, and how much higher the first one is then, above the marks
export const TWO_LINES = 40; // height of a row from which the numbers of the first row may be in two lines below the label
// What the columns have space for, the best first: the numbers of the first row, which is the accepted path, also those in two lines, those of other
// nodes before another one of their row, those of the last node of another row, and the labels of the first row on one level.
const SPACES = [
  { path: true, between: true, last: true, level: true },
  { path: true, between: false, last: true, level: true },
  { path: true, between: false, last: false, level: true },
  { path: true, between: false, last: false, level: true, lines: true },
  { path: false, between: false, last: false, level: true },
  { path: false, between: false, last: false, level: false },
];
export const FORK = "Y "; // before the token of a node after which the target was undecided
const SHRUNK = [0.9, 0.8]; // shares of their size to which texts are reduced before tokens are cut, the first one also before the numbers in two lines are left out

export const total = (values) => values.reduce((sum, value) => sum + value, 0);

// The nodes of a tree with its size, the names of the nodes, and which nodes have another one behind them in their row.
export function treeOf(nodes) {
  const [depth, rows] = ["x", "y"].map((axis) => Math.max(1, ...nodes.map((node) => node[axis])));
  const places = new Set(nodes.map(({ x, y }) => `${x}/${y}`));
  return { nodes, depth, rows, names: namesOf(nodes, () => LETTERS.most), isBetween: ({ x, y }) => places.has(`${x + 1}/${y}`) };
}

// Widths of the columns, and pixels behind the last one: with space for as much of SPACES as fits into `free` pixels; `shrunk`: the size of
// the texts that this needs, as a share of the size in these rows.
// `fontsOf`: the font sizes of a node with its texts reduced to such a share.
export function columnWidths(free, tree, { high, scale, readable, fontsOf }) {
  const spaces = SPACES.flatMap((space) => (!space.lines ? [[space, 1]] : high >= TWO_LINES ? [[space, 1], [space, SHRUNK[0]]] : []));
  const options = [...spaces, ...SHRUNK.map((share) => [SPACES.at(-1), share])].map(([space, shrunk]) => ({ ...neededBy(tree, space, fontsOf(shrunk)), shrunk }));
  const { needs, right, shrunk } = options.find((option) => total(option.needs) + option.right <= free) ?? options.at(-1);
  const widths = spread(needs, scale === 1 ? free - right : Math.max(free - right, COLUMN.least * needs.length));
  return { widths: widths.map((wide) => wide * Math.max(1, scale / readable)), right, shrunk };
}

// The widths that the columns need for labels of these fonts, and the pixels behind the last one, with the space of an entry of SPACES.
function neededBy({ nodes, depth, names, isBetween }, space, fonts) {
  const needs = new Array(depth).fill(COLUMN.least);
  let right = 0;
  for (const node of nodes) {
    const wide = (isBetween(node) ? LETTER.mark : LETTER.end) + labelWidth(node, names, fonts(node), !node.y ? space.path : isBetween(node) ? space.between : space.last, space.lines);
    if (!isBetween(node)) right = Math.max(right, wide - (depth - node.x) * COLUMN.least);
    else if (node.y || space.level) needs[node.x] = Math.max(needs[node.x], wide);
  }
  return { needs, right };
}

// The same for the tokens only, at full size.
export const tightest = (tree) => neededBy(tree, SPACES.at(-1), () => ({ size: 1, small: 1 }));

// Widths of columns in `free` pixels: narrow columns are enlarged alike; where there is too little space, wide ones are cut alike.
function spread(needs, free) {
  const enough = total(needs) <= free;
  const widths = (wide) => needs.map((need) => (enough ? Math.max(need, wide) : Math.min(need, wide)));
  let [low, high] = [1, enough ? COLUMN.most : Math.max(...needs)];
  for (let i = 0; i < 24; i++) {
    const middle = (low + high) / 2;
    if (total(widths(middle)) <= free) low = middle;
    else high = middle;
  }
  return widths(low);
}

// The number of levels that the labels of the first row need.
export function levelsOf({ nodes, names }, starts, size) {
  const row = nodes.filter(({ y }) => y === 0);
  const end = Math.max(...row.map(({ x }) => x));
  const fits = (levels) => row.every(({ id, x }) => x + levels > end || starts[x] + LETTER.token * size * lettersOf(names.get(id)) + 10 <= starts[x + levels]);
  return Array.from({ length: LEVELS.most - 1 }, (_, i) => i + 1).find(fits) ?? LEVELS.most;
}

// Pixels for the token of a node, before the next node of its row and level; null if there is none.
export function spaceOf(node, { nodes, isBetween }, starts, levels) {
  if (node.y) return isBetween(node) ? starts[node.x + 1] - starts[node.x] - LETTER.mark : null;
  return nodes.some(({ x, y }) => y === 0 && x === node.x + levels) ? starts[node.x + levels] - starts[node.x] - 10 : null;
}

// `letters`: most characters of a node's name, with the mark of a fork.
export function namesOf(nodes, letters) {
  const names = distinctNames(nodes.map((node) => ({ key: node.id, token: node.token, text: node.text, limit: letters(node) - markOf(node).length })));
  return new Map(nodes.map((node) => [node.id, markOf(node) + names.get(node.id)]));
}

export const markOf = ({ fork }) => (fork ? FORK : "");

// Pixels of the label of a node, with or without its numbers; `lines`: these are in two lines below it.
function labelWidth(node, names, { size, small }, numbered, lines) {
  const numbers = numbered ? numbersOf(node) : "";
  if (lines) return Math.max(size * LETTER.token * lettersOf(names.get(node.id)), small * LETTER.number * longestLine(inLines(numbers)));
  return size * LETTER.token * (lettersOf(names.get(node.id)) + (numbers ? 1 : 0)) + small * LETTER.number * numbers.length;
}

// The numbers of a node in two lines, and the characters of the longest line of a text.
export const inLines = (numbers) => numbers.replace(" · ", "\n");
export const longestLine = (text) => Math.max(...text.split("\n").map((line) => line.length));

const PRIOR_SIGNS = { prior: "P", "draft-probability": "q" };

// The small numbers of a node: visit count, and prior P or draft probability q; number of folded nodes below it.
export function numbersOf({ visits, prior, priorTerm = "prior", folded }) {
  const parts = [visits === null ? null : `N ${Math.round(visits)}`, prior === null ? null : `${PRIOR_SIGNS[priorTerm]} ${prior.toFixed(2)}`, folded ? `+${folded}` : null];
  return parts.filter((value) => value !== null).join(" · ");
}
