// Savings by the KV cache, computed from the forward passes of a run: tokens processed, and query-key pairs computed by attention,
// with the cache and without it. Pure numbers.

import { depthsOf, last } from "../../page/record/record.js";

export const MAX_LENGTH = 4096; // context length in tokens up to which a run is extrapolated

// Query-key pairs of causal attention over `n` tokens in one forward pass.
const causal = (n) => (n * (n + 1)) / 2;

// Totals after each forward pass: {length, cached: {tokens, pairs}, uncached: {tokens, pairs}}; `length` is the context length before it.
// With the cache, a forward pass processes the draft, and each node attends to the context, its ancestors and itself; without the cache
// it processes the whole context again.
export function measuredReads(run) {
  const start = run.steps[0].position;
  let total = { length: start, cached: { tokens: start, pairs: causal(start) }, uncached: { tokens: 0, pairs: 0 } };
  return run.steps.map(({ position, tree }) => {
    total = after(total, readsOf(position, tree.tokens.length, within(tree)));
    return total;
  });
}

// The same, extrapolated from the last row with the run's mean tokens per step.
export function extrapolated(run, rows) {
  const steps = run.steps.length;
  const mean = (of) => run.steps.reduce((sum, step) => sum + of(step), 0) / steps;
  const [nodes, inside, pace] = [mean(({ tree }) => tree.tokens.length), mean(({ tree }) => within(tree)), mean(({ emitted }) => emitted.length)];
  const more = [last(rows)];
  while (last(more).length + pace <= MAX_LENGTH) more.push(after(last(more), readsOf(last(more).length + pace, nodes, inside)));
  return more;
}

// How many times more tokens and pairs are computed without the cache.
export function ratios({ cached, uncached }) {
  return { tokens: uncached.tokens / cached.tokens, pairs: uncached.pairs / cached.pairs };
}

// Cost of one forward pass over a draft after `length` tokens.
function readsOf(length, nodes, inside) {
  const pairs = nodes * length + inside;
  return { length, cached: { tokens: nodes, pairs }, uncached: { tokens: length + nodes, pairs: causal(length) + pairs } };
}

function after(total, reads) {
  const sum = (which) => ({ tokens: total[which].tokens + reads[which].tokens, pairs: total[which].pairs + reads[which].pairs });
  return { length: reads.length, cached: sum("cached"), uncached: sum("uncached") };
}

// Query-key pairs within a draft: every node with itself and its ancestors.
function within({ parents }) {
  return depthsOf(parents).reduce((sum, depth) => sum + depth + 1, 0);
}
