// Pixel positions of the nodes of a draft tree, with space for labels.

import { lettersOf, visible } from "./dom.js";

const ROW = 30; // height of a row in pixels: a score below an edge, and the label of the next row
const COLUMN = { least: 92, most: 168 };
const MARGIN = { left: 20, right: 104, top: 30, bottom: 22 };
const LETTER = { token: 7.3, number: 6.1, mark: 18 }; // widths in pixels of a character of a token, of a number, and of the space before a label
const LETTERS = { least: 7, most: 14 }; // characters of a label's token
const NUMBERS = 5; // characters of a visit count
const BESIDE = 34; // pixels of a column that are not available for its label

// A height that fits every tree of a run, so that the page does not jump from step to step.
export function tallest(run) {
  return heightOf(Math.max(1, ...run.layouts.map((layout) => layout.rows)));
}

function heightOf(rows) {
  return Math.max(64, MARGIN.top + MARGIN.bottom + ROW * (rows - 1));
}

// Columns fill the available width; the space after the last column fits its widest label.
export function geometry(available, layout, step) {
  const right = Math.max(MARGIN.right, ...lastLabels(layout, step));
  const wide = Math.max(COLUMN.least, Math.min(COLUMN.most, (available - MARGIN.left - right) / Math.max(1, layout.columns - 1)));
  const width = MARGIN.left + right + wide * (layout.columns - 1);
  const place = (node) => [MARGIN.left + node.x * wide, MARGIN.top + node.y * ROW];
  return { wide, place, width: Math.max(width, 260), height: heightOf(layout.rows) };
}

// Pixels from the node to the end of each label in the last column, with space for the numbers of a search.
function lastLabels({ nodes, x, target, columns }, { tree, texts }) {
  const numbers = tree.columns.visits ? NUMBERS : 0;
  const width = (text) => LETTER.mark + LETTER.token * (1 + lettersOf(visible(text, LETTERS.most)));
  const drafted = nodes.filter((_, i) => x[i] === columns - 1).map((node) => width(tree.texts[node]) + LETTER.number * numbers);
  return target && target[0] === columns - 1 ? [...drafted, width(texts[texts.length - 1])] : drafted;
}

// Number of characters of a label in columns of this width.
export function lettersFor(wide) {
  return Math.max(LETTERS.least, Math.min(LETTERS.most, Math.floor((wide - BESIDE) / LETTER.token)));
}

// The small numbers after a node's token: visit count, number of folded nodes below it.
export function numbersOf({ visits, folded }) {
  return [visits === null ? null : Math.round(visits), folded ? `+${folded}` : null].filter((value) => value !== null).join(" · ");
}
