// The neighbourhood of a bigram as a graph: nodes are bigrams, edges are continuations, whose width shows the probability.

import { cssToken, el, exact, plotText, setText, small, visible } from "../../page/core/dom.js";
import { say } from "../../page/core/words.js";
import { offerExport, registerExport } from "../../page/export/exports.js";
import { outlined, plotDrawing, registerDrawing } from "../../page/export/svgexport.js";
import { PLOT_CONFIG, hoverLabel, plotted } from "../../page/plot/charts.js";
import { curve } from "../../page/plot/lines.js";
import { bigramButton, bigramText, changeCell, changeText, learns, neighbourhood, placed, selectedRow } from "../../page/record/bigrams.js";
import { edgeRoutes } from "./edgeroutes.js";

const ROW = { least: 22, most: 27 }; // pixels between rows
const HEIGHT = 620; // height in pixels that the graph should fit in
const MARGIN = { left: 26, right: 138, top: 30, bottom: 28 };
const LEADING_MARGIN = 150; // additional margin on the left for labels of two tokens
const COLUMN = { least: 148, most: 210 };
const LETTERS = 9;
const LEADING_LETTERS = 8; // of each token of bigrams before the centre
const WIDTHS = [1, 2, 3.5, 5]; // widths of edges, by probability
const THIN = 1.25; // width of edges back to an existing node
const KINDS = ["plain", "up", "down"];

export function mount({ part, player, changed, subscribe }) {
  offerExport("bigrams", { group: "matrix", title: "bigrams.title", at: part("bigrams"), picture: true, table: true });
  const choose = player.selectBigram;
  const root = part("bigrams");
  const plot = el("div", { class: "ax-bigrams-plot", "aria-hidden": "true" });
  root.replaceChildren(plot);
  let wired = false;
  let kept = { step: null, width: 0, height: 0 };
  registerDrawing(plot, async () => outlined(await plotDrawing(plot)));
  part("bigrams-every").addEventListener("toggle", changed);

  const selected = ({ view, bigram, dark, Plotly }) => [learns(view.run), view.recorded, bigram, dark, Plotly, root.clientWidth, part("bigrams-every").open];
  subscribe("slow", selected, ({ view, bigram, Plotly }) => {
    part("bigrams-card").hidden = !learns(view.run);
    if (!learns(view.run)) return;
    const { rows, row, name } = selectedRow(view.run.steps, view.at, bigram);
    root.hidden = !row;
    if (row && root.clientWidth) render(Plotly, rows, name);
    keepHeight(view.recorded);
  });

  // While a step is shown, the graph keeps its height when a bigram with fewer neighbours is selected, so that nothing below moves.
  function keepHeight(step) {
    const width = root.clientWidth;
    root.style.minHeight = step === kept.step && width === kept.width ? `${kept.height}px` : "";
    kept = { step, width, height: root.offsetHeight };
    root.style.minHeight = `${kept.height}px`;
  }

  function render(Plotly, rows, centre) {
    const graph = neighbourhood(rows, centre);
    setText(part("bigrams-folded"), graph.folded ? say("bigrams.folded", { count: graph.folded }) : "");
    root.setAttribute("aria-label", say("bigrams.summary", { bigram: bigramText(rows.get(centre).row.key_texts), count: graph.nodes.length - 1 }));
    part("bigrams-rows").replaceChildren(...(part("bigrams-every").open ? edgeRows(graph, choose) : []));
    if (Plotly) draw(Plotly, graph, centre);
    registerExport("bigrams", { place: () => root, picture: () => [part("bigrams-legend"), plotted(plot)], table: () => edgesTable(graph) });
  }

  function draw(Plotly, graph, centre) {
    const grid = geometry(plot.clientWidth, graph.nodes);
    Plotly.react(plot, traces(graph, grid, centre), layout(grid), PLOT_CONFIG);
    if (grid.width > root.clientWidth) root.scrollLeft = grid.place({ name: centre })[0] - MARGIN.left;
    if (wired) return;
    wired = true;
    plot.on("plotly_click", (event) => choose(event.points[0].customdata));
  }
}

// The kind of an edge: back to an existing bigram, or a continuation whose probability rose, fell or did not change.
export function kindOf({ change, tree }) {
  return !tree ? "again" : change > 0 ? "up" : change < 0 ? "down" : "plain";
}

export function bucketOf(weight) {
  return weight >= 0.5 ? 3 : weight >= 0.2 ? 2 : weight >= 0.05 ? 1 : 0;
}

function geometry(available, nodes) {
  const { places, columns, rows } = placed(nodes);
  const left = MARGIN.left + (nodes.some((node) => node.depth < 0) ? LEADING_MARGIN : 0);
  const width = available - left - MARGIN.right;
  const wide = Math.max(COLUMN.least, Math.min(COLUMN.most, width / Math.max(1, columns - 1)));
  const gaps = Math.max(1, rows - 1);
  const row = Math.max(ROW.least, Math.min(ROW.most, (HEIGHT - MARGIN.top - MARGIN.bottom) / gaps));
  const at = (x, y) => [left + x * wide, MARGIN.top + y * row];
  const place = ({ name }) => at(places.get(name).x, places.get(name).y);
  return { at, columns, places, place, width: Math.max(260, left + MARGIN.right + wide * (columns - 1)), height: MARGIN.top + MARGIN.bottom + row * gaps };
}

function layout({ width, height }) {
  const axis = { visible: false, fixedrange: true };
  const clear = "rgba(0,0,0,0)";
  const common = { margin: { l: 0, r: 0, t: 0, b: 0 }, paper_bgcolor: clear, plot_bgcolor: clear, showlegend: false, hovermode: "closest", hoverlabel: hoverLabel(), dragmode: false };
  return { width, height, ...common, font: { family: cssToken("--ax-mono"), size: 12 }, xaxis: { ...axis, range: [0, width] }, yaxis: { ...axis, range: [height, 0] } };
}

function traces({ nodes, edges }, grid, centre) {
  const byName = new Map(nodes.map((node) => [node.name, node]));
  const tree = edges.filter((edge) => edge.tree);
  const back = edges.filter((edge) => !edge.tree);
  const ways = new Map(edgeRoutes(back, grid.places, grid).map((way, i) => [back[i], way]));
  const lines = KINDS.flatMap((kind) => WIDTHS.map((width, bucket) => edgeTrace(tree.filter((e) => kindOf(e) === kind && bucketOf(e.weight) === bucket), byName, grid, kind, width)));
  return [...[backTrace(back, ways), ...lines].filter((trace) => trace.x.length), nodeTrace(nodes, grid, centre)];
}

const EDGES = {
  plain: { colour: "--ax-aded", dash: "solid", opacity: 0.45 },
  up: { colour: "--ax-target", dash: "solid", opacity: 0.9 },
  down: { colour: "--ax-reject", dash: "5px,3px", opacity: 0.9 },
  again: { colour: "--ax-faint", dash: "2px,3px", opacity: 0.8 },
};

function edgeTrace(edges, byName, { place }, kind, width) {
  const [x, y] = [[], []];
  for (const { from, to } of edges) curve(place(byName.get(from)), place(byName.get(to)), x, y);
  const { colour, dash, opacity } = EDGES[kind];
  return { type: "scatter", mode: "lines", x, y, hoverinfo: "skip", opacity, line: { color: cssToken(colour), dash, width } };
}

// Edges back to an existing node, routed around the labels.
function backTrace(edges, ways) {
  const points = edges.flatMap((edge) => [...ways.get(edge), [null, null]]);
  const { colour, dash, opacity } = EDGES.again;
  const [x, y] = [0, 1].map((k) => points.map((point) => point[k]));
  return { type: "scatter", mode: "lines", x, y, hoverinfo: "skip", opacity: opacity * 0.7, line: { color: cssToken(colour), dash, width: THIN } };
}

function nodeTrace(nodes, { place }, centre) {
  const [aded, card, ink, muted, now] = ["--ax-aded", "--ax-card", "--ax-ink", "--ax-muted", "--ax-now-line"].map(cssToken);
  const colour = nodes.map((node) => (node.name === centre ? ink : node.now ? now : aded));
  const size = nodes.map((node) => (node.name === centre ? 15 : 7 + 8 * Math.sqrt(Math.min(1, node.weight))));
  return {
    type: "scatter",
    mode: "markers+text",
    x: nodes.map((node) => place(node)[0]),
    y: nodes.map((node) => place(node)[1]),
    customdata: nodes.map((node) => node.name),
    hoverinfo: "text",
    hovertext: nodes.map(hoverText),
    text: nodes.map((node) => label(node, muted)),
    textposition: nodes.map((node) => (node.depth < 0 ? "middle left" : "top right")),
    textfont: { family: cssToken("--ax-mono"), size: 12, color: nodes.map((node) => (node.known ? ink : muted)) },
    cliponaxis: false,
    marker: { symbol: nodes.map(symbolOf), size, color: nodes.map((node, i) => (node.known ? colour[i] : card)), line: { color: colour, width: 1.5 }, opacity: 1 },
  };
}

// Diamonds are rows that the step changed. Bigrams without a recorded row are filled with the background colour.
function symbolOf({ now }) {
  return now ? "diamond" : "circle";
}

function label(node, muted) {
  const text = plotText(node.depth > 0 ? visible(node.texts[1], LETTERS) : bigramText(node.texts, node.depth ? LEADING_LETTERS : LETTERS));
  if (node.depth === 0) return `<b>${text}</b>`;
  const mark = node.change > 0 ? "▲" : node.change < 0 ? "▼" : "";
  return `${text} <span style="font-size:10px;color:${muted}">${small(node.weight)}${mark}</span>`;
}

function hoverText(node) {
  const text = plotText(bigramText(node.texts, 40));
  return node.depth === 0 ? text : `${text}<br>${say("bigrams.weight")} ${exact(node.weight)}${node.change ? ` (${changeText(node.change)})` : ""}`;
}

function edgesTable({ nodes, edges }) {
  const byName = new Map(nodes.map((node) => [node.name, node]));
  const words = (name) => byName.get(name).texts.join("");
  const rows = edges.map(({ from, to, weight, change }) => [from, words(from), to, words(to), weight, change]);
  return [["from", "from_text", "to", "to_text", "weight", "change"], ...rows];
}

function edgeRows({ nodes, edges }, choose) {
  const byName = new Map(nodes.map((node) => [node.name, node]));
  return edges.map(({ from, to, weight, change }) => {
    const cells = [byName.get(from), byName.get(to)].map((node) => el("td", { class: "ax-left" }, bigramButton(node, choose)));
    return el("tr", {}, ...cells, el("td", { class: "ax-num", text: small(weight) }), changeCell(change));
  });
}
