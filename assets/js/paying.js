// Where drafting pays: what a step is expected to bring, what it costs, and where the one no longer outweighs the other. Pure numbers.

import { last } from "./record.js";

export const DEEPEST = 24; // levels of a draft that are looked at

// Tokens that a step is expected to write with a draft of `depth` levels, each accepted with probability alpha
// (Leviathan et al., arXiv 2211.17192, equation 1).
export function expectedTokens(alpha, depth) {
  return alpha < 1 ? (1 - alpha ** (depth + 1)) / (1 - alpha) : depth + 1;
}

// Depth of every node, its root's being 0.
export function depthsOf(parents) {
  const depths = [];
  for (const parent of parents) depths.push(parent < 0 ? 0 : depths[parent] + 1);
  return depths;
}

// Levels of a draft below its root.
export function depthOf({ parents }) {
  return Math.max(...depthsOf(parents));
}

// What a lane's record says of its drafts; null where nothing was drafted.
//   alpha: share of accepted among the levels that the target stood before; spread: nodes of a level, on average;
//   host: seconds a step beside the pass; points: {depth, steps, tokens}, mean tokens by depth of the draft.
export function measured(lane) {
  const drafted = lane.steps.filter((step) => step.tree.tokens.length > 1);
  if (!drafted.length) return null;
  const levels = drafted.map((step) => depthOf(step.tree));
  const accepted = sum(drafted.map((step) => step.path.length - 1));
  const refused = drafted.filter(wasRefused).length;
  return {
    alpha: accepted / Math.max(1, accepted + refused),
    spread: sum(drafted.map((step) => step.tree.tokens.length - 1)) / sum(levels),
    host: sum(drafted.map(({ seconds }) => seconds.draft + seconds.commit + seconds.update)) / drafted.length,
    points: meansBy(drafted, levels),
  };
}

// Whether the walk ended before something drafted, and not at a leaf or at the end of the text.
function wasRefused(step) {
  return last(step.origins) === "target" && step.tree.parents.includes(last(step.path));
}

function meansBy(steps, levels) {
  const groups = new Map();
  for (const [i, step] of steps.entries()) groups.set(levels[i], [...(groups.get(levels[i]) || []), step.emitted.length]);
  return [...groups].sort(([a], [b]) => a - b).map(([depth, counts]) => ({ depth, steps: counts.length, tokens: sum(counts) / counts.length }));
}

function sum(list) {
  return list.reduce((total, value) => total + value, 0);
}

// Seconds of a pass by its nodes, as `aded.drafters.tree_budget.StepCost` was measured, over `context` tokens.
export function machineCost({ sizes, contexts, seconds, padded }, context) {
  const share = contexts.length > 1 ? Math.max(0, (context - contexts[0]) / (contexts[1] - contexts[0])) : 0;
  const at = seconds[0].map((first, i) => (share ? first + share * (seconds[1][i] - first) : first));
  for (const i of at.keys()) at[i] = Math.max(at[i], i ? at[i - 1] : 0);
  return (nodes) => {
    const next = sizes.findIndex((size) => size >= nodes);
    if (padded || next === 0) return next < 0 ? last(at) : at[next];
    const right = next < 0 ? sizes.length - 1 : next;
    const slope = right ? (at[right] - at[right - 1]) / (sizes[right] - sizes[right - 1]) : 0;
    return at[right] + slope * (nodes - sizes[right]);
  };
}

// Mean seconds of a race's passes by their nodes: {nodes, passes, seconds}.
export function passes(race) {
  const groups = new Map();
  for (const { tree, seconds } of race.lanes.flatMap((lane) => lane.steps)) {
    const nodes = tree.tokens.length;
    groups.set(nodes, [...(groups.get(nodes) || []), seconds.verify]);
  }
  return [...groups].sort(([a], [b]) => a - b).map(([nodes, all]) => ({ nodes, passes: all.length, seconds: sum(all) / all.length }));
}

// The straight line nearest to a race's passes, never falling: what a pass costs where no machine was asked.
export function fittedCost(points) {
  const weight = sum(points.map((p) => p.passes));
  const mean = (of) => sum(points.map((p) => p.passes * of(p))) / weight;
  const [x, y] = [mean((p) => p.nodes), mean((p) => p.seconds)];
  const wide = mean((p) => (p.nodes - x) ** 2);
  const slope = wide ? Math.max(0, mean((p) => (p.nodes - x) * (p.seconds - y)) / wide) : 0;
  return (nodes) => Math.max(1e-9, y + slope * (nodes - x));
}

// One row a depth: expected tokens, nodes and seconds of the step, and its speed as a multiple of plain decoding.
export function payingTable({ alpha, spread, host }, cost) {
  return Array.from({ length: DEEPEST + 1 }, (_, depth) => {
    const nodes = 1 + spread * depth;
    const tokens = expectedTokens(alpha, depth);
    const seconds = cost(nodes) + (depth ? host : 0);
    return { depth, tokens, nodes, seconds, ratio: (tokens * cost(1)) / seconds };
  });
}

// The depth of the highest speed, and the first one behind it that is slower than no draft; null where none is.
export function limits(table) {
  const best = table.reduce((a, b) => (b.depth > 0 && (a.depth === 0 || b.ratio > a.ratio) ? b : a), table[0]);
  const stops = table.find((row) => row.depth > best.depth && row.ratio < 1);
  return { best, stops: stops ? stops.depth : null };
}
