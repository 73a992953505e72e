// Rejected drafts in the texts of the runs, on demand: the draft tokens in place of which the target chose a correction token.

import { column, last, targetTokenKind } from "./record.js";

const MAX_TOKENS = 4; // rejected tokens that are shown

// The most probable path of rejected draft tokens after the last accepted node; [] if none were rejected there.
export function rejectedPath(step) {
  if (targetTokenKind(step) !== "correction") return [];
  const nodes = [];
  for (let node = bestChild(step.tree, last(step.path)); node !== null && nodes.length < MAX_TOKENS; node = bestChild(step.tree, node)) nodes.push(node);
  return nodes;
}

// The child with the most visits, or with the highest prior if visits are not counted, else the first.
function bestChild(tree, parent) {
  const weight = (node) => column(tree, "visits")[node] ?? column(tree, "prior")[node] ?? 0;
  const children = tree.parents.flatMap((above, node) => (above === parent ? [node] : []));
  return children.length ? children.reduce((best, node) => (weight(node) > weight(best) ? node : best)) : null;
}
