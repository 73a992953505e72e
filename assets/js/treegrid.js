// Where the nodes of a draft tree stand: pixels for its columns and rows, and room for its labels.

import { lettersOf, visible } from "./dom.js";

const ROW = 30; // height of a row in pixels: a score below a line, and the label of the next row
const COLUMN = { least: 92, most: 168 };
const MARGIN = { left: 20, right: 104, top: 30, bottom: 22 };
const LETTER = { token: 7.3, number: 6.1, mark: 18 }; // width of a letter of a label, of one of its numbers, of what stands before it
const LETTERS = { least: 7, most: 14 }; // of a label's token
const NUMBERS = 5; // letters of visits
const BESIDE = 34; // pixels of a column that no label takes

// Height that every tree of a lane fits in, so that the page does not jump from step to step.
export function tallest(lane) {
  return heightOf(Math.max(1, ...lane.layouts.map((layout) => layout.rows)));
}

function heightOf(rows) {
  return Math.max(64, MARGIN.top + MARGIN.bottom + ROW * (rows - 1));
}

// Columns as wide as the room allows, and behind the last one as much as its widest label takes.
export function geometry(room, layout, step) {
  const right = Math.max(MARGIN.right, ...lastLabels(layout, step));
  const wide = Math.max(COLUMN.least, Math.min(COLUMN.most, (room - MARGIN.left - right) / Math.max(1, layout.columns - 1)));
  const width = MARGIN.left + right + wide * (layout.columns - 1);
  const place = (node) => [MARGIN.left + node.x * wide, MARGIN.top + node.y * ROW];
  return { wide, place, width: Math.max(width, 260), height: heightOf(layout.rows) };
}

// Pixels from the middle to the end of the labels in the last column, with room for whatever numbers a search may show there.
function lastLabels({ nodes, x, own, columns }, { tree, texts }) {
  const numbers = tree.columns.visits ? NUMBERS : 0;
  const width = (text) => LETTER.mark + LETTER.token * (1 + lettersOf(visible(text, LETTERS.most)));
  const drafted = nodes.filter((_, i) => x[i] === columns - 1).map((node) => width(tree.texts[node]) + LETTER.number * numbers);
  return own && own[0] === columns - 1 ? [...drafted, width(texts[texts.length - 1])] : drafted;
}

// Letters of a label in columns so wide.
export function lettersFor(wide) {
  return Math.max(LETTERS.least, Math.min(LETTERS.most, Math.floor((wide - BESIDE) / LETTER.token)));
}

// What stands in small letters behind a node's token: visits, nodes that are folded below it.
export function numbersOf({ visits, folded }) {
  return [visits === null ? null : Math.round(visits), folded ? `+${folded}` : null].filter((value) => value !== null).join(" · ");
}
