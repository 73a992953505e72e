// A table of columns of different length, one cell per token, in cards below the draft tree.

import { el } from "../core/dom.js";

// `columns` are lists of cells, or empty to hide the card; `headings`: one per column.
export function renderColumns(part, card, headings, columns) {
  part(`${card}-card`).hidden = !columns.length;
  part(`${card}-head`).replaceChildren(...headings.map((text) => el("th", { scope: "col", text })));
  const rows = Math.max(0, ...columns.map((cells) => cells.length));
  part(`${card}-rows`).replaceChildren(...Array.from({ length: rows }, (_, row) => el("tr", {}, ...columns.map((cells) => cells[row] ?? el("td", {})))));
}

// A token with a bar for a share of at most 1, a line for a second one unless it is null, and numbers.
export function shareCell(share, name, numbers, { line = null, ...attributes } = {}) {
  const bar = el("i", { class: "ax-before" });
  bar.style.width = `${100 * Math.min(share, 1)}%`;
  const mark = line === null ? null : el("i", { class: "ax-after" });
  if (mark) mark.style.left = `${100 * Math.min(line, 1)}%`;
  return el("td", attributes, el("div", { class: "ax-track", "aria-hidden": "true" }, bar, mark), el("code", { text: name }), " ", el("span", { class: "ax-dim", text: numbers }));
}
