// The size of the base counts and of the session counts over the run.

import { bytes, count, cssToken, el, setText } from "../../page/core/dom.js";
import { say } from "../../page/core/words.js";
import { offerExport, registerExport } from "../../page/export/exports.js";
import { PLOT_CONFIG, hoverOf, lineLayout, plotted } from "../../page/plot/charts.js";
import { learns } from "../../page/record/bigrams.js";

export function mount({ part, changed, subscribe }) {
  offerExport("sizes", { group: "matrix", title: "save.sizes", at: part("sizes"), picture: true, table: true });
  part("sizes-every").addEventListener("toggle", changed);
  const selected = ({ view, dark, Plotly }) => [learns(view.run), view.recorded, view.run.steps.length, dark, Plotly, part("sizes-chart").clientWidth, part("sizes-every").open];
  subscribe("slow", selected, ({ view: { run, at }, Plotly }) => {
    part("learned-card").hidden = !learns(run);
    if (learns(run)) renderSizes(part, Plotly, run.steps, at);
  });
}

function renderSizes(part, Plotly, steps, index) {
  const sizes = steps.map((step) => step.size || null);
  const known = sizes.some(Boolean);
  part("sizes").hidden = !known;
  if (!known) return;
  setText(part("sizes-sentence"), sizes[index] ? sizesSentence(sizes[index]) : "");
  part("sizes-rows").replaceChildren(...(part("sizes-every").open ? sizes.flatMap((size, i) => (size ? [sizeRow(size, i, index)] : [])) : []));
  if (Plotly && part("sizes-chart").clientWidth) drawSizes(Plotly, part("sizes-chart"), sizes, index);
  registerExport("sizes", { place: () => part("sizes"), picture: () => [part("sizes-sentence"), plotted(part("sizes-chart"))], table: () => sizesTable(sizes) });
}

function sizesTable(sizes) {
  const names = ["overlay_rows", "overlay_bytes", "base_rows", "base_bytes"];
  return [["step", ...names.map((name) => name.replace("overlay", "session"))], ...sizes.map((size, i) => [i + 1, ...names.map((name) => size?.[name])])];
}

export function sizesSentence({ base_rows, base_bytes, overlay_rows, overlay_bytes }) {
  const values = { overlay: count(overlay_rows), overlayBytes: bytes(overlay_bytes), base: count(base_rows), baseBytes: bytes(base_bytes) };
  return say(base_rows ? "sizes.sentence" : "sizes.alone", values);
}

function sizeRow({ overlay_rows, overlay_bytes }, at, index) {
  const cells = [count(overlay_rows), bytes(overlay_bytes)].map((text) => el("td", { class: "ax-num", text }));
  return el("tr", { class: at === index ? "ax-picked" : null }, el("th", { scope: "row", text: String(at + 1) }), ...cells);
}

function drawSizes(Plotly, box, sizes, index) {
  const y = sizes.map((size) => (size ? size.overlay_rows : null));
  const most = Math.max(1, ...y.filter((value) => value !== null));
  const axes = { x: { range: [0.5, sizes.length + 0.5], nticks: 6, tickformat: "d", title: say("axis.step") }, y: { range: [0, most * 1.15], nticks: 4, tickformat: "~s", title: say("axis.rows") } };
  const data = [{ type: "scatter", mode: "lines", x: y.map((_, i) => i + 1), y, hovertemplate: hoverOf(say("matrix.overlay"), axes), line: { width: 2.5, color: cssToken("--ax-aded") } }];
  Plotly.react(box, data, lineLayout(box, axes, index + 1), PLOT_CONFIG);
}
