// Base counts and session counts: how much of a row was learned in this session, and the sizes of both over the run.

import { HOVER, PLOT_CONFIG, lineLayout, plotted } from "./charts.js";
import { bytes, count, cssToken, el, setText, small, visible } from "./dom.js";
import { registerExport } from "./exports.js";
import { bigramText } from "./bigramgraph.js";
import { successors } from "./bigrams.js";
import { say } from "./words.js";

const SHOWN = 8;

export function renderLearnedShare(part, known) {
  const entries = known ? successors(known).filter(({ learned }) => learned !== null) : [];
  part("learned-table").hidden = !entries.length;
  setText(part("learned-key"), entries.length ? learnedSentence(known, entries) : say("learned.unknown"));
  part("learned-rows").replaceChildren(...entries.slice(0, SHOWN).map((one) => learnedRow(one, Math.max(0.01, entries[0].weight))));
  const picture = () => [part("learned-key"), part("learned-rows").closest("table")];
  registerExport("learned", { group: "matrix", title: "learned.title", place: () => part("learned-table"), picture, table: () => learnedTable(known, entries) });
}

function learnedTable({ row }, entries) {
  return [["bigram", "token", "text", "base", "learned"], ...entries.map(({ token, text, weight, learned }) => [row.key_texts.join(""), token, text, weight - learned, learned])];
}

// The share of the row's probability that comes from session counts.
export function learnedSentence({ row }, entries) {
  const sum = (of) => entries.reduce((total, one) => total + of(one), 0);
  const share = sum((one) => one.learned) / Math.max(1e-9, sum((one) => one.weight));
  return say("learned.sentence", { bigram: bigramText(row.key_texts), share: Math.round(100 * share) });
}

function learnedRow({ text, weight, learned }, top) {
  const segments = [["ax-share-learned", learned], ["ax-share-base", weight - learned]].map(([name, value]) => {
    const segment = el("i", { class: name });
    segment.style.width = `${(100 * value) / top}%`;
    return segment;
  });
  const track = el("td", { class: "ax-track-cell" }, el("div", { class: "ax-split-track", "aria-hidden": "true" }, ...segments));
  const numbers = [weight - learned, learned].map((value) => el("td", { class: "ax-num", text: small(value) }));
  return el("tr", {}, el("th", { scope: "row" }, el("code", { text: visible(text, 14) })), track, ...numbers);
}

export function renderSizes(part, Plotly, steps, index) {
  const sizes = steps.map((step) => step.size || null);
  const known = sizes.some(Boolean);
  part("sizes").hidden = !known;
  if (!known) return;
  setText(part("sizes-sentence"), sizes[index] ? sizesSentence(sizes[index]) : "");
  part("sizes-rows").replaceChildren(...(part("sizes-every").open ? sizes.flatMap((size, i) => (size ? [sizeRow(size, i, index)] : [])) : []));
  if (Plotly && part("sizes-chart").clientWidth) drawSizes(Plotly, part("sizes-chart"), sizes, index);
  registerExport("sizes", { group: "matrix", title: "save.sizes", place: () => part("sizes"), picture: () => [part("sizes-sentence"), plotted(part("sizes-chart"))], table: () => sizesTable(sizes) });
}

function sizesTable(sizes) {
  const names = ["overlay_rows", "overlay_bytes", "base_rows", "base_bytes"];
  return [["step", ...names], ...sizes.map((size, i) => [i + 1, ...names.map((name) => size?.[name])])];
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
  const data = [{ type: "scatter", mode: "lines", x: y.map((_, i) => i + 1), y, hovertemplate: HOVER, line: { width: 2.5, color: cssToken("--ax-aded") } }];
  const axes = { x: { range: [0.5, sizes.length + 0.5], nticks: 6, tickformat: "d", title: say("axis.step") }, y: { range: [0, most * 1.15], nticks: 4, tickformat: "~s", title: say("axis.rows") } };
  Plotly.react(box, data, lineLayout(box, axes, index + 1), PLOT_CONFIG);
}
