// The pool of phrases: those that begin with the token at which they continue the draft, latest first.

import { el, setText, visible } from "../../page/core/dom.js";
import { say, sentences } from "../../page/core/words.js";
import { offerExport, registerExport } from "../../page/export/exports.js";

const MOST = 20; // phrases

export function mount({ part, subscribe }) {
  offerExport("pool", { group: "step", title: "pool.title", at: part("pool-card"), table: true });
  subscribe("quiet", ({ view }) => [view.recorded], ({ view: { recorded } }) => renderPool(part, recorded.pool ?? null));
}

export function renderPool(part, pool) {
  part("pool-card").hidden = !pool;
  registerExport("pool", { place: () => pool && part("pool-phrases"), table: () => poolTable(pool) });
  if (!pool) return;
  const hidden = Math.max(0, pool.phrases.length - MOST);
  const values = { count: pool.size, token: visible(pool.text), known: pool.phrases.length, drafted: pool.drafted };
  setText(part("pool-note"), sentences(say("pool.sizes", values), hidden ? say("pool.hidden", { count: hidden }) : ""));
  part("pool-phrases").replaceChildren(...pool.texts.slice(0, MOST).map((texts, i) => phrase(pool.text, texts, i < pool.drafted)));
}

function phrase(first, texts, drafted) {
  const spoken = drafted ? el("span", { class: "ax-sr", text: say("pool.drafted") }) : null;
  return el("li", { "data-drafted": String(drafted) }, el("code", { text: [first, ...texts].map((text) => visible(text)).join(" ") }), spoken);
}

function poolTable({ token, text, phrases, texts, drafted }) {
  const rows = phrases.map((tokens, i) => [i + 1, String(i < drafted), [token, ...tokens].join(" "), [text, ...texts[i]].join("")]);
  return [["phrase", "drafted", "tokens", "text"], ...rows];
}
