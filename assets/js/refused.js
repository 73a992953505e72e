// Rejected drafts in the lanes' texts, on demand: what the draft would have written where the target wrote its own token.

import { column, last } from "./record.js";

const MOST = 4; // tokens that are shown of what was refused

// The path of the likeliest rejected tokens that hang from the end of the accepted path; [] where nothing was refused there.
export function refused(step) {
  if (last(step.origins) !== "target") return [];
  const nodes = [];
  for (let node = likeliest(step.tree, last(step.path)); node !== null && nodes.length < MOST; node = likeliest(step.tree, node)) nodes.push(node);
  return nodes;
}

// The child with most visits, or where none are counted of the highest prior, else the first.
function likeliest(tree, parent) {
  const weight = (node) => column(tree, "visits")[node] ?? column(tree, "prior")[node] ?? 0;
  const children = tree.parents.flatMap((above, node) => (above === parent ? [node] : []));
  return children.length ? children.reduce((best, node) => (weight(node) > weight(best) ? node : best)) : null;
}
