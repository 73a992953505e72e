// Bars of probabilities in a cell of a table.

import { el } from "../core/dom.js";

// `of`: the target's p, the draft's q and the residual probability, as far as they are known; what p has more of than q is framed. `top`: the
// probability that fills the width.
export function shares(of, top) {
  const bar = (name, value, from = 0) => {
    const made = el("i", { class: `ax-share-${name}` });
    made.style.width = `${(100 * value) / top}%`;
    made.style.marginLeft = `${(100 * from) / top}%`;
    return made;
  };
  const known = ["p", "q", "residual"].filter((name) => (of[name] ?? null) !== null).map((name) => bar(name, of[name]));
  if ((of.q ?? null) !== null && of.p > of.q) known.splice(2, 0, bar("excess", of.p - of.q, of.q));
  return el("div", { class: "ax-share-bars", "aria-hidden": "true" }, ...known);
}
