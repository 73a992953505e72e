// What the cache saves, drawn: tokens read and pairs compared by the length of the text, with the cache and without; the same in a table.

import { continued, counted, LONGEST, times } from "./caching.js";
import { laneColour, lineLayout, namedLine, PLOT_CONFIG, plotted } from "./charts.js";
import { count, cssToken, el, fixed, setText } from "./dom.js";
import { offer } from "./offers.js";
import { last } from "./record.js";
import { say, sentences } from "./words.js";

const LENGTHS = [256, 512, 1024, 2048, LONGEST]; // of texts, for the table
const WAYS = { kept: "solid", anew: "9px,4px" };

const colourOf = (way, lane, dark) => (way === "kept" ? laneColour(lane, dark) : cssToken("--ax-muted"));

export function renderCaching(part, Plotly, lane, dark) {
  part("caching-card").hidden = !lane.steps.length;
  if (!lane.steps.length) return;
  const seen = counted(lane);
  const ahead = continued(lane, seen);
  setText(part("caching-sentence"), cachingSentence(lane, last(seen), last(ahead)));
  part("caching-rows").replaceChildren(...tableRows(seen, ahead));
  part("caching-key").replaceChildren(...Object.keys(WAYS).map((way) => namedLine(WAYS[way], colourOf(way, lane, dark), say(`caching.${way}`))), el("span", { text: say("caching.race") }));
  const group = "experiment";
  for (const what of ["tokens", "pairs"]) {
    const box = part(`caching-${what}`);
    offer(`cache-${what}`, { group, title: `caching.${what}`, place: () => box, picture: () => [plotted(box), part("caching-key"), box.nextElementSibling] });
    if (Plotly) draw(Plotly, box, what, seen, ahead, (way) => colourOf(way, lane, dark));
  }
  offer("cache", { group, title: "caching.title", place: () => part("caching-pictures"), table: () => cachingTable(seen, ahead) });
}

export function cachingSentence(lane, now, end) {
  const whole = (value) => count(Math.round(value));
  const values = { name: lane.label, count: lane.steps.length, kept: whole(now.kept.tokens), anew: whole(now.anew.tokens), tokens: fixed(times(now).tokens, 1), pairs: fixed(times(now).pairs, 1) };
  const later = { length: whole(end.length), tokens: whole(times(end).tokens), pairs: whole(times(end).pairs) };
  return sentences(say("caching.sentence", values), say("caching.times", values), end === now ? "" : say("caching.later", later));
}

// A table's rows at some lengths: the last pass of the race, and the lane's pace continued.
function tableRows(seen, ahead) {
  const now = last(seen);
  const more = LENGTHS.filter((length) => length > now.length).map((length) => ahead.findLast((row) => row.length <= length));
  return [now, ...more].map((row) => {
    const cells = [row.kept.tokens, row.anew.tokens, row.kept.pairs, row.anew.pairs].map((value) => Math.round(value).toLocaleString("en"));
    return el("tr", {}, el("th", { scope: "row", text: count(Math.round(row.length)) }), ...[...cells, `${fixed(times(row).pairs, 1)}×`].map((text) => el("td", { class: "ax-num", text })));
  });
}

function cachingTable(seen, ahead) {
  const cells = (kind) => ({ length, kept, anew }) => [kind, length, kept.tokens, anew.tokens, kept.pairs, anew.pairs];
  return [["of", "text_tokens", "tokens_read_with", "tokens_read_without", "pairs_with", "pairs_without"], ...seen.map(cells("race")), ...ahead.slice(1).map(cells("continued"))];
}

// On both axes a tenfold is as long everywhere: a power of the length is a straight line, the steeper the higher it is.
function draw(Plotly, box, what, seen, ahead, colour) {
  const line = (way, rows, width) => ({
    type: "scatter",
    mode: "lines",
    x: rows.map(({ length }) => length),
    y: rows.map((row) => row[way][what]),
    hoverinfo: "none",
    line: { color: colour(way), dash: WAYS[way], width },
  });
  const data = Object.keys(WAYS).flatMap((way) => [line(way, ahead, 1.5), line(way, seen, 3.5)]);
  const range = (low, high) => [Math.log10(low), Math.log10(high)];
  const log = { type: "log", dtick: 1, exponentformat: "power" };
  const lowest = Math.min(seen[0].kept[what], seen[0].anew[what]);
  const x = { ...log, tickvals: [32, 64, 128, ...LENGTHS], ticktext: [32, 64, 128, ...LENGTHS].map(count), range: range(seen[0].length * 0.9, Math.max(last(ahead).length, seen[0].length + 1) * 1.05), title: say("axis.text") };
  const y = { ...log, range: range(lowest * 0.8, last(ahead).anew[what] * 1.5), title: say(`axis.${what}`) };
  Plotly.react(box, data, lineLayout(box, { x, y }, null), PLOT_CONFIG);
}
