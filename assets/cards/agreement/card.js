// Agreement of the matrix with the target at each step's root: one curve per part of the matrix, and a table.

import { cssToken, el, setText, small } from "../../page/core/dom.js";
import { say, sentences } from "../../page/core/words.js";
import { offerExport, registerExport } from "../../page/export/exports.js";
import { PLOT_CONFIG, hoverOf, lineLayout, plotted } from "../../page/plot/charts.js";
import { PARTS_OF_MATRIX, partKey } from "../../page/plot/lines.js";
import { bigramText, currentBigram, rowsSoFar } from "../../page/record/bigrams.js";
import { MEASURES, mean, movingMean, values } from "../../page/record/agreement.js";

const WINDOW = 8; // steps per moving average
const PART_NAMES = { base: "base counts", overlay: "session counts", session: "both" }; // in exported tables

export function mount({ part, changed, subscribe }) {
  offerExport("agreement", { group: "matrix", title: "save.agreement", at: part("agreement-card"), picture: true, table: true });
  const picker = part("agreement-measure");
  const chart = part("agreement");
  picker.append(...MEASURES.map((value) => el("option", { value, "data-say": `measure.${value}` })));
  picker.addEventListener("change", changed);
  part("agreement-every").addEventListener("toggle", changed);
  part("agreement-key").replaceChildren(...Object.entries(PARTS_OF_MATRIX).map(partKey));

  const isKnown = ({ steps }) => steps.some((step) => step.agreement.length);
  subscribe("slow", ({ view }) => [isKnown(view.run)], ({ view }) => (part("agreement-card").hidden = !isKnown(view.run)));
  const selected = ({ view: { run, recorded }, dark, Plotly }) =>
    Plotly && part("lab").open && isKnown(run) ? [run, run.steps.length, recorded, picker.value, part("agreement-every").open, dark, chart.clientWidth] : null;
  subscribe("slow", selected, ({ view: { run, at: index }, Plotly }) => {
    const measure = picker.value;
    setText(part("agreement-meaning"), say(`measure.${measure}.meaning`));
    Plotly.react(chart, traces(run.steps, measure), lineLayout(chart, axes(run.steps.length), index + 1), PLOT_CONFIG);
    part("agreement-now").replaceChildren(...nowRows(run.steps, index, measure));
    const farther = fartherText(run.steps, index);
    setText(part("agreement-farther"), farther);
    setText(part("agreement-parts"), partsText(run.steps[index], Boolean(farther)));
    const picture = () => [part("agreement-meaning"), part("agreement-key"), plotted(chart)];
    registerExport("agreement", { place: () => chart, picture, table: () => agreementTable(run.steps) });
    part("agreement-steps").replaceChildren(...(part("agreement-every").open ? stepRows(run.steps, index, measure) : []));
  });
}

// What the three parts are, and why one of them has no row of the last bigram at this step; `farther`: that of session counts is said already.
export function partsText({ agreement }, farther = false) {
  const found = Object.fromEntries(agreement.map((one) => [one.who, one]));
  const said = (who) => who === "overlay" && farther;
  const reasons = ["base", "overlay"].map((who) => (said(who) ? "" : !found[who] ? say("agreement.unrecorded", { name: say(`matrix.${who}`) }) : found[who].unseen ? say(`agreement.unseen.${who}`) : ""));
  return sentences(say("agreement.parts"), ...reasons);
}

// Why the mixture is farther from the target than base counts alone, with the number of steps that had changed its row; empty if it is not.
export function fartherText(steps, index) {
  const { agreement } = steps[index];
  const [base, session, overlay] = ["base", "session", "overlay"].map((who) => agreement.find((one) => one.who === who));
  if (!base || !session || small(base.total_variation) === small(session.total_variation) || session.total_variation < base.total_variation) return "";
  const known = index ? rowsSoFar(steps, index - 1).get(currentBigram(steps[index])) : null;
  const seen = known ? say("agreement.farther.seen", { bigram: bigramText(known.row.key_texts), count: known.changes }) : "";
  const reasons = overlay?.unseen ? [say("agreement.farther.unseen")] : [seen, say("agreement.farther.why")];
  return sentences(say("agreement.farther", { base: small(base.total_variation), session: small(session.total_variation) }), ...reasons);
}

function agreementTable(steps) {
  const rows = steps.flatMap((step) => step.agreement.map((found) => [step.index + 1, PART_NAMES[found.who], ...MEASURES.map((measure) => found[measure]), String(found.unseen)]));
  return [["step", "part", ...MEASURES, "unseen"], ...rows];
}

function traces(steps, measure) {
  const x = steps.map((_, i) => i + 1);
  const titles = { x: { title: say("axis.step") }, y: { title: say(`measure.${measure}`) } };
  return Object.entries(PARTS_OF_MATRIX).flatMap(([who, { dash, colour }]) => {
    const all = values(steps, who, measure);
    const common = { type: "scatter", x, hovertemplate: hoverOf(say(`matrix.${who}`), titles) };
    const curve = { ...common, hovertemplate: hoverOf(say("agreement.smoothed", { name: say(`matrix.${who}`), count: WINDOW }), titles), mode: "lines", y: movingMean(all, WINDOW), line: { color: cssToken(colour), dash, width: 2.5 } };
    const dots = { ...common, mode: "markers", y: all, opacity: 0.35, marker: { color: cssToken(colour), size: 4 } };
    return who === "session" ? [dots, curve] : [curve];
  });
}

function axes(count) {
  return {
    x: { range: [0.5, count + 0.5], nticks: 6, tickformat: "d", title: say("axis.step") },
    y: { range: [-0.02, 1.02], tickvals: [0, 0.5, 1], title: say("axis.share") },
  };
}

function nowRows(steps, index, measure) {
  return Object.keys(PARTS_OF_MATRIX).map((who) => {
    const seen = steps.flatMap((step) => step.agreement.filter((agreement) => agreement.who === who));
    const cells = [values(steps.slice(index, index + 1), who, measure)[0], mean(values(steps, who, measure))];
    const unseen = seen.filter((agreement) => agreement.unseen).length;
    return el("tr", {}, el("th", { scope: "row", text: say(`matrix.${who}`) }), ...cells.map(cell), el("td", { class: "ax-num", text: say("count.of", { part: unseen, whole: seen.length }) }));
  });
}

function stepRows(steps, index, measure) {
  const columns = Object.keys(PARTS_OF_MATRIX).map((who) => values(steps, who, measure));
  return steps.map((_, i) =>
    el("tr", { class: i === index ? "ax-picked" : null }, el("th", { scope: "row", text: String(i + 1) }), ...columns.map((list) => cell(list[i]))),
  );
}

function cell(value) {
  return el("td", { class: "ax-num", text: small(value) });
}
