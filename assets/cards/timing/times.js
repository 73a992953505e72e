// Time per token of each run: one stacked bar per run by part of the step, all bars on one scale.

import { el, milliseconds, setText } from "../../page/core/dom.js";
import { paintRun } from "../../page/plot/lines.js";
import { registerExport } from "../../page/export/exports.js";
import { PARTS, partName, runStats, runName, stepsDone } from "../../page/record/record.js";
import { say } from "../../page/core/words.js";

export function createStepTimes(root) {
  let views = [];

  function rebuild(race) {
    views = race.runs.map(createRow);
    root.replaceChildren(...views.map((view) => view.row));
  }

  function render(state) {
    const costs = views.map(({ run }) => perToken(runStats(run, stepsDone(run, state.time)), isPlain(run)));
    const most = Math.max(...costs.map((cost) => cost.total));
    for (const [i, view] of views.entries()) renderRow(view, costs[i], most);
    const picture = () => [root, root.nextElementSibling];
    registerExport("times", { place: () => root, picture, table: () => timesTable(state.race.runs, costs) });
  }
  return { rebuild, render };
}

function timesTable(runs, costs) {
  const names = [...PARTS, "total"];
  return [["method", ...names.map((name) => `${partName(name)}_seconds_per_token`)], ...costs.map((cost, i) => [runName(runs, i), ...names.map((name) => cost[name])])];
}

// Seconds per token, by part, from the statistics of a run. `plain`: without a draft; beside the forward pass there is only the decoding loop on the host.
export function perToken(now, plain = false) {
  const cost = Object.fromEntries(PARTS.map((part) => [part, now.tokens ? now[part] / now.tokens : 0]));
  return { ...cost, total: PARTS.reduce((sum, part) => sum + cost[part], 0), plain };
}

// The parts that are shown: [name, seconds per token, key of the text].
function shownParts({ plain, total, ...cost }) {
  if (!plain) return PARTS.map((part) => [part, cost[part], `part.${part}`]);
  return [["verify", cost.verify, "part.verify"], ["host", total - cost.verify, "part.host"]];
}

const isPlain = ({ header }) => header.method === "plain";

function createRow(run) {
  const view = {
    run,
    value: el("span", { class: "ax-times-value" }),
    bar: el("div", { class: "ax-split", "aria-hidden": "true" }, ...shownParts({ plain: isPlain(run) }).map(([part]) => el("i", { class: `ax-${part}` }))),
    shares: el("span", { class: "ax-shares" }),
  };
  const label = el("span", { class: "ax-times-label", text: run.label });
  view.row = el("li", {}, label, view.value, view.bar, view.shares);
  paintRun(view.row, run);
  return view;
}

function renderRow({ bar, value, shares }, cost, most) {
  for (const [i, [, seconds, key]] of shownParts(cost).entries()) {
    bar.children[i].style.width = most ? `${(100 * seconds) / most}%` : "0";
    bar.children[i].title = `${say(key)} ${milliseconds(seconds)}`;
  }
  setText(value, cost.total ? milliseconds(cost.total) : "–");
  setText(shares, sharesText(cost));
}

// The shares of all parts that took time, in percent.
export function sharesText(cost) {
  const words = shownParts(cost).filter(([, seconds]) => seconds > 0).map(([, seconds, key]) => `${say(key)} ${percent(seconds / cost.total)}`);
  return words.length ? `${words.join(" · ")} %` : "";
}

function percent(share) {
  return share < 0.01 ? "<1" : String(Math.round(100 * share));
}
