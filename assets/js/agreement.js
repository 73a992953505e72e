// Agreement of the matrix with the target at each step's root: one curve per part of the matrix, and a table.

import { HOVER, PLOT_CONFIG, lineLayout, namedLine, plotted } from "./charts.js";
import { cssToken, el, setText, small } from "./dom.js";
import { registerExport } from "./exports.js";
import { language, say } from "./words.js";

const WINDOW = 8; // steps per moving average

export const MEASURES = ["total_variation", "top_1", "top_4", "top_12"];
export const PARTS_OF_MATRIX = {
  base: { dash: "2px,3px", colour: "--ax-muted" },
  overlay: { dash: "9px,4px", colour: "--ax-accept" },
  session: { dash: "solid", colour: "--ax-aded" },
};

// Values of one part of the matrix, one entry per step; null if the step has none.
export function values(steps, who, measure) {
  return steps.map((step) => {
    const found = step.agreement.find((agreement) => agreement.who === who);
    return found ? found[measure] : null;
  });
}

// Moving average over the last `size` entries; null entries are ignored.
export function movingMean(list, size) {
  return list.map((_, i) => mean(list.slice(Math.max(0, i - size + 1), i + 1)));
}

export function mean(list) {
  const known = list.filter((value) => value !== null);
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
}

export function createAgreement(part, changed) {
  const picker = part("agreement-measure");
  picker.append(...MEASURES.map((value) => el("option", { value, "data-say": `measure.${value}` })));
  picker.addEventListener("change", changed);
  part("agreement-every").addEventListener("toggle", changed);
  part("agreement-key").replaceChildren(...Object.entries(PARTS_OF_MATRIX).map(partKey));
  let drawn = "";

  function render(Plotly, race, run, index, look) {
    const known = run.steps.some((step) => step.agreement.length);
    part("agreement-card").hidden = !known;
    if (!known) return;
    const measure = picker.value;
    const key = [race.id, race.runs.indexOf(run), run.steps.length, index, measure, part("agreement-every").open, look, part("agreement").clientWidth, language()].join("/");
    if (!Plotly || !part("lab").open || key === drawn) return;
    drawn = key;
    setText(part("agreement-meaning"), say(`measure.${measure}.meaning`));
    Plotly.react(part("agreement"), traces(run.steps, measure), lineLayout(part("agreement"), axes(run.steps.length), index + 1), PLOT_CONFIG);
    part("agreement-now").replaceChildren(...nowRows(run.steps, index, measure));
    const picture = () => [part("agreement-meaning"), part("agreement-key"), plotted(part("agreement"))];
    registerExport("agreement", { group: "matrix", title: "save.agreement", place: () => part("agreement"), picture, table: () => agreementTable(run.steps) });
    part("agreement-steps").replaceChildren(...(part("agreement-every").open ? stepRows(run.steps, index, measure) : []));
  }
  return { render };
}

function agreementTable(steps) {
  const rows = steps.flatMap((step) => step.agreement.map((found) => [step.index + 1, found.who, ...MEASURES.map((measure) => found[measure]), String(found.unseen)]));
  return [["step", "part", ...MEASURES, "unseen"], ...rows];
}

export function partKey([who, { dash, colour }]) {
  return namedLine(dash, `var(${colour})`, el("span", { "data-say": `matrix.${who}` }));
}

function traces(steps, measure) {
  const x = steps.map((_, i) => i + 1);
  return Object.entries(PARTS_OF_MATRIX).flatMap(([who, { dash, colour }]) => {
    const all = values(steps, who, measure);
    const common = { type: "scatter", x, hovertemplate: HOVER };
    const curve = { ...common, mode: "lines", y: movingMean(all, WINDOW), line: { color: cssToken(colour), dash, width: 2.5 } };
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
