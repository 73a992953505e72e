// What the cache of keys and values saves, counted from a lane's passes: tokens that were read, and pairs of tokens that
// attention compared, with the cache and without one. Pure numbers.

import { depthsOf } from "./paying.js";
import { last } from "./record.js";

export const LONGEST = 4096; // tokens of a text, up to which a lane's pace is continued

// Pairs in causal attention over `n` tokens that are read at once.
const causal = (n) => (n * (n + 1)) / 2;

// Totals after each pass: {length, kept: {tokens, pairs}, anew: {tokens, pairs}}; `length` is that of the text before the pass.
// With the cache a pass reads the draft, each node of which attends to the text, its ancestors and itself; without one, the text too.
export function counted(lane) {
  const start = lane.steps[0].position;
  let total = { length: start, kept: { tokens: start, pairs: causal(start) }, anew: { tokens: 0, pairs: 0 } };
  return lane.steps.map(({ position, tree }) => {
    total = after(total, passOf(position, tree.tokens.length, within(tree)));
    return total;
  });
}

// The same, continued behind the last of the counted rows at the lane's mean pace.
export function continued(lane, rows) {
  const passes = lane.steps.length;
  const mean = (of) => lane.steps.reduce((sum, step) => sum + of(step), 0) / passes;
  const [nodes, inside, pace] = [mean(({ tree }) => tree.tokens.length), mean(({ tree }) => within(tree)), mean(({ emitted }) => emitted.length)];
  const more = [last(rows)];
  while (last(more).length + pace <= LONGEST) more.push(after(last(more), passOf(last(more).length + pace, nodes, inside)));
  return more;
}

// How many times as much is read, and compared, without the cache.
export function times({ kept, anew }) {
  return { tokens: anew.tokens / kept.tokens, pairs: anew.pairs / kept.pairs };
}

// One pass over a draft behind `length` tokens.
function passOf(length, nodes, inside) {
  const pairs = nodes * length + inside;
  return { length, kept: { tokens: nodes, pairs }, anew: { tokens: length + nodes, pairs: causal(length) + pairs } };
}

function after(total, pass) {
  const sum = (which) => ({ tokens: total[which].tokens + pass[which].tokens, pairs: total[which].pairs + pass[which].pairs });
  return { length: pass.length, kept: sum("kept"), anew: sum("anew") };
}

// Pairs inside of a draft: every node with itself and its ancestors.
function within({ parents }) {
  return depthsOf(parents).reduce((sum, depth) => sum + depth + 1, 0);
}
