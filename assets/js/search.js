// The search that made a draft, simulation by simulation: what had been visited after the first k of them.

import { visible } from "./dom.js";

// A copy of the step as the search saw it after `k` simulations: its own counts and means, no verdicts yet.
export function searchedStep(step, k) {
  const n = step.tree.tokens.length;
  const visits = new Array(n).fill(0);
  const rewards = new Array(n).fill(0);
  const open = new Set([0]);
  for (const simulation of step.simulations.slice(0, k)) {
    for (const node of trail(simulation)) {
      visits[node] += 1;
      rewards[node] += simulation.reward;
    }
    if (simulation.expanded >= 0) open.add(simulation.expanded);
  }
  const value = visits.map((count, i) => (count ? rewards[i] / count : null));
  const exists = step.tree.parents.map((parent, node) => node === 0 || (k > 0 && open.has(parent) && parent >= 0));
  const columns = { prior: step.tree.columns.prior || new Array(n).fill(null), visits, value };
  const tree = { ...step.tree, columns, verdict: visits.map((count, node) => (node ? (count ? "searched" : "opened") : "root")) };
  return { ...step, tree, exists, trail: new Set(k ? trail(step.simulations[k - 1]) : []) };
}

// Whether the simulations account for every visit on record; a draft that was cut afterwards has lost some.
export function canReplay(step) {
  const recorded = step.tree.columns.visits;
  if (!step.simulations.length || !recorded) return false;
  const counted = searchedStep(step, step.simulations.length).tree.columns.visits;
  return counted.length === recorded.length && counted.every((count, i) => count === (recorded[i] || 0));
}

// The nodes of one simulation that are part of the draft, each once.
function trail({ selected, expanded }) {
  return [...new Set([...selected, expanded])].filter((node) => node >= 0);
}

export function searchText(step, k) {
  const total = step.simulations.length;
  if (k === null || k >= total) return `all ${total} simulations; then the target's verdict`;
  if (k === 0) return "before the first simulation: the root alone";
  const simulation = step.simulations[k - 1];
  const names = trail(simulation).map((node) => visible(step.tree.texts[node], 12));
  const outside = simulation.selected.includes(-1) || simulation.expanded < 0 ? " › one outside the draft" : "";
  return `simulation ${k} of ${total}: ${names.join(" › ")}${outside}, reward ${simulation.reward.toFixed(3)}`;
}
