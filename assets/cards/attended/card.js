// The slots of the target's KV cache to which GliDe's head attended most when it drafted each token of the chain.

import { el, namesById, probability } from "../../page/core/dom.js";
import { say } from "../../page/core/words.js";
import { offerExport, registerExport } from "../../page/export/exports.js";

const MOST = 4; // slots of a token

export function mount({ part, subscribe }) {
  offerExport("attended", { group: "step", title: "attended.title", at: part("attended-card"), table: true });
  subscribe("quiet", ({ view }) => [view.recorded], ({ view: { recorded } }) => renderAttended(part, recorded.attended ?? []));
}

export function renderAttended(part, attended) {
  part("attended-card").hidden = !attended.length;
  registerExport("attended", { place: () => (attended.length ? part("attended-rows") : null), table: () => attendedTable(attended) });
  if (!attended.length) return;
  const names = namesById(attended.flatMap(({ tokens }) => tokens), attended.flatMap(({ texts }) => texts), 14);
  part("attended-head").replaceChildren(...attended.map((_, i) => el("th", { scope: "col", text: say("attended.token", { number: i + 1 }) })));
  const rows = Math.min(MOST, Math.max(...attended.map(({ tokens }) => tokens.length)));
  part("attended-rows").replaceChildren(...Array.from({ length: rows }, (_, row) => el("tr", {}, ...attended.map((one) => cellOf(one, row, names)))));
}

// A slot: a bar for its attention weight, its token, its position and the weight.
function cellOf({ positions, tokens, weights }, row, names) {
  if (row >= tokens.length) return el("td", {});
  const bar = el("i", { class: "ax-before" });
  bar.style.width = `${100 * Math.min(weights[row], 1)}%`;
  const numbers = say("attended.slot", { slot: positions[row], weight: probability(weights[row]) });
  return el("td", {}, el("div", { class: "ax-track", "aria-hidden": "true" }, bar), el("code", { text: names.get(tokens[row]) }), " ", el("span", { class: "ax-dim", text: numbers }));
}

function attendedTable(attended) {
  const rows = attended.flatMap(({ positions, tokens, texts, weights }, i) => tokens.map((token, k) => [i + 1, positions[k], token, texts[k], weights[k]]));
  return [["drafted token", "slot", "token", "text", "attention weight"], ...rows];
}
