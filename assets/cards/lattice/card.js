// The lattice of head predictions, before and after rescoring.

import { el, namesById, probability, setText } from "../../page/core/dom.js";
import { say } from "../../page/core/words.js";
import { offerExport, registerExport } from "../../page/export/exports.js";
import { columnsOf, isRescored } from "./columns.js";

const MOST = 3; // tokens of a head

export function mount({ part, subscribe }) {
  offerExport("lattice", { group: "step", title: "lattice.title", at: part("lattice-card"), table: true });
  subscribe("quiet", ({ view }) => [view.recorded], ({ view: { recorded } }) => renderLattice(part, recorded.lattice ?? []));
}

export function renderLattice(part, lattice) {
  part("lattice-card").hidden = !lattice.length;
  registerExport("lattice", { place: () => (lattice.length ? part("lattice-rows") : null), table: () => latticeTable(lattice) });
  if (!lattice.length) return;
  const columns = columnsOf(lattice, MOST);
  setText(part("lattice-note"), say(isRescored(lattice) ? "lattice.rescored" : "lattice.heads"));
  part("lattice-head").replaceChildren(...columns.map((_, i) => el("th", { scope: "col", text: say("lattice.head", { head: i + 1 }) })));
  const shown = columns.flat();
  const names = namesById(shown.map(({ token }) => token), shown.map(({ text }) => text), 14);
  const rows = Math.max(...columns.map((column) => column.length));
  part("lattice-rows").replaceChildren(...Array.from({ length: rows }, (_, row) => el("tr", {}, ...columns.map((column) => cellOf(column[row], names)))));
}

// A token: a bar for the head's probability, a line for the one after rescoring, and both numbers.
function cellOf(one, names) {
  if (!one) return el("td", {});
  const { token, head, rescored, best } = one;
  const bar = el("i", { class: "ax-before" });
  bar.style.width = `${100 * Math.min(head, 1)}%`;
  const mark = rescored === null ? null : el("i", { class: "ax-after" });
  if (mark) mark.style.left = `${100 * Math.min(rescored, 1)}%`;
  const numbers = rescored === null ? probability(head) : say("lattice.change", { before: probability(head), after: probability(rescored) });
  return el("td", { "data-best": best && "true" }, el("div", { class: "ax-track", "aria-hidden": "true" }, bar, mark), el("code", { text: names.get(token) }), " ", el("span", { class: "ax-dim", text: numbers }));
}

function latticeTable(lattice) {
  const rows = lattice.flatMap(({ tokens, texts, heads, rescored }, i) => tokens.map((token, k) => [i + 1, k + 1, token, texts[k], heads[k], rescored[k] ?? null]));
  return [["head", "rank", "token", "text", "probability", "rescored"], ...rows];
}
