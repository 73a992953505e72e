// Throughput by draft depth: expected tokens per step, cost of the step, and the depth from which drafting is slower. Pure numbers.

import { acceptanceRate, depthsOf, last } from "./record.js";

export const MAX_DEPTH = 24; // maximum draft depth that is evaluated

// Expected tokens per step (bonus or correction token included) for drafts of `depth` tokens per path, each accepted with probability
// alpha (Leviathan et al., arXiv 2211.17192, equation 1).
export function expectedTokens(alpha, depth) {
  return alpha < 1 ? (1 - alpha ** (depth + 1)) / (1 - alpha) : depth + 1;
}

// Depth of a draft tree.
export function depthOf({ parents }) {
  return Math.max(...depthsOf(parents));
}

// Statistics of a run's drafts; null if it drafted nothing.
//   alpha: acceptance rate over the draft positions that the walk reached; nodesPerDepth: mean number of nodes per depth
//   overhead: mean seconds per step besides the forward pass, of a draft model without its own; perDepth: seconds of a draft model per
//   depth, 0 for other methods, whose draft takes as long for any depth; points: {depth, steps, tokens}, mean tokens per step by draft depth
export function measured(run) {
  const drafted = run.steps.filter((step) => step.tree.tokens.length > 1);
  if (!drafted.length) return null;
  const depths = drafted.map((step) => depthOf(step.tree));
  const draft = sum(drafted.map(({ seconds }) => seconds.draft));
  const others = sum(drafted.map(({ seconds }) => seconds.commit + seconds.update));
  const byDepth = hasDraftModel(run);
  return {
    alpha: acceptanceRate(drafted),
    nodesPerDepth: sum(drafted.map((step) => step.tree.tokens.length - 1)) / sum(depths),
    overhead: (others + (byDepth ? 0 : draft)) / drafted.length,
    perDepth: byDepth ? draft / sum(depths) : 0,
    points: meansBy(drafted, depths),
  };
}

function hasDraftModel({ header }) {
  const settings = header?.method_settings ?? {};
  return "draft_model" in settings || "draft_models" in settings;
}

function meansBy(steps, depths) {
  const groups = new Map();
  for (const [i, step] of steps.entries()) groups.set(depths[i], [...(groups.get(depths[i]) || []), step.emitted.length]);
  return [...groups].sort(([a], [b]) => a - b).map(([depth, counts]) => ({ depth, steps: counts.length, tokens: sum(counts) / counts.length }));
}

function sum(list) {
  return list.reduce((total, value) => total + value, 0);
}

// Seconds of a forward pass by number of nodes at a context length, from the measured costs (`aded.engine.cost_model.StepCost`).
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

// Mean seconds of a race's forward passes by number of nodes: {nodes, count, seconds}.
export function forwardPasses(race) {
  const groups = new Map();
  for (const { tree, seconds } of race.runs.flatMap((run) => run.steps)) {
    const nodes = tree.tokens.length;
    groups.set(nodes, [...(groups.get(nodes) || []), seconds.verify]);
  }
  return [...groups].sort(([a], [b]) => a - b).map(([nodes, all]) => ({ nodes, count: all.length, seconds: sum(all) / all.length }));
}

// A fit of the race's own forward passes by a straight line that never falls; used if no costs were measured.
export function fittedCost(points) {
  const weight = sum(points.map((p) => p.count));
  const mean = (of) => sum(points.map((p) => p.count * of(p))) / weight;
  const [x, y] = [mean((p) => p.nodes), mean((p) => p.seconds)];
  const wide = mean((p) => (p.nodes - x) ** 2);
  const slope = wide ? Math.max(0, mean((p) => (p.nodes - x) * (p.seconds - y)) / wide) : 0;
  return (nodes) => Math.max(1e-9, y + slope * (nodes - x));
}

// The largest number of nodes whose cost was measured: on the machine, else in the race's own forward passes.
export function measuredNodes(known, points) {
  return known ? last(known.sizes) : last(points).nodes;
}

// The largest depth that is not extrapolated: the race had such a draft, and the cost of its nodes was measured.
export function measuredDepth({ points }, table, nodes) {
  const priced = table.findLast((row) => row.nodes <= nodes);
  return Math.min(last(points).depth, priced?.depth ?? 0);
}

// One row per depth: expected tokens, nodes and seconds of a step, and the speed-up over plain decoding.
export function throughputTable({ alpha, nodesPerDepth, overhead, perDepth = 0 }, cost) {
  return Array.from({ length: MAX_DEPTH + 1 }, (_, depth) => {
    const nodes = 1 + nodesPerDepth * depth;
    const tokens = expectedTokens(alpha, depth);
    const seconds = cost(nodes) + (depth ? overhead : 0) + perDepth * depth;
    return { depth, tokens, nodes, seconds, ratio: (tokens * cost(1)) / seconds };
  });
}

// The depth with the highest throughput, and the first depth beyond it that is slower than plain decoding (null if there is none).
export function optimum(table) {
  const best = table.reduce((a, b) => (b.depth > 0 && (a.depth === 0 || b.ratio > a.ratio) ? b : a), table[0]);
  const slower = table.find((row) => row.depth > best.depth && row.ratio < 1);
  return { best, slower: slower ? slower.depth : null };
}
