// Visit count and PUCT score of a node after each simulation, as a small chart on the node card.

import { el, small, svg } from "../../page/core/dom.js";
import { registerExport } from "../../page/export/exports.js";
import { column } from "../../page/record/record.js";
import { canReplay, phaseAt, puctOf, trail } from "../../page/record/search.js";
import { say } from "../../page/core/words.js";

const SIZE = { width: 280, height: 44, rim: 3 };

// {visits, scores}: one entry before the first simulation and one after each; a score is null while the parent has no visits.
export function nodeHistory(step, node, settings) {
  const count = step.tree.tokens.length;
  const [visits, rewards] = [new Array(count).fill(0), new Array(count).fill(0)];
  const tree = { parents: step.tree.parents, columns: { prior: column(step.tree, "prior"), visits, value: new Array(count).fill(null) } };
  const found = { visits: [0], scores: [null] };
  for (const simulation of step.simulations) {
    for (const seen of trail(simulation, step, settings)) {
      visits[seen] += 1;
      rewards[seen] += simulation.reward;
      tree.columns.value[seen] = rewards[seen] / visits[seen];
    }
    const known = node > 0 && visits[tree.parents[node]] ? puctOf(tree, node, settings) : null;
    found.visits.push(visits[node]);
    found.scores.push(known?.score ?? null);
  }
  return found;
}

// The chart, or null if the search cannot be replayed. `recorded` is the step as recorded.
export function historyFigure(recorded, node, settings, moment) {
  if (node < 0 || !canReplay(recorded, settings)) return null;
  const { visits, scores } = nodeHistory(recorded, node, settings);
  const total = recorded.simulations.length;
  const now = moment === null ? total : phaseAt(moment).k;
  const values = { total, most: visits[total], score: small(Math.max(0, ...scores.filter((score) => score !== null))) };
  const picture = svg("svg", { viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, role: "img", "aria-label": say("history.label", { ...values, now, visits: visits[now] }) });
  picture.append(svg("title", { text: say("history.label", { ...values, now, visits: visits[now] }) }));
  const scored = scores.some((score) => score !== null);
  if (scored) picture.append(path(scores, "ax-history-score", false));
  picture.append(path(visits, "ax-history-visits", true), marker(now, total));
  const figure = el("figure", { class: "ax-history" }, el("figcaption", { class: "ax-dim", text: say(scored ? "history.both" : "history.visits", values) }), picture);
  registerExport("history", { place: () => figure, picture: () => [figure], table: () => historyTable(visits, scores) });
  return figure;
}

function historyTable(visits, scores) {
  return [["simulation", "visits", "score"], ...visits.map((count, k) => [k, count, scores[k]])];
}

function path(list, name, steps) {
  const most = Math.max(1e-9, ...list.filter((value) => value !== null));
  let before = null;
  const parts = list.flatMap((value, i) => {
    if (value === null) return [];
    const point = [across(i, list.length - 1), SIZE.height - SIZE.rim - (value / most) * (SIZE.height - 2 * SIZE.rim)].map((n) => n.toFixed(1));
    const drawn = before === null ? `M${point}` : steps ? `H${point[0]}V${point[1]}` : `L${point}`;
    before = point;
    return [drawn];
  });
  return svg("path", { class: name, d: parts.join("") });
}

function marker(now, total) {
  const x = across(now, total);
  return svg("line", { class: "ax-history-now", x1: x, x2: x, y1: 0, y2: SIZE.height });
}

function across(i, last) {
  return SIZE.rim + (i / Math.max(1, last)) * (SIZE.width - 2 * SIZE.rim);
}
