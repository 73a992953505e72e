// Rows of the matrix that changed in most steps so far, as a heat map: one line per bigram with its successors.

import { el, small, visible } from "../../page/core/dom.js";
import { offerExport, registerExport } from "../../page/export/exports.js";
import { bigramButton, busiest, learns, selectedRow, successors } from "../../page/record/bigrams.js";
import { say } from "../../page/core/words.js";

const ROWS = 10;
const COLUMNS = 8;

export function mount({ part, player, subscribe }) {
  offerExport("heat", { group: "matrix", title: "heat.title", at: part("heat-rows"), picture: true, table: true });
  subscribe("slow", ({ view, bigram }) => [learns(view.run), view.recorded, bigram], ({ view: { run, at }, bigram }) => {
    part("heat-card").hidden = !learns(run);
    if (!learns(run)) return;
    const { rows, name } = selectedRow(run.steps, at, bigram);
    renderHeatmap(part, rows, name, player.selectBigram);
  });
}

function renderHeatmap(part, rows, chosen, choose) {
  const lines = busiest(rows, ROWS);
  part("heat-head").replaceChildren(...headings());
  part("heat-rows").replaceChildren(...lines.map((line) => heatRow(line, chosen, choose)));
  const table = part("heat-rows").parentElement;
  registerExport("heat", { place: () => table, picture: () => [table, part("heat-key")], table: () => heatTable(lines) });
}

function heatTable(lines) {
  const rows = lines.flatMap((line) =>
    successors(line)
      .slice(0, COLUMNS)
      .map(({ token, text, weight, change }, i) => [line.row.key_texts.join(""), ...line.row.key, line.changes, i + 1, token, text, weight, change]),
  );
  return [["bigram", "first", "second", "steps", "place", "token", "text", "weight", "change"], ...rows];
}

function headings() {
  const ranks = Array.from({ length: COLUMNS }, (_, i) => el("th", { scope: "col", text: String(i + 1) }));
  return [el("th", { scope: "col", text: say("heat.bigram") }), el("th", { scope: "col", text: say("heat.changes") }), ...ranks];
}

function heatRow(line, chosen, choose) {
  const { name, row, changes, now } = line;
  const head = el("th", { scope: "row" }, bigramButton({ name, texts: row.key_texts, known: true }, choose));
  const shown = successors(line).slice(0, COLUMNS);
  const cells = Array.from({ length: COLUMNS }, (_, i) => heatCell(shown[i]));
  const classes = [name === chosen ? "ax-picked" : "", now ? "ax-touched" : ""].filter(Boolean).join(" ");
  return el("tr", { class: classes || null }, head, el("td", { class: "ax-num", text: String(changes) }), ...cells);
}

function heatCell(successor) {
  if (!successor) return el("td", { class: "ax-heat-cell" });
  const { text, weight, change } = successor;
  const mark = change ? el("span", { class: change > 0 ? "ax-up" : "ax-down", "aria-label": say(change > 0 ? "heat.up" : "heat.down"), role: "img", text: change > 0 ? "▲" : "▼" }) : null;
  const cell = el("td", { class: change ? "ax-heat-cell ax-changed" : "ax-heat-cell" }, el("code", { text: visible(text, 10) }), el("span", { class: "ax-heat-value" }, small(weight), mark));
  cell.style.setProperty("--heat", `${Math.round(100 * Math.sqrt(Math.min(1, weight)))}%`);
  return cell;
}
