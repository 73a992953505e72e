// What a head that reads the target's hidden states stores of a step: one entry of its KV cache per new token.

import { count, el, setText } from "../../page/core/dom.js";
import { say } from "../../page/core/words.js";
import { offerExport, registerExport } from "../../page/export/exports.js";
import { learns } from "../../page/record/bigrams.js";
import { namesOfStep, slotsOf, targetTokenKind } from "../../page/record/record.js";

const LONGEST = 18; // characters of a token

export function mount({ part, subscribe }) {
  offerExport("features", { group: "step", title: "features.title", at: part("features-card"), table: true });
  subscribe("quiet", ({ view }) => [view.recorded], ({ view: { run, recorded, header } }) => renderFeatures(part, recorded, learns(run) ? null : header.method_settings.hidden_layers));
}

// `layers`: those whose hidden states the head reads, -1 the last one; the card is hidden without them.
export function renderFeatures(part, step, layers) {
  const reads = Array.isArray(layers); // a saved race may hold anything there
  registerExport("features", { place: () => (reads ? part("features-rows") : null), table: () => featuresTable(step) });
  part("features-card").hidden = !reads;
  if (!reads) return;
  setText(part("features-key"), say(layers.includes(-1) ? "features.last" : "features.layers", { layers: layers.join(", ") }));
  const names = namesOfStep(step, LONGEST);
  const kinds = step.origins.map((origin) => (origin === "draft" ? "accepted" : targetTokenKind(step)));
  const token = (id) => el("code", { text: names.get(id) });
  const row = ({ slot, at, next }, i) => el("tr", {}, el("td", { class: "ax-num", text: count(slot) }), el("td", {}, token(at)), el("td", {}, token(next), " ", el("span", { class: `ax-chip ax-chip-${kinds[i]}`, text: say(`chip.${kinds[i]}`) })));
  part("features-rows").replaceChildren(...entriesOf(step).map(row));
}

// {slot, node, at, next}: the entry's slot, the node of the path whose hidden states it is computed from, its token, and the token after it.
function entriesOf(step) {
  return slotsOf(step).kept.map(({ node, slot }, i) => ({ slot, node, at: step.tree.tokens[node], next: step.emitted[i] }));
}

function featuresTable(step) {
  return [["slot", "node", "token", "text", "next_token", "next_text"], ...entriesOf(step).map(({ slot, node, at, next }, i) => [slot, node, at, step.tree.texts[node], next, step.texts[i]])];
}
