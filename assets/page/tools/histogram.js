// Accepted draft tokens per step as a histogram, and the acceptance rate by draft position: of a run, and of all runs of the race together.

import { cssToken, el, number } from "../core/dom.js";
import { say, sentences } from "../core/words.js";
import { registerExport } from "../export/exports.js";
import { PLOT_CONFIG, hoverOf, lineLayout, plotted } from "../plot/charts.js";
import { namedLine, paintRun, runColour } from "../plot/lines.js";
import { depthOf } from "../record/estimate.js";
import { acceptanceRate, runName } from "../record/record.js";

// Counts over steps with a draft: {steps, alpha, counts: steps by number of accepted draft tokens, reached and taken: by draft position, from the first,
// the steps in which verification reached a token drafted there, and those in which it accepted one (as aded/evaluation/positions.py), expected:
// steps by number of accepted draft tokens if each draft token were accepted with probability alpha, independently of the others}.
export function acceptedCounts(steps) {
  const found = { steps: 0, alpha: acceptanceRate(steps), counts: [], reached: [], taken: [], expected: [] };
  const add = (list, i, value = 1) => {
    while (list.length <= i) list.push(0);
    list[i] += value;
  };
  for (const { tree, path } of steps) {
    if (tree.tokens.length < 2) continue;
    const accepted = path.length - 1;
    found.steps += 1;
    add(found.counts, accepted);
    const inner = path.filter((node) => tree.parents.includes(node)).length;
    for (let i = 0; i < inner; i++) add(found.reached, i);
    for (let i = 0; i < accepted; i++) add(found.taken, i);
    const depth = depthOf(tree);
    for (let k = 0; k <= depth; k++) add(found.expected, k, found.alpha ** k * (k < depth ? 1 - found.alpha : 1));
  }
  return found;
}

const shareOf = (list, { steps }) => list.map((value) => value / steps);
const rateOf = ({ reached, taken }) => reached.map((count, i) => (taken[i] ?? 0) / count);

// Draws the card, whose parts are made at the first call. `state`: what is on screen.
export function drawHistogram(card, { race, run: at, dark, Plotly }) {
  const run = race.runs[at];
  const own = acceptedCounts(run.steps);
  const drafting = race.runs.filter(({ steps }) => acceptedCounts(steps).steps);
  const pooled = acceptedCounts(drafting.flatMap(({ steps }) => steps));
  card.hidden = !pooled.steps;
  if (!pooled.steps) return;
  const box = (name) => el("div", { class: "ax-line-chart", role: "img", "aria-label": say(`histogram.${name}.label`), "data-part": `histogram-${name}` });
  const boxes = { counts: card.querySelector("[data-part='histogram-counts']") ?? box("counts"), rates: card.querySelector("[data-part='histogram-rates']") ?? box("rates") };
  const figure = (name) => el("figure", {}, el("figcaption", { text: say(`histogram.${name}`) }), boxes[name]);
  const open = card.querySelector("details")?.open ?? false;
  const keys = el("p", { class: "ax-keys-line" }, ...keysOf(run, own.steps > 0, drafting.length > 1));
  const table = el("details", { class: "ax-every", open }, el("summary", { class: "ax-dim", text: say("chart.every") }), tableOf(drafting, pooled));
  card.replaceChildren(el("h2", { text: say("histogram.title") }), el("p", { class: "ax-sentence", text: sentenceOf(run, own) }), el("div", { class: "ax-three" }, figure("counts"), figure("rates")), keys, table);
  if (!Plotly) return;
  const colour = runColour(run, dark);
  const others = drafting.length > 1 ? pooled : null;
  drawCounts(Plotly, boxes.counts, run, own, others, colour);
  drawRates(Plotly, boxes.rates, run, own, others, colour);
  registerExport("accepted", { place: () => card, picture: () => [plotted(boxes.counts), plotted(boxes.rates), keys], table: () => countsTable(race) });
}

function sentenceOf(run, { steps, counts, alpha, expected }) {
  if (!steps) return say("histogram.nothing", { name: run.label });
  const mean = (list) => list.reduce((sum, value, k) => sum + k * value, 0) / steps;
  return sentences(say("histogram.sentence", { name: run.label, count: steps, none: counts[0] ?? 0, mean: number(mean(counts)), most: counts.length - 1 }), say("histogram.expected", { alpha: number(alpha), mean: number(mean(expected)), none: number(expected[0], 1) }));
}

function keysOf(run, drafts, many) {
  const named = (text, mark, colour) => {
    const key = el("span", { class: "ax-key" }, el("span", { "aria-hidden": "true", text: `${mark} ` }), text);
    key.style.setProperty("--run", colour);
    return key;
  };
  const own = named(run.label, "■", "");
  paintRun(own, run);
  own.style.removeProperty("--run");
  return [drafts ? own : null, many ? named(say("histogram.pooled"), "◇", "var(--ax-ink)") : null, drafts ? namedLine("2px,3px", "var(--ax-muted)", say("histogram.independent")) : null].filter(Boolean);
}

function drawCounts(Plotly, box, run, own, pooled, colour) {
  const most = Math.max(own.counts.length, pooled?.counts.length ?? 0) - 1;
  const percent = (values) => values.map((value) => 100 * value);
  const shown = [own.steps ? percent(shareOf(own.counts, own)) : [], pooled ? percent(shareOf(pooled.counts, pooled)) : [], own.steps ? percent(shareOf(own.expected, own)).slice(0, most + 1) : []];
  const axes = { x: { range: [-0.6, Math.max(4, most) + 0.6], tickformat: "d", nticks: 10, title: say("histogram.axis.accepted") }, y: { range: [0, 1.12 * Math.max(10, ...shown.flat())], nticks: 5, ticksuffix: "%", title: say("histogram.axis.steps") } };
  const bars = { type: "bar", x: shown[0].map((_, k) => k), y: shown[0], marker: { color: colour }, hovertemplate: hoverOf(run.label, axes) };
  draw(Plotly, box, axes, [bars, marksOf(shown[1], 0, axes), expectedOf(shown[2], 0, axes)]);
}

function drawRates(Plotly, box, run, own, pooled, colour) {
  const rates = own.steps ? rateOf(own) : [];
  const all = pooled ? rateOf(pooled) : [];
  const last = Math.max(rates.length, all.length, 4);
  const axes = { x: { range: [0.4, last + 0.6], tickformat: "d", nticks: 10, title: say("histogram.axis.position") }, y: { range: [0, 1.1], tickvals: [0, 0.25, 0.5, 0.75, 1], title: say("histogram.axis.rate") } };
  const bars = { type: "bar", x: rates.map((_, i) => i + 1), y: rates, customdata: own.reached, marker: { color: colour }, hovertemplate: hoverOf(run.label, axes).replace("<extra>", `<br>${say("histogram.reached")}: %{customdata}<extra>`) };
  draw(Plotly, box, axes, [bars, marksOf(all, 1, axes), expectedOf(own.steps ? Array(last).fill(own.alpha) : [], 1, axes)]);
}

function marksOf(y, first, axes) {
  const marker = { color: cssToken("--ax-card"), symbol: "diamond", size: 8, line: { color: cssToken("--ax-ink"), width: 1.5 } };
  return { type: "scatter", mode: "markers", x: y.map((_, i) => first + i), y, marker, hovertemplate: hoverOf(say("histogram.pooled"), axes) };
}

function expectedOf(y, first, axes) {
  return { type: "scatter", mode: "lines", x: y.map((_, i) => first + i), y, line: { color: cssToken("--ax-muted"), width: 2, dash: "2px,3px" }, hovertemplate: hoverOf(say("histogram.independent"), axes) };
}

function draw(Plotly, box, axes, data) {
  Plotly.react(box, data.filter(({ y }) => y.length), { ...lineLayout(box, axes, null), bargap: 0.3 }, PLOT_CONFIG);
}

// A row per run and one for all: steps by number of accepted draft tokens, with the acceptance rate at the position after them.
function tableOf(runs, pooled) {
  const columns = pooled.counts.map((_, k) => k);
  const rowOf = (name, found) => el("tr", {}, el("th", { scope: "row", text: name }), el("td", { class: "ax-num", text: String(found.steps) }), ...columns.map((k) => el("td", { class: "ax-num", text: String(found.counts[k] ?? 0) })));
  const head = el("tr", {}, ...[say("histogram.run"), say("histogram.steps"), ...columns.map(String)].map((text) => el("th", { scope: "col", text })));
  const rows = runs.map((run) => rowOf(run.label, acceptedCounts(run.steps)));
  return el("div", { class: "ax-wide", tabindex: "0", role: "group", "aria-label": say("histogram.counts") }, el("table", { class: "ax-agree" }, el("thead", {}, head), el("tbody", {}, ...rows, ...(runs.length > 1 ? [rowOf(say("histogram.pooled"), pooled)] : []))));
}

function countsTable({ runs }) {
  const rows = (name, { counts, reached, taken, expected }) => expected.map((value, k) => [name, k, counts[k] ?? 0, value, k ? reached[k - 1] ?? 0 : null, k ? taken[k - 1] ?? 0 : null]);
  const all = runs.map((run, i) => [runName(runs, i), acceptedCounts(run.steps)]).filter(([, { steps }]) => steps);
  const pooled = acceptedCounts(runs.flatMap(({ steps }) => steps));
  return [["method", "accepted", "steps", "steps_if_independent", "position_reached", "position_accepted"], ...[...all, ["all", pooled]].flatMap(([name, found]) => rows(name, found))];
}
