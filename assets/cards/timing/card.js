// The runs over decode time: tokens as a chart, time per token by its parts, and a table.

import { el, number, rate } from "../../page/core/dom.js";
import { say } from "../../page/core/words.js";
import { offerExport, registerExport } from "../../page/export/exports.js";
import { hoverOf, PLOT_CONFIG, lineLayout } from "../../page/plot/charts.js";
import { lineKey, paintRun, runColour, runDash } from "../../page/plot/lines.js";
import { duration, last, runName, runStats, stepsDone } from "../../page/record/record.js";
import { stepsShown } from "../../page/shell/player.js";
import { createStepTimes } from "./times.js";
import { createZoom } from "./zoom.js";

export function mount({ part, state, changed, subscribe }) {
  offerExport("race", { group: "race", title: "chart.title", at: part("chart"), picture: true, table: true });
  offerExport("times", { group: "race", title: "times.title", at: part("chart"), picture: true, table: true });
  const zoom = createZoom(part, changed);
  const times = createStepTimes(part("times"));
  subscribe("frame", ({ race }) => [race], ({ race }) => {
    times.rebuild(race);
    part("chart-key").replaceChildren(...race.runs.map(chartKey));
  });
  subscribe("frame", ({ race, time }) => [race, race.read, time], times.render);

  // Number of steps per run: no curve shows what is still to be predicted.
  const seen = () => state.race.runs.map((run) => (state.predictions ? stepsShown(state, run) : run.steps.length));
  const selected = ({ race, time, following, dark, Plotly }) => {
    if (!part("measure").open) return null;
    const span = zoom.follow(race.id, time, duration(race), following);
    return Plotly && !zoom.held() ? [race, ...seen(), time, ...(span ?? []), dark, part("chart").clientWidth] : null;
  };
  subscribe("quiet", selected, ({ dark, Plotly }) => {
    drawRaceChart(Plotly, part, state, dark, zoom.span(), seen());
    zoom.listen();
  });

  const table = part("race-every");
  table.addEventListener("toggle", changed);
  subscribe("quiet", ({ race, time }) => (table.open ? [race, race.read, time] : null), ({ race, time }) => part("race-rows").replaceChildren(...race.runs.map((run) => runRow(run, time))));
}

function chartKey(run, index, runs) {
  const key = el("span", { class: "ax-key" }, lineKey(runDash(runs, index)), run.label);
  paintRun(key, run);
  return key;
}

// Tokens over decode time, one line per run, with a line at the current replay time. `span`: part of the time to show, or null;
// `seen`: number of steps to show per run. With a mouse, a part can be selected by dragging; on touch screens dragging scrolls the page.
function drawRaceChart(Plotly, part, state, dark, span, seen) {
  const box = part("chart");
  const { runs } = state.race;
  const most = Math.max(1, ...runs.map((run) => run.counts[run.counts.length - 1] || 0));
  const end = duration(state.race) || 1;
  const titles = { x: { title: say("axis.seconds") }, y: { title: say("axis.tokens") } };
  const data = runs.map((run, i) => ({
    type: "scatter",
    mode: "lines",
    x: [0, ...run.ends.slice(0, seen[i])],
    y: [0, ...run.counts.slice(0, seen[i])],
    hovertemplate: hoverOf(run.label, titles),
    line: { width: 2.5, color: runColour(run, dark), dash: runDash(runs, i) },
  }));
  const [low, high] = span ? tokensIn(runs, span) : [0, most];
  const x = { range: span || [0, end * 1.02], fixedrange: false, nticks: 5, ...titles.x };
  const integer = high - low < 6 ? { dtick: 1 } : { nticks: 5 };
  const y = { range: [low, high + 0.12 * (high - low)], ...integer, ...titles.y };
  const dragmode = window.matchMedia("(pointer: fine)").matches ? "zoom" : false;
  Plotly.react(box, data, { ...lineLayout(box, { x, y }, state.time), dragmode }, PLOT_CONFIG);
  registerExport("race", { place: () => box, picture: () => [part("chart-key"), box], table: () => curveTable(state.race) });
}

// The smallest and the largest token count of all runs within a part of the time.
function tokensIn(runs, [from, to]) {
  const counts = runs.map((run) => [0, ...run.counts]);
  const low = Math.min(...runs.map((run, i) => counts[i][stepsDone(run, from)]));
  return [low, Math.max(low + 1, ...runs.map((run, i) => last(counts[i].slice(0, stepsDone(run, to) + 2), 0)))];
}

// Number of tokens of each run after each of its steps.
export function curveTable({ runs }) {
  const rows = runs.flatMap((run, i) => run.ends.map((seconds, k) => [runName(runs, i), k + 1, seconds, run.counts[k]]));
  return [["method", "step", "seconds", "tokens"], ...rows];
}

function runRow(run, time) {
  const now = runStats(run, stepsDone(run, time));
  const cells = [now.tokens, now.steps, number(now.seconds), rate(now.rate), number(now.perStep)];
  return el("tr", {}, el("th", { scope: "row", text: run.label }), ...cells.map((text) => el("td", { class: "ax-num", text: String(text) })));
}
