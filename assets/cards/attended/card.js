// The slots of the target's KV cache to which GliDe's layer attended most when it drafted each token of the chain.

import { namesById, probability, visible } from "../../page/core/dom.js";
import { say } from "../../page/core/words.js";
import { offerExport, registerExport } from "../../page/export/exports.js";
import { renderColumns, shareCell } from "../../page/plot/columns.js";

const MOST = 4; // slots of a token

export function mount({ part, subscribe }) {
  offerExport("attended", { group: "step", title: "attended.title", at: part("attended-card"), table: true });
  subscribe("quiet", ({ view }) => [view.recorded], ({ view: { recorded } }) => renderAttended(part, recorded.attended ?? [], chainOf(recorded.tree)));
}

// The texts of the drafted chain: the first child of each node.
function chainOf({ parents, texts }) {
  const chain = [];
  for (let node = parents.indexOf(0); node > 0; node = parents.indexOf(node)) chain.push(texts[node]);
  return chain;
}

// `chain`: the drafted tokens as text; after the verified part of it the number of the token is its name.
export function renderAttended(part, attended, chain) {
  registerExport("attended", { place: () => (attended.length ? part("attended-rows") : null), table: () => attendedTable(attended) });
  const names = namesById(attended.flatMap(({ tokens }) => tokens), attended.flatMap(({ texts }) => texts), 14);
  const most = Math.max(...attended.flatMap(({ weights }) => weights));
  const cells = ({ positions, tokens, weights }) => tokens.slice(0, MOST).map((token, i) => shareCell(weights[i] / most, names.get(token), say("attended.slot", { slot: positions[i], weight: probability(weights[i]) })));
  renderColumns(part, "attended", attended.map((_, i) => (i < chain.length ? visible(chain[i]) : say("attended.token", { number: i + 1 }))), attended.map(cells));
}

function attendedTable(attended) {
  const rows = attended.flatMap(({ positions, tokens, texts, weights }, i) => tokens.map((token, k) => [i + 1, positions[k], token, texts[k], weights[k]]));
  return [["drafted token", "slot", "token", "text", "attention weight"], ...rows];
}
