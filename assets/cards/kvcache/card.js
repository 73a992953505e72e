// Savings by the KV cache as charts and a table: tokens processed and query-key pairs by context length, with and without the cache.

import { extrapolated, measuredReads, MAX_LENGTH, ratios } from "./savings.js";
import { PLOT_CONFIG, hoverOf, lineLayout, plotted } from "../../page/plot/charts.js";
import { namedLine, runColour } from "../../page/plot/lines.js";
import { count, cssToken, el, fixed, setText } from "../../page/core/dom.js";
import { offerExport, registerExport } from "../../page/export/exports.js";
import { last } from "../../page/record/record.js";
import { say, sentences } from "../../page/core/words.js";

const LENGTHS = [256, 512, 1024, 2048, MAX_LENGTH]; // context lengths of the table
const WAYS = { cached: "solid", uncached: "9px,4px" };

const colourOf = (way, run, dark) => (way === "cached" ? runColour(run, dark) : cssToken("--ax-muted"));

export function mount({ part, subscribe }) {
  offerExport("cache-tokens", { group: "experiment", title: "kvcache.tokens", at: part("kvcache-pictures"), picture: true });
  offerExport("cache-pairs", { group: "experiment", title: "kvcache.pairs", at: part("kvcache-pictures"), picture: true });
  offerExport("cache", { group: "experiment", title: "kvcache.title", at: part("kvcache-pictures"), table: true });
  const selected = ({ race, run, dark, Plotly }) => (part("measure").open && !race.running ? [race, run, dark, Plotly, part("measure").clientWidth] : null);
  subscribe("quiet", selected, ({ race, run, dark, Plotly }) => renderKvCache(part, Plotly, race.runs[run], dark));
}

function renderKvCache(part, Plotly, run, dark) {
  part("kvcache-card").hidden = !run.steps.length;
  if (!run.steps.length) return;
  const seen = measuredReads(run);
  const ahead = extrapolated(run, seen);
  setText(part("kvcache-sentence"), kvCacheSentence(run, last(seen), last(ahead)));
  part("kvcache-rows").replaceChildren(...tableRows(seen, ahead));
  part("kvcache-key").replaceChildren(...Object.keys(WAYS).map((way) => namedLine(WAYS[way], colourOf(way, run, dark), say(`kvcache.${way}`))), el("span", { text: say("kvcache.race") }));
  for (const what of ["tokens", "pairs"]) {
    const box = part(`kvcache-${what}`);
    registerExport(`cache-${what}`, { place: () => box, picture: () => [plotted(box), part("kvcache-key"), box.nextElementSibling] });
    if (Plotly) draw(Plotly, box, what, seen, ahead, (way) => colourOf(way, run, dark));
  }
  registerExport("cache", { place: () => part("kvcache-pictures"), table: () => kvCacheTable(seen, ahead) });
}

function kvCacheSentence(run, now, end) {
  const whole = (value) => count(Math.round(value));
  const values = { name: run.label, count: run.steps.length, cached: whole(now.cached.tokens), uncached: whole(now.uncached.tokens), tokens: fixed(ratios(now).tokens, 1), pairs: fixed(ratios(now).pairs, 1) };
  const later = { length: whole(end.length), tokens: whole(ratios(end).tokens), pairs: whole(ratios(end).pairs) };
  return sentences(say("kvcache.sentence", values), say("kvcache.times", values), end === now ? "" : say("kvcache.later", later));
}

// Table rows: the last forward pass of the race, then extrapolated context lengths.
function tableRows(seen, ahead) {
  const now = last(seen);
  const more = LENGTHS.filter((length) => length > now.length).map((length) => ahead.findLast((row) => row.length <= length));
  return [now, ...more].map((row) => {
    const cells = [row.cached.tokens, row.uncached.tokens, row.cached.pairs, row.uncached.pairs].map((value) => Math.round(value).toLocaleString("en"));
    return el("tr", {}, el("th", { scope: "row", text: count(Math.round(row.length)) }), ...[...cells, `${fixed(ratios(row).pairs, 1)}×`].map((text) => el("td", { class: "ax-num", text })));
  });
}

function kvCacheTable(seen, ahead) {
  const cells = (kind) => ({ length, cached, uncached }) => [kind, length, cached.tokens, uncached.tokens, cached.pairs, uncached.pairs];
  return [["of", "text_tokens", "tokens_read_with", "tokens_read_without", "pairs_with", "pairs_without"], ...seen.map(cells("race")), ...ahead.slice(1).map(cells("continued"))];
}

// Both axes are logarithmic: a power of the length is a straight line whose slope is the exponent.
function draw(Plotly, box, what, seen, ahead, colour) {
  const titles = { x: { title: say("axis.text") }, y: { title: say(`axis.${what}`) } };
  const line = (way, rows, width) => ({
    type: "scatter",
    mode: "lines",
    x: rows.map(({ length }) => length),
    y: rows.map((row) => row[way][what]),
    hovertemplate: hoverOf(rows === seen ? say(`kvcache.${way}`) : say("line.extrapolated", { name: say(`kvcache.${way}`) }), titles),
    line: { color: colour(way), dash: WAYS[way], width },
  });
  const data = Object.keys(WAYS).flatMap((way) => [line(way, ahead, 1.5), line(way, seen, 3.5)]);
  const range = (low, high) => [Math.log10(low), Math.log10(high)];
  const log = { type: "log", dtick: 1, exponentformat: "power" };
  const lowest = Math.min(seen[0].cached[what], seen[0].uncached[what]);
  const x = { ...log, tickvals: [32, 64, 128, ...LENGTHS], ticktext: [32, 64, 128, ...LENGTHS].map(count), range: range(seen[0].length * 0.9, Math.max(last(ahead).length, seen[0].length + 1) * 1.05), ...titles.x };
  const y = { ...log, range: range(lowest * 0.8, last(ahead).uncached[what] * 1.5), ...titles.y };
  Plotly.react(box, data, lineLayout(box, { x, y }, null), PLOT_CONFIG);
}
