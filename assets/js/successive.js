// What a drafter that remembers gains from prompt to prompt: how near its matrix comes to the model.

import { MEASURES, PARTS_OF_MATRIX, mean, values } from "./agreement.js";
import { PLOT_CONFIG, lineLayout, plotted } from "./charts.js";
import { cssToken, el, number, setText, small } from "./dom.js";
import { offer } from "./offers.js";
import { figures } from "./record.js";
import { laneLabel } from "./recorded.js";
import { say, sentences } from "./words.js";

const SHOWN = ["base", "session"];

// The series with a finished race taken in. It stands as long as the server keeps what was learned (`race.kept`: prompts by
// method), a prompt that taught nothing adds no row, and a drafter that knew nothing yet begins another one.
export function taken(series, race) {
  const lane = race.lanes.find((one) => one.remembers !== null);
  if (!race.kept[lane?.header.method ?? series[0]?.method]) return [];
  if (!lane?.taught || !lane.steps.length) return series;
  const means = (who) => Object.fromEntries(MEASURES.map((measure) => [measure, mean(values(lane.steps, who, measure))]));
  const near = Object.fromEntries(SHOWN.map((who) => [who, means(who)]));
  const row = { prompt: lane.header.prompt, method: lane.header.method, label: lane.header.label, perPass: figures(lane, lane.steps.length).perPass, ...near };
  return lane.remembers === 0 ? [{ ...row, afresh: series.length > 0 }] : [...series, row];
}

export function successiveSentence(series) {
  const now = series[series.length - 1];
  const [gain, first] = [lead(now), lead(series[0])];
  const [base, session] = SHOWN.map((who) => small(now[who].total_variation));
  const values = { name: laneLabel(now), count: series.length, base, session, gain: small(Math.abs(gain)), first: say(first < 0 ? "memory.by.farther" : "memory.by.nearer", { gain: small(Math.abs(first)) }) };
  const kind = series.length === 1 ? "one" : gain < 0 ? "farther" : "nearer";
  return sentences(say(`memory.${kind}`, values), series[0].afresh ? say("memory.afresh") : "");
}

// How much nearer to the model the session is than the base matrix alone.
function lead({ base, session }) {
  return base.total_variation - session.total_variation;
}

export function renderSuccessive(part, Plotly, series) {
  part("memory-card").hidden = !series.length;
  if (!series.length) return;
  const measure = part("memory-measure").value;
  setText(part("memory-sentence"), successiveSentence(series));
  setText(part("memory-meaning"), say(`measure.${measure}.meaning`));
  part("memory-rows").replaceChildren(...series.map((row, i) => seriesRow(row, i, measure)));
  if (Plotly) draw(Plotly, part("memory-chart"), series, measure);
  const picture = () => [part("memory-meaning"), part("memory-key"), plotted(part("memory-chart"))];
  offer("memory", { group: "experiment", title: "memory.title", place: () => part("memory-card"), picture, table: () => seriesTable(series) });
}

function seriesTable(series) {
  const names = SHOWN.flatMap((who) => MEASURES.map((measure) => `${who}_${measure}`));
  const rows = series.map((row, i) => [i + 1, row.prompt, row.label, row.perPass, ...SHOWN.flatMap((who) => MEASURES.map((measure) => row[who][measure]))]);
  return [["number", "prompt", "lane", "tokens_per_step", ...names], ...rows];
}

function seriesRow({ prompt, base, session, perPass }, index, measure) {
  const cells = [small(base[measure]), small(session[measure]), number(perPass)].map((text) => el("td", { class: "ax-num", text }));
  return el("tr", {}, el("th", { scope: "row", text: String(index + 1) }), el("td", { class: "ax-cut", text: prompt, title: prompt }), ...cells);
}

function draw(Plotly, box, series, measure) {
  const x = series.map((_, i) => i + 1);
  const data = SHOWN.map((who) => {
    const { dash, colour } = PARTS_OF_MATRIX[who];
    const paint = cssToken(colour);
    const y = series.map((row) => row[who][measure]);
    return { type: "scatter", mode: "lines+markers", x, y, hoverinfo: "none", line: { color: paint, dash, width: 2.5 }, marker: { color: paint, size: 8 } };
  });
  const axes = { x: { range: [0.5, Math.max(3, x.length) + 0.5], dtick: 1, tickformat: "d", title: say("axis.prompt") }, y: { range: [0, 1.02], tickvals: [0, 0.5, 1], title: say("axis.share") } };
  Plotly.react(box, data, lineLayout(box, axes, null), PLOT_CONFIG);
}
