// The recorded rows of the matrix: bigrams with their successors, the rows that changed most, the graph that they form, and their names.

import { el, fixed, visible } from "../core/dom.js";
import { remembered } from "../core/store.js";
import { say } from "../core/words.js";

const MAX_BIGRAMS = 40; // nodes of a neighbourhood
const LEADING = 6; // bigrams that lead to the central one
const FARTHEST = 4; // maximum depth of continuations
const BRANCHES = 6; // continuations of a bigram
const LEAST = 0.02; // minimum probability of a continuation
const SLIGHT = 0.005; // smaller changes of a probability are ignored

export function nameOf(bigram) {
  return bigram.join(" ");
}

// Every recorded row up to a step, by name, in its latest state:
//   row: as recorded; changes: number of steps that changed it; at: the last of them; now: whether that is this step
export function rowsSoFar(steps, index) {
  const rows = new Map();
  steps.slice(0, index + 1).forEach((step, at) => {
    for (const row of step.rows) {
      const name = nameOf(row.key);
      const known = rows.get(name);
      rows.set(name, { name, row, changes: known ? known.changes + 1 : 1, at, now: at === index });
    }
  });
  return rows;
}

const FRESH = 3; // rows reserved for the step on screen

// The rows that changed in most steps, the latest first among equals; at least some rows of the step on screen are included.
export function busiest(rows, count) {
  const order = (a, b) => b.changes - a.changes || b.at - a.at || (a.name < b.name ? -1 : 1);
  const all = [...rows.values()].sort(order);
  if (all.slice(0, count).some(({ now }) => now)) return all.slice(0, count);
  const fresh = all.filter(({ now }) => now).slice(0, Math.min(FRESH, count - 1));
  return [...all.slice(0, count - fresh.length), ...fresh];
}

// Successors of a row, most probable first: {token, text, weight, learned (null if not recorded), change (by this step, 0 for none)}.
export function successors({ row, now }) {
  const all = row.tokens.map((token, i) => ({
    token,
    text: row.texts[i],
    weight: row.after[i],
    learned: row.learned?.[i] ?? null,
    change: now && Math.abs(row.after[i] - row.before[i]) >= SLIGHT ? row.after[i] - row.before[i] : 0,
  }));
  return all.filter(({ weight, change }) => weight > 0 || change).sort((a, b) => b.weight - a.weight);
}

// The bigram of the last two tokens before the step: of the step's rows, the one that ends with the root.
export function currentBigram(step) {
  const row = step.rows.find(({ key }) => key[key.length - 1] === step.tree.tokens[0]) || step.rows[0];
  return row ? nameOf(row.key) : null;
}

// The bigram that ends at a node (its parent's token and its own) if a row of it is recorded up to the step; else null, and null for
// the root. A negative node is the target's bonus or correction token.
export function bigramOfNode(steps, index, node) {
  const step = steps[index];
  if (node === 0) return null;
  const { tokens, parents } = step.tree;
  const parent = node < 0 ? step.path[step.path.length - 1] : parents[node];
  const name = nameOf([tokens[parent], node < 0 ? step.emitted[step.emitted.length - 1] : tokens[node]]);
  return rowsSoFar(steps, index).has(name) ? name : null;
}

// The neighbourhood of a bigram: nodes are bigrams, edges are continuations. The most probable paths are expanded first, so that the
// same rows always give the same graph.
//   nodes: {name, bigram, texts, depth, parent (null: the centre, or one that leads to it), known, now, weight, change}
//   edges: {from, to, weight, change, tree}; `tree` is false for an edge back to an existing node
//   folded: number of continuations that are not drawn
export function neighbourhood(rows, centre, limit = MAX_BIGRAMS) {
  const graph = { nodes: new Map(), edges: [], folded: 0 };
  const middle = rows.get(centre);
  if (!middle) return { nodes: [], edges: [], folded: 0 };
  addNode(graph, rows, { bigram: middle.row.key, texts: middle.row.key_texts, depth: 0, parent: null, weight: 1, change: 0 });
  lead(graph, rows, middle);
  const waiting = continuations(graph.nodes.get(centre), 1, rows);
  while (waiting.length) follow(graph, rows, waiting, limit);
  return { nodes: [...graph.nodes.values()], edges: graph.edges, folded: graph.folded };
}

function addNode(graph, rows, node) {
  const name = nameOf(node.bigram);
  const row = rows.get(name);
  graph.nodes.set(name, { ...node, name, known: Boolean(row), now: Boolean(row?.now) });
}

// Bigrams whose continuation is the centre, most probable first.
function lead(graph, rows, middle) {
  const [first, second] = middle.row.key;
  const found = [...rows.values()].flatMap((known) => {
    const on = known.row.key[1] === first && known !== middle ? successors(known).find(({ token }) => token === second) : null;
    return on && on.weight > 0 ? [{ known, on }] : [];
  });
  found.sort((a, b) => b.on.weight - a.on.weight || (a.known.name < b.known.name ? -1 : 1));
  for (const { known, on } of found.slice(0, LEADING)) {
    addNode(graph, rows, { bigram: known.row.key, texts: known.row.key_texts, depth: -1, parent: null, weight: on.weight, change: on.change });
    graph.edges.push({ from: known.name, to: middle.name, weight: on.weight, change: on.change, tree: true });
  }
  graph.folded += Math.max(0, found.length - LEADING);
}

// Candidates to expand next: continuations of a node whose row is recorded.
function continuations(node, reach, rows) {
  const known = rows.get(node.name);
  if (!known) return [];
  return successors(known)
    .filter(({ weight }) => weight > 0)
    .map((on, i) => ({ from: node, on, reach: reach * on.weight, slight: i >= BRANCHES || on.weight < LEAST }));
}

// Expands the most probable candidate: a new node, an edge to an existing one, or one more folded continuation.
function follow(graph, rows, waiting, limit) {
  const at = waiting.reduce((best, next, i) => (next.reach > waiting[best].reach ? i : best), 0);
  const [{ from, on, reach, slight }] = waiting.splice(at, 1);
  const bigram = [from.bigram[1], on.token];
  const name = nameOf(bigram);
  const there = graph.nodes.has(name);
  if (slight || (!there && (graph.nodes.size >= limit || from.depth >= FARTHEST))) {
    graph.folded += 1;
    return;
  }
  graph.edges.push({ from: from.name, to: name, weight: on.weight, change: on.change, tree: !there });
  if (there) return;
  addNode(graph, rows, { bigram, texts: [from.texts[1], on.text], depth: from.depth + 1, parent: from.name, weight: on.weight, change: on.change });
  waiting.push(...continuations(graph.nodes.get(name), reach, rows));
}

// Columns and rows of the nodes: bigrams that lead to the centre on its left (`before`), first children on their parent's row.
export function placed(nodes) {
  const leading = nodes.filter((node) => node.depth < 0);
  const places = new Map(leading.map((node, i) => [node.name, { x: 0, y: i, before: true }]));
  const shift = leading.length ? 1 : 0;
  let free = 0;
  const walk = (node, y) => {
    places.set(node.name, { x: node.depth + shift, y });
    const children = nodes.filter((other) => other.parent === node.name);
    for (const [i, child] of children.entries()) walk(child, i ? ++free : y);
  };
  const middle = nodes.find((node) => node.depth === 0);
  if (middle) walk(middle, 0);
  const all = [...places.values()];
  return { places, columns: 1 + Math.max(0, ...all.map(({ x }) => x)), rows: 1 + Math.max(0, ...all.map(({ y }) => y)) };
}

// Whether a run learns: whether one of its steps changed a row.
export function learns(run) {
  return run.steps.some((step) => step.rows.length);
}

// The rows up to a step, and the row to show: of the selected bigram, else of the step's own, else the one that changed last:
// {rows, name, row (undefined if there is none)}.
export const selectedRow = remembered((steps, index, bigram) => {
  const rows = rowsSoFar(steps, index);
  const name = bigram || currentBigram(steps[index]) || lastOf(rows);
  return { rows, name, row: rows.get(name) };
});

// The name of the row that changed last.
function lastOf(rows) {
  return [...rows.values()].reduce((last, row) => (last === null || row.at >= last.at ? row : last), null)?.name;
}

export function bigramText(texts, limit) {
  return texts.map((text) => visible(text, limit)).join(" ");
}

// A bigram as a button if its row is recorded.
export function bigramButton({ name, texts, known }, choose) {
  const code = el("code", { text: bigramText(texts, 14) });
  if (!known) return code;
  const button = el("button", { type: "button", class: "ax-bigram-button", "aria-label": say("bigrams.choose", { bigram: bigramText(texts, 40) }) }, code);
  button.addEventListener("click", () => choose(name));
  return button;
}

export function changeCell(change) {
  return el("td", { class: `ax-num ${change > 0 ? "ax-up" : change < 0 ? "ax-down" : "ax-dim"}`, text: change ? changeText(change) : "·" });
}

export function changeText(change) {
  return `${change > 0 ? "+" : "−"}${fixed(Math.abs(change), 2)}`;
}
