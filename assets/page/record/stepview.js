// The step on screen as the cards show it: as recorded, before its verification while that is still to be predicted, and at a moment of
// its search. Draws nothing.

import { remembered } from "../core/store.js";
import { TARGET, column, targetToken, targetTokenKind } from "./record.js";
import { isFork } from "./entropy.js";
import { scoreText, searchedStep } from "./search.js";

// Returns a function that makes the view of a state, null without a step; `covered`: whether the verification is hidden.
//   run, header; at: the index of the step; recorded: the step as recorded; step: the step, without verdicts if it is covered; layout: that of its tree
//   searched: the step at the moment of the search that is shown, `step` if there is none
// Equal states give the same objects.
export function createStepView() {
  const hidden = remembered(unverified);
  const hiddenLayout = remembered(unverifiedLayout);
  const searched = remembered(searchedStep);
  return ({ race, run: at, step: index, moment }, covered) => {
    const run = race.runs[at];
    const recorded = run?.steps[index];
    if (!recorded) return null;
    const step = covered ? hidden(recorded) : recorded;
    const layout = covered ? hiddenLayout(recorded, run.layouts[index]) : run.layouts[index];
    const { header } = run;
    return { run, header, at: index, recorded, covered, step, layout, searched: moment === null ? step : searched(recorded, moment, header.method_settings) };
  };
}

// A node of the step at a moment of its search; the root while the node does not exist yet.
export function nodeIn(searched, node) {
  return searched.exists && (node < 0 || !searched.exists[node]) ? 0 : node;
}

// The node that is marked in all cards: the one below the pointer, else the selected one.
export function markedNode({ view, hover, node }) {
  return nodeIn(view.searched, hover ?? node);
}

// The step before its verification.
export function unverified(step) {
  const verdict = step.tree.parents.map((_, node) => (node ? "unverified" : "root"));
  return { ...step, exists: verdict.map(() => true), tree: { ...step.tree, verdict } };
}

// Layout of a tree without verdicts: the child with the highest weight continues its parent's row, whether it was accepted or not.
export function unverifiedLayout(step, layout) {
  const rows = new Map([[0, 0]]);
  let free = 0;
  const descend = (node) => {
    const shown = childrenOf(step.tree, node).filter((child) => layout.nodes.includes(child));
    for (const [i, child] of shown.entries()) {
      rows.set(child, i ? ++free : rows.get(node));
      descend(child);
    }
  };
  descend(0);
  return { ...layout, target: null, rows: free + 1, y: layout.nodes.map((node) => rows.get(node)) };
}

// Children of a node, by descending visit count, or by prior if visits are not counted.
export function childrenOf(tree, node) {
  const weight = (child) => column(tree, "visits")[child] || column(tree, "prior")[child] || 0;
  return tree.parents.flatMap((parent, child) => (parent === node ? [child] : [])).sort((a, b) => weight(b) - weight(a) || a - b);
}

// Data of the drawn nodes, one entry per node; the target's bonus or correction token is the last.
export function treeNodes(step, layout) {
  const { tree } = step;
  const nodes = layout.nodes.map((n, i) => ({
    hidden: step.exists ? !step.exists[n] : false,
    onTrail: step.trail ? step.trail.has(n) : false,
    id: n,
    parent: tree.parents[n],
    x: layout.x[i],
    y: layout.y[i],
    token: tree.tokens[n],
    text: tree.texts[n],
    verdict: tree.verdict[n],
    visits: column(tree, "visits")[n],
    prior: column(tree, "prior")[n],
    value: column(tree, "value")[n],
    exploration: column(tree, "exploration")[n],
    folded: layout.folded[i],
    fork: !step.exists && isFork(step.choices.find(({ node }) => node === n)),
    score: step.scores?.has(n) ? scoreText(step.scores.get(n)) : null,
  }));
  if (layout.target && !step.exists) {
    const [x, y] = layout.target;
    nodes.push({ id: TARGET, parent: step.path[step.path.length - 1], x, y, ...targetToken(step), verdict: targetTokenKind(step), visits: null, prior: null, value: null, exploration: null, folded: 0, score: null });
  }
  return nodes.filter((node) => !node.hidden);
}
