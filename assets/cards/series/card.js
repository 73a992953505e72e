// What a drafter gains by learning from prompt to prompt: agreement of its matrix with the target.

import { cssToken, el, number, setText, small } from "../../page/core/dom.js";
import { on } from "../../page/core/events.js";
import { say, sentences } from "../../page/core/words.js";
import { offerExport, registerExport } from "../../page/export/exports.js";
import { keepValue } from "../../page/export/standalone.js";
import { PLOT_CONFIG, hoverOf, lineLayout, plotted } from "../../page/plot/charts.js";
import { PARTS_OF_MATRIX, partKey } from "../../page/plot/lines.js";
import { MEASURES, mean, values } from "../../page/record/agreement.js";
import { runLabel } from "../../page/record/enginetext.js";
import { runStats } from "../../page/record/record.js";

const SHOWN = ["base", "session"];
const FORGET = "#ax-forget";

// The series with a finished race added. It ends when the server forgets what was learned (`race.keptPrompts`: prompts per method); a
// prompt whose counts were not kept adds no row, and a drafter without session counts starts a new series.
export function extended(series, race) {
  const run = race.runs.find((one) => one.earlierPrompts !== null);
  if (!race.keptPrompts[run?.header.method ?? series[0]?.method]) return [];
  if (!run?.kept || !run.steps.length) return series;
  const means = (who) => Object.fromEntries(MEASURES.map((measure) => [measure, mean(values(run.steps, who, measure))]));
  const near = Object.fromEntries(SHOWN.map((who) => [who, means(who)]));
  const row = { prompt: run.header.prompt, method: run.header.method, label: run.header.label, perStep: runStats(run, run.steps.length).perStep, ...near };
  return run.earlierPrompts === 0 ? [{ ...row, restarted: series.length > 0 }] : [...series, row];
}

export function promptSeriesSentence(series) {
  const now = series[series.length - 1];
  const [gain, first] = [gainOf(now), gainOf(series[0])];
  const [base, session] = SHOWN.map((who) => small(now[who].total_variation));
  const values = { name: runLabel(now), count: series.length, base, session, gain: small(Math.abs(gain)), first: say(first < 0 ? "memory.by.farther" : "memory.by.nearer", { gain: small(Math.abs(first)) }) };
  const kind = series.length === 1 ? "one" : gain < 0 ? "farther" : "nearer";
  return sentences(say(`memory.${kind}`, values), series[0].restarted ? say("memory.restarted") : "");
}

// How much smaller the session's distance to the target is than that of the base counts alone.
function gainOf({ base, session }) {
  return base.total_variation - session.total_variation;
}

export function mount({ part, trigger, kept, changed, subscribe }) {
  offerExport("memory", { group: "experiment", title: "memory.title", at: part("memory-card"), picture: true, table: true });
  let series = kept.series?.rows ?? [];
  const races = new Set(kept.series?.races); // ids of the races that were considered
  const own = new Set(); // ids of the races that have run on this page, not of those that a link has opened again
  on("running", (id) => id !== null && own.add(id));
  keepValue("series", () => ({ rows: series, races: [...races] }));
  const picker = part("memory-measure");
  for (const who of SHOWN) part("memory-key").append(partKey([who, PARTS_OF_MATRIX[who]]));
  picker.append(...MEASURES.map((value) => el("option", { value, "data-say": `measure.${value}` })));
  picker.addEventListener("change", changed);
  part("memory-reset").hidden = !trigger;
  onForget(part("memory-reset"), trigger, () => {
    series = [];
    changed();
  });
  subscribe("quiet", ({ race }) => [race, race.running], ({ race }) => {
    if (race.running || !own.has(race.id) || races.has(race.id)) return;
    races.add(race.id);
    series = extended(series, race);
  });
  const selected = ({ race, dark, Plotly }) => (part("measure").open && !race.running ? [series, picker.value, dark, Plotly, part("measure").clientWidth] : null);
  subscribe("quiet", selected, ({ Plotly }) => renderPromptSeries(part, Plotly, series));
}

// The button in this card and the one in the controls both make drafters forget; then the series is cleared too.
function onForget(button, trigger, clear) {
  document.addEventListener("click", (event) => event.target instanceof Element && event.target.closest(FORGET) && clear());
  button.addEventListener("click", () => {
    trigger("clear");
    clear();
  });
}

function renderPromptSeries(part, Plotly, series) {
  part("memory-card").hidden = !series.length;
  if (!series.length) return;
  const measure = part("memory-measure").value;
  setText(part("memory-sentence"), promptSeriesSentence(series));
  setText(part("memory-meaning"), say(`measure.${measure}.meaning`));
  part("memory-rows").replaceChildren(...series.map((row, i) => seriesRow(row, i, measure)));
  if (Plotly) draw(Plotly, part("memory-chart"), series, measure);
  const picture = () => [part("memory-meaning"), part("memory-key"), plotted(part("memory-chart"))];
  registerExport("memory", { place: () => part("memory-card"), picture, table: () => seriesTable(series) });
}

function seriesTable(series) {
  const names = SHOWN.flatMap((who) => MEASURES.map((measure) => `${who}_${measure}`));
  const rows = series.map((row, i) => [i + 1, row.prompt, row.label, row.perStep, ...SHOWN.flatMap((who) => MEASURES.map((measure) => row[who][measure]))]);
  return [["number", "prompt", "run", "tokens_per_step", ...names], ...rows];
}

function seriesRow({ prompt, base, session, perStep }, index, measure) {
  const cells = [small(base[measure]), small(session[measure]), number(perStep)].map((text) => el("td", { class: "ax-num", text }));
  return el("tr", {}, el("th", { scope: "row", text: String(index + 1) }), el("td", { class: "ax-cut", text: prompt, title: prompt }), ...cells);
}

function draw(Plotly, box, series, measure) {
  const x = series.map((_, i) => i + 1);
  const titles = { x: { title: say("axis.prompt") }, y: { title: say(`measure.${measure}`) } };
  const data = SHOWN.map((who) => {
    const { dash, colour } = PARTS_OF_MATRIX[who];
    const paint = cssToken(colour);
    const y = series.map((row) => row[who][measure]);
    return { type: "scatter", mode: "lines+markers", x, y, hovertemplate: hoverOf(say(`matrix.${who}`), titles), line: { color: paint, dash, width: 2.5 }, marker: { color: paint, size: 8 } };
  });
  const axes = { x: { range: [0.5, Math.max(3, x.length) + 0.5], dtick: 1, tickformat: "d", ...titles.x }, y: { range: [0, 1.02], tickvals: [0, 0.5, 1], title: say("axis.share") } };
  Plotly.react(box, data, lineLayout(box, axes, null), PLOT_CONFIG);
}
