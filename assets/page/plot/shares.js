// Bars of probabilities in a cell of a table.

import { el } from "../core/dom.js";

// `of`: the target's p, the draft's q and the residual probability, as far as they are known; what w·p has more of than q is framed, with the weight
// w of a prefix in block verification and else 1. `top`: the probability that fills the width.
export function shares(of, top) {
  const bar = (name, value, from = 0) => {
    const made = el("i", { class: `ax-share-${name}` });
    made.style.width = `${(100 * value) / top}%`;
    made.style.marginLeft = `${(100 * from) / top}%`;
    return made;
  };
  const known = ["p", "q", "residual"].filter((name) => (of[name] ?? null) !== null).map((name) => bar(name, of[name]));
  const excess = (of.w ?? 1) * of.p - (of.q ?? Infinity);
  if (excess > 0) known.splice(2, 0, bar("excess", excess, of.q));
  return el("div", { class: "ax-share-bars", "aria-hidden": "true" }, ...known);
}
