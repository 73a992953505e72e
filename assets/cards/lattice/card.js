// The lattice of head predictions, before and after rescoring.

import { namesById, probability, setText } from "../../page/core/dom.js";
import { say } from "../../page/core/words.js";
import { offerExport, registerExport } from "../../page/export/exports.js";
import { renderColumns, shareCell } from "../../page/plot/columns.js";
import { columnsOf, isRescored } from "./columns.js";

const MOST = 3; // tokens of a head

export function mount({ part, subscribe }) {
  offerExport("lattice", { group: "step", title: "lattice.title", at: part("lattice-card"), table: true });
  subscribe("quiet", ({ view }) => [view.recorded], ({ view: { recorded } }) => renderLattice(part, recorded.lattice ?? []));
}

export function renderLattice(part, lattice) {
  registerExport("lattice", { place: () => (lattice.length ? part("lattice-rows") : null), table: () => latticeTable(lattice) });
  const columns = columnsOf(lattice, MOST);
  setText(part("lattice-note"), say(isRescored(lattice) ? "lattice.rescored" : "lattice.heads"));
  const shown = columns.flat();
  const names = namesById(shown.map(({ token }) => token), shown.map(({ text }) => text), 14);
  renderColumns(part, "lattice", columns.map((_, i) => say("lattice.head", { head: i + 1 })), columns.map((column) => column.map((one) => cellOf(one, names))));
}

// A bar for the head's probability, a line for the one after rescoring, and both numbers.
function cellOf({ token, head, rescored, best }, names) {
  const numbers = rescored === null ? probability(head) : say("lattice.change", { before: probability(head), after: probability(rescored) });
  return shareCell(head, names.get(token), numbers, { line: rescored, "data-best": best && "true" });
}

function latticeTable(lattice) {
  const rows = lattice.flatMap(({ tokens, texts, heads, rescored }, i) => tokens.map((token, k) => [i + 1, k + 1, token, texts[k], heads[k], rescored[k] ?? null]));
  return [["head", "rank", "token", "text", "probability", "rescored"], ...rows];
}
