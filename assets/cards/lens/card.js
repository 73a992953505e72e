// The logit lens: what each layer would predict at the nodes of the accepted path, and from which layer on that is the target's choice.

import { el, probability, setText, visible } from "../../page/core/dom.js";
import { say, sentences } from "../../page/core/words.js";
import { offerExport, registerExport } from "../../page/export/exports.js";
import { renderColumns } from "../../page/plot/columns.js";

const LONGEST = 12; // characters of a token

export function mount({ part, subscribe }) {
  offerExport("lens", { group: "step", title: "lens.title", at: part("lens-card"), table: true });
  subscribe("frame", ({ race }) => [race], ({ race }) => showSubject(part("lens-card"), race));
  subscribe("quiet", ({ view }) => [view.recorded], ({ view }) => renderLens(part, view.recorded));
}

// A recorded race has a lens only if it is about it: the card is then open and the first one of its tab.
export function showSubject(card, { source, runs }) {
  const [was, is] = [card.dataset.subject === "true", source === "recorded" && runs.some(({ steps }) => steps.some(({ lens }) => lens))];
  card.dataset.subject = String(is);
  if (is !== was) card.open = is;
}

export function renderLens(part, { lens, choices, tree }) {
  registerExport("lens", { place: () => (lens ? part("lens-rows") : null), table: () => lensTable(lens, choices, tree) });
  if (!lens) return renderColumns(part, "lens", [], []);
  const heads = choices.map(({ node, text }) => `${visible(tree.texts[node], LONGEST)} → ${visible(text, LONGEST)}`);
  const layers = lens.layers.map((layer) => el("th", { scope: "row", text: lens.eagle.includes(layer) ? `${layer} ◂ EAGLE-3` : layer }));
  renderColumns(part, "lens", [say("lens.layer"), ...heads], [layers, ...lens.positions.map(cellsOf)]);
  setText(part("lens-text"), lensText(lens));
}

function cellsOf(position) {
  const { texts, probabilities, chosen, ranks } = position;
  const settled = settledAt(position);
  return texts.map((text, k) => {
    const [top, title] = [ranks[k] === 1 ? "✓" : `#${ranks[k]}`, say("lens.chosen", { rank: ranks[k], p: probability(chosen[k]) })];
    const cell = el("td", { class: `ax-heat-cell${k === settled ? " ax-changed" : ""}`, title }, el("code", { text: visible(text, LONGEST) }), el("span", { class: "ax-heat-value", text: ` ${probability(probabilities[k])} ${top}${k === settled ? " ▼" : ""}` }));
    cell.style.setProperty("--heat", `${Math.round(100 * probabilities[k])}%`);
    return cell;
  });
}

// The index of the first layer from which on the target's token is the most probable one up to the last layer; null if it is not.
function settledAt({ ranks }) {
  const first = ranks.findLastIndex((rank) => rank > 1) + 1;
  return first < ranks.length ? first : null;
}

// From which layer on that holds at more than half of the positions, else at how many after the last layer, and which layers EAGLE-3 reads.
export function lensText({ layers, eagle, positions }) {
  const known = positions.map(settledAt).filter((at) => at !== null).sort((a, b) => a - b);
  const end = layers.length - 1;
  const at = known[positions.length >> 1] ?? end;
  const values = { layer: layers[at], of: layers[end], part: known.filter((other) => other <= at).length, count: positions.length };
  return sentences(say("lens.from", values), say("lens.eagle", { layers: eagle.join(", ") }));
}

function lensTable({ layers, positions }, choices, tree) {
  const rows = positions.flatMap(({ tokens, texts, probabilities, chosen, ranks }, i) => layers.map((layer, k) => [i + 1, tree.texts[choices[i].node], layer, tokens[k], texts[k], probabilities[k], choices[i].token, choices[i].text, chosen[k], ranks[k]]));
  return [["place", "after", "layer", "token", "text", "probability", "chosen_token", "chosen_text", "chosen_probability", "chosen_rank"], ...rows];
}
