// Where each lane's time goes: one stacked bar a lane, milliseconds for one token, all bars on one scale.

import { el, milliseconds, setText } from "./dom.js";
import { paintLane } from "./lanes.js";
import { offer } from "./offers.js";
import { PARTS, figures, laneName, plainLast, stepsDone } from "./record.js";
import { say } from "./words.js";

export function createTimes(root) {
  let views = [];

  function rebuild(race) {
    views = race.lanes.map(createRow);
    root.replaceChildren(...plainLast(views, race.lanes).map((view) => view.row));
  }

  function render(state) {
    const costs = views.map(({ lane }) => perToken(figures(lane, stepsDone(lane, state.time))));
    const most = Math.max(...costs.map((cost) => cost.total));
    for (const [i, view] of views.entries()) renderRow(view, costs[i], most);
    const picture = () => [root, root.nextElementSibling];
    offer("times", { group: "race", title: "times.title", place: () => root, picture, table: () => timesTable(state.race.lanes, costs) });
  }
  return { rebuild, render };
}

function timesTable(lanes, costs) {
  const names = [...PARTS, "total"];
  return [["method", ...names.map((name) => `${name}_seconds_per_token`)], ...costs.map((cost, i) => [laneName(lanes, i), ...names.map((name) => cost[name])])];
}

// Seconds for one token, by part, from a lane's figures.
export function perToken(now) {
  const cost = Object.fromEntries(PARTS.map((part) => [part, now.tokens ? now[part] / now.tokens : 0]));
  return { ...cost, total: PARTS.reduce((sum, part) => sum + cost[part], 0) };
}

function createRow(lane) {
  const view = {
    lane,
    value: el("span", { class: "ax-times-value" }),
    bar: el("div", { class: "ax-split", "aria-hidden": "true" }, ...PARTS.map((part) => el("i", { class: `ax-${part}` }))),
    shares: el("span", { class: "ax-shares" }),
  };
  const label = el("span", { class: "ax-times-label", text: lane.label });
  view.row = el("li", {}, label, view.value, view.bar, view.shares);
  paintLane(view.row, lane);
  return view;
}

function renderRow({ bar, value, shares }, cost, most) {
  for (const [i, part] of PARTS.entries()) bar.children[i].style.width = most ? `${(100 * cost[part]) / most}%` : "0";
  setText(value, cost.total ? milliseconds(cost.total) : "–");
  setText(shares, sharesText(cost));
}

// The parts that took any time, in percent; a forward pass alone needs no words.
export function sharesText(cost) {
  const words = PARTS.filter((part) => cost[part] > 0).map((part) => `${say(`part.${part}`)} ${percent(cost[part] / cost.total)}`);
  return words.length ? `${words.join(" · ")} %` : "";
}

function percent(share) {
  return share < 0.01 ? "<1" : String(Math.round(100 * share));
}
