// The slots of the target's KV cache to which GliDe's layer attended most when it drafted each token of the chain.

import { namesById, probability } from "../../page/core/dom.js";
import { say } from "../../page/core/words.js";
import { offerExport, registerExport } from "../../page/export/exports.js";
import { renderColumns, shareCell } from "../../page/plot/columns.js";

const MOST = 4; // slots of a token

export function mount({ part, subscribe }) {
  offerExport("attended", { group: "step", title: "attended.title", at: part("attended-card"), table: true });
  subscribe("quiet", ({ view }) => [view.recorded], ({ view: { recorded } }) => renderAttended(part, recorded.attended ?? []));
}

export function renderAttended(part, attended) {
  registerExport("attended", { place: () => (attended.length ? part("attended-rows") : null), table: () => attendedTable(attended) });
  const names = namesById(attended.flatMap(({ tokens }) => tokens), attended.flatMap(({ texts }) => texts), 14);
  const cells = ({ positions, tokens, weights }) => tokens.slice(0, MOST).map((token, i) => shareCell(weights[i], names.get(token), say("attended.slot", { slot: positions[i], weight: probability(weights[i]) })));
  renderColumns(part, "attended", attended.map((_, i) => say("attended.token", { number: i + 1 })), attended.map(cells));
}

function attendedTable(attended) {
  const rows = attended.flatMap(({ positions, tokens, texts, weights }, i) => tokens.map((token, k) => [i + 1, positions[k], token, texts[k], weights[k]]));
  return [["drafted token", "slot", "token", "text", "attention weight"], ...rows];
}
