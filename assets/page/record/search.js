// The tree search of a draft, simulation by simulation, in four phases each. A moment is a number of phases since the start.

import { column } from "./record.js";
import { small, visible } from "../core/dom.js";
import { choice, runLabel } from "./enginetext.js";
import { say, keysOf } from "../core/words.js";

export const PHASES = ["selection", "expansion", "reward", "backup"];

export function moments(step) {
  return PHASES.length * step.simulations.length;
}

// The simulation of a moment (0: none has started) and the index of its phase.
export function phaseAt(moment) {
  const k = Math.ceil(moment / PHASES.length);
  return { k, phase: k ? moment - PHASES.length * (k - 1) - 1 : -1 };
}

// A copy of the step with the state of the search at a moment: visit counts, mean values and scores, no verdicts.
export function searchedStep(step, moment, settings) {
  const { k, phase } = phaseAt(moment);
  const counted = phase === PHASES.length - 1 ? k : Math.max(0, k - 1);
  const visited = (simulation) => trail(simulation, step, settings);
  const { visits, rewards } = tally(step, counted, visited);
  const open = new Set(step.simulations.slice(0, phase > 0 ? k : counted).map((s) => s.expanded));
  const value = visits.map((count, i) => (count ? rewards[i] / count : null));
  const columns = { prior: column(step.tree, "prior"), visits, value };
  const exists = step.tree.parents.map((parent, node) => node === 0 || open.has(parent));
  const verdict = visits.map((count, node) => (node ? (count ? "searched" : "opened") : "root"));
  const now = k ? step.simulations[k - 1] : null;
  const shown = now ? (phase < 2 ? kept(now.selected) : visited(now)) : [];
  const tree = { ...step.tree, columns, verdict };
  columns.score = scores(tree, exists, settings);
  return { ...step, tree, exists, trail: new Set(shown), scores: decisive(columns.score, tree, shown) };
}

function tally(step, count, visited) {
  const visits = new Array(step.tree.tokens.length).fill(0);
  const rewards = [...visits];
  for (const simulation of step.simulations.slice(0, count)) {
    for (const node of visited(simulation)) {
      visits[node] += 1;
      rewards[node] += simulation.reward;
    }
  }
  return { visits, rewards };
}

// Whether the simulations explain all recorded visit counts; a draft that was pruned later may have lost some.
export function canReplay(step, settings) {
  const recorded = column(step.tree, "visits");
  if (!step.simulations.length) return false;
  const { visits } = tally(step, step.simulations.length, (simulation) => trail(simulation, step, settings));
  return visits.every((count, node) => count === (recorded[node] || 0));
}

// The nodes of the draft whose visit counts a simulation increases, each once. The published search continues its rollout from the
// first child of the expanded node, so this child is counted too.
export function trail({ selected, expanded }, step, settings) {
  const nodes = [...new Set([...kept(selected), ...kept([expanded])])];
  const { parents } = step.tree;
  if (settings.preset !== "paper" || expanded < 0 || depthOf(parents, expanded) >= settings.depth - 1) return nodes;
  const first = parents.indexOf(expanded);
  return first < 0 ? nodes : [...nodes, first];
}

function kept(nodes) {
  return nodes.filter((node) => node >= 0);
}

function depthOf(parents, node) {
  return node > 0 ? 1 + depthOf(parents, parents[node]) : 0;
}

// PUCT = Q + (c1 + ln((Np + c2 + 1) / c2)) · P · √Np / (1 + N); Np is the parent's visits.
export function puctOf(tree, node, settings) {
  const parent = column(tree, "visits")[tree.parents[node]];
  const [n, q, p] = ["visits", "value", "prior"].map((name) => column(tree, name)[node]);
  const { c1, c2 } = settings;
  if ([parent, n, p, c1, c2].some((v) => typeof v !== "number")) return null;
  const pull = c1 + Math.log((parent + c2 + 1) / c2);
  const explore = (pull * p * Math.sqrt(parent)) / (1 + n);
  return { parent, n, q: q || 0, p, c1, c2, log: pull - c1, explore, score: (q || 0) + explore };
}

// The score of every node as seen by the selection. The published search visits every child once before any child twice: the score
// of a child without visits is infinite.
function scores(tree, exists, settings) {
  return tree.parents.map((_, node) => {
    const known = node && exists[node] ? puctOf(tree, node, settings) : null;
    return known && settings.preset === "paper" && !known.n ? Infinity : (known?.score ?? null);
  });
}

// The scores that the selection compares: those of the children of the nodes on its path.
function decisive(all, tree, shown) {
  return new Map([...all.entries()].filter(([node, score]) => score !== null && shown.includes(tree.parents[node])));
}

export function scoreText(score) {
  return score === Infinity ? "∞" : small(score);
}

// Description of a moment.
export function searchText(step, moment, settings) {
  const total = step.simulations.length;
  if (moment === null) return say("search.over", { count: total });
  const { k, phase } = phaseAt(moment);
  if (!k) return say("search.before");
  return say("search.moment", { k, total, phase: phaseText(step, step.simulations[k - 1], PHASES[phase], settings) });
}

function phaseText(step, simulation, phase, settings) {
  const name = (node) => (node < 0 ? say("search.outside") : say("quoted", { text: visible(step.tree.texts[node], 12) }));
  const { selected, expanded, reward } = simulation;
  const published = settings.preset === "paper";
  const values = { path: selected.map(name).join(" › "), node: name(expanded), reward: small(reward) };
  const variant = { selection: selected.length > 1 ? "" : ".root", reward: published ? ".published" : "" }[phase] || "";
  return say(`search.${phase}${variant}`, values);
}

// Why there is no search to replay; empty if there is one.
export function searchNote(step, header) {
  const { search } = header.method_settings;
  if (header.method === "plain") return say("drafted.plain");
  if (step.tree.tokens.length < 2) return "";
  if (!step.simulations.length) return withoutSimulations(search, header);
  return canReplay(step, header.method_settings) ? "" : say("search.lost");
}

// How the tree was drafted if there is no search to replay.
function withoutSimulations(search, header) {
  if (search === "mcts") return say("search.unrecorded");
  if (keysOf("drafted").includes(header.method)) return say(`drafted.${header.method}`);
  if (search) return say("search.sweep", { search: choice(search) });
  return say("search.without", { label: runLabel(header) });
}
