// Accepted draft tokens per step as a histogram, and the acceptance rate by draft position: of a run, and of all runs of the race together.

import { cssToken, el, number } from "../core/dom.js";
import { say, sentences } from "../core/words.js";
import { registerExport } from "../export/exports.js";
import { PLOT_CONFIG, hoverOf, lineLayout, plotted } from "../plot/charts.js";
import { namedLine, runColour } from "../plot/lines.js";
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

const rateOf = ({ reached, taken }) => reached.map((count, i) => (taken[i] ?? 0) / count);

// Fills the last element of the card, whose charts are kept from one drawing to the next. `state`: what is on screen. A run that drafts nothing is replaced by all runs.
export function drawHistogram(card, { race, run: at, dark, Plotly }) {
  const run = race.runs[at];
  const drafting = race.runs.filter(({ steps }) => acceptedCounts(steps).steps);
  const pooled = acceptedCounts(drafting.flatMap(({ steps }) => steps));
  card.hidden = !pooled.steps;
  if (!pooled.steps) return;
  const own = acceptedCounts(run.steps);
  const shown = own.steps ? { name: run.label, found: own, colour: runColour(run, dark) } : { name: say("histogram.pooled"), found: pooled, colour: cssToken("--ax-muted") };
  const others = own.steps && drafting.length > 1 ? pooled : null;
  const boxOf = (name) => card.querySelector(`[data-part="histogram-${name}"]`) ?? el("div", { class: "ax-line-chart", role: "img", "data-part": `histogram-${name}` });
  const boxes = { counts: boxOf("counts"), rates: boxOf("rates") };
  const figure = ([name, box]) => {
    box.setAttribute("aria-label", say(`histogram.${name}.label`));
    return el("figure", {}, el("figcaption", { text: say(`histogram.${name}`) }), box);
  };
  const keys = el("p", { class: "ax-keys-line" }, ...keysOf(shown, others));
  const table = el("details", { class: "ax-every", open: card.querySelector("details")?.open ?? false }, el("summary", { class: "ax-dim", text: say("chart.every") }), ...tablesOf(drafting, pooled));
  const sentence = sentences(own.steps ? "" : say("histogram.nothing", { name: run.label }), sentenceOf(shown));
  card.lastElementChild.replaceChildren(el("p", { class: "ax-sentence", text: sentence }), el("div", { class: "ax-three" }, ...Object.entries(boxes).map(figure)), keys, table);
  registerExport("accepted", { place: () => card, picture: () => [plotted(boxes.counts), plotted(boxes.rates), keys], table: () => countsTable(race) });
  if (!Plotly) return;
  drawCounts(Plotly, boxes.counts, shown, others);
  drawRates(Plotly, boxes.rates, shown, others);
}

function sentenceOf({ name, found: { steps, counts, alpha, expected } }) {
  const mean = (list) => number(list.reduce((sum, value, k) => sum + k * value, 0) / steps);
  return sentences(say("histogram.sentence", { name, count: steps, none: counts[0] ?? 0, mean: mean(counts), most: counts.length - 1 }), say("histogram.expected", { alpha: number(alpha), mean: mean(expected), none: number(expected[0], 1) }));
}

function keysOf({ name, colour }, others) {
  const key = (text, mark, own) => {
    const symbol = el("span", { "aria-hidden": "true", text: mark });
    symbol.style.color = own;
    return el("span", { class: "ax-key" }, symbol, ` ${text}`);
  };
  return [key(name, "■", colour), others ? key(say("histogram.pooled"), "◇", "var(--ax-ink)") : null, namedLine("2px,3px", "var(--ax-ink)", say("histogram.independent"))].filter(Boolean);
}

const LEAST = 1; // percent of the steps from which an expected number of accepted tokens is shown, if no step had it
const FEW = 4; // numbers on the axis at least

function drawCounts(Plotly, box, { name, found, colour }, others) {
  const percent = (list, { steps }) => list.map((value) => (100 * value) / steps);
  const [own, expected] = [percent(found.counts, found), percent(found.expected, found)];
  const all = others ? percent(others.counts, others) : [];
  const most = Math.max(FEW, own.length - 1, all.length - 1, expected.findLastIndex((value) => value >= LEAST));
  const axes = { x: { range: [-0.6, most + 0.6], dtick: most > 14 ? 2 : 1, title: say("histogram.axis.accepted") }, y: { range: [0, 1.12 * Math.max(...own, ...all, ...expected)], nticks: 5, ticksuffix: "%", title: say("histogram.axis.steps") } };
  draw(Plotly, box, axes, [barsOf(name, own, 0, axes, colour), marksOf(all, 0, axes), expectedOf(expected.slice(0, most + 1), 0, axes)]);
}

function drawRates(Plotly, box, { name, found, colour }, others) {
  const [own, all] = [rateOf(found), others ? rateOf(others) : []];
  const last = Math.max(FEW, own.length, all.length);
  const axes = { x: { range: [0.4, last + 0.6], dtick: last > 14 ? 2 : 1, title: say("histogram.axis.position") }, y: { range: [0, 1.1], tickvals: [0, 0.25, 0.5, 0.75, 1], title: say("histogram.axis.rate") } };
  const bars = barsOf(name, own, 1, axes, colour);
  const reached = bars.hovertemplate.replace("<extra>", `<br>${say("histogram.reached")}: %{customdata}<extra>`);
  draw(Plotly, box, axes, [{ ...bars, customdata: found.reached, hovertemplate: reached }, marksOf(all, 1, axes), expectedOf(Array(last).fill(found.alpha), 1, axes)]);
}

const from = (first, y) => ({ x: y.map((_, i) => first + i), y });

function barsOf(name, y, first, axes, color) {
  return { type: "bar", ...from(first, y), marker: { color, opacity: 0.6 }, hovertemplate: hoverOf(name, axes) };
}

function marksOf(y, first, axes) {
  const marker = { color: cssToken("--ax-card"), symbol: "diamond", size: 8, line: { color: cssToken("--ax-ink"), width: 1.5 } };
  return { type: "scatter", mode: "markers", ...from(first, y), marker, cliponaxis: false, hovertemplate: hoverOf(say("histogram.pooled"), axes) };
}

function expectedOf(y, first, axes) {
  return { type: "scatter", mode: "lines", ...from(first, y), line: { color: cssToken("--ax-ink"), width: 2, dash: "2px,3px" }, hovertemplate: hoverOf(say("histogram.independent"), axes) };
}

function draw(Plotly, box, axes, data) {
  Plotly.react(box, data.filter(({ y }) => y.length), { ...lineLayout(box, axes, null), bargap: 0.3 }, PLOT_CONFIG);
}

// Two tables with a row per run and one for all: steps by number of accepted draft tokens, and acceptance rates by draft position.
function tablesOf(runs, pooled) {
  const rows = [...runs.map((run) => [run.label, acceptedCounts(run.steps)]), ...(runs.length > 1 ? [[say("histogram.pooled"), pooled]] : [])];
  const counts = rows.map(([name, found]) => [name, String(found.steps), ...pooled.counts.map((_, k) => String(found.counts[k] ?? 0))]);
  const rates = rows.map(([name, found]) => [name, ...pooled.reached.map((_, i) => (found.reached[i] ? `${number(rateOf(found)[i])} (${found.reached[i]})` : "–"))]);
  return [
    tableOf(say("histogram.counts.table"), [say("histogram.run"), say("histogram.steps"), ...pooled.counts.keys()], counts),
    tableOf(say("histogram.rates.table"), [say("histogram.run"), ...Array.from(pooled.reached.keys(), (i) => i + 1)], rates),
  ];
}

function tableOf(caption, heads, rows) {
  const head = el("tr", {}, ...heads.map((text) => el("th", { scope: "col", text: String(text) })));
  const body = rows.map(([name, ...cells]) => el("tr", {}, el("th", { scope: "row", text: name }), ...cells.map((text) => el("td", { class: "ax-num", text }))));
  return el("div", { class: "ax-wide", tabindex: "0", role: "group", "aria-label": caption }, el("table", { class: "ax-agree" }, el("caption", { class: "ax-dim", text: caption }), el("thead", {}, head), el("tbody", {}, ...body)));
}

// A row per run and number of accepted draft tokens, and rows for all runs together.
export function countsTable({ runs }) {
  const rows = (name, { counts, reached, taken, expected }) => expected.map((value, k) => [name, k, counts[k] ?? 0, value, k ? (reached[k - 1] ?? 0) : null, k ? (taken[k - 1] ?? 0) : null]);
  const all = runs.map((run, i) => [runName(runs, i), acceptedCounts(run.steps)]).filter(([, { steps }]) => steps);
  const pooled = acceptedCounts(runs.flatMap(({ steps }) => steps));
  return [["method", "accepted", "steps", "steps_if_independent", "position_reached", "position_accepted"], ...[...all, ["all", pooled]].flatMap(([name, found]) => rows(name, found))];
}
