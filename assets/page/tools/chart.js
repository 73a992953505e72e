// A chart of the calculator: a line over the draft length, the chosen point, the optimum, and of each run theory and measurement.

import { cssToken, isDark } from "../core/dom.js";
import { say } from "../core/words.js";
import { PLOT_CONFIG, hoverOf, lineLayout } from "../plot/charts.js";
import { runColour } from "../plot/lines.js";
import { MAX_DEPTH, optimum } from "../record/estimate.js";

// `chart`: {name, of, run, suffix}: a row's value, and a run's theoretical and measured one; `rows`: of theory.js; `runs`: its measured runs.
export function drawChart(Plotly, box, { name, of, run: pairOf, suffix }, rows, gamma, runs) {
  const pairs = runs.map((one) => ({ ...one, pair: pairOf(one) })).filter(({ pair }) => !pair.includes(null));
  const top = Math.max(1.2, ...rows.map(of), ...pairs.flatMap(({ pair }) => pair));
  const axes = {
    x: { range: [-0.5, MAX_DEPTH + 0.5], nticks: 7, title: say("calculator.gamma") },
    y: { range: [0, 1.12 * top], nticks: 5, ticksuffix: suffix, title: say(`calculator.${name}.axis`) },
  };
  const [ink, accent] = ["--ax-ink", "--ax-accept"].map(cssToken);
  const { best } = optimum(rows);
  const points = { type: "scatter", mode: "markers" };
  const line = { type: "scatter", mode: "lines", x: rows.map(({ depth }) => depth), y: rows.map(of), hovertemplate: hoverOf(say("calculator.line"), axes), line: { color: ink, width: 2.5 } };
  const chosen = { ...points, x: [gamma], y: [of(rows[gamma])], hovertemplate: hoverOf(say("calculator.chosen"), axes), marker: { color: accent, size: 13, line: { color: cssToken("--ax-card"), width: 2 } } };
  const optimal = { ...points, x: [best.depth], y: [of(best)], hovertemplate: hoverOf(say("calculator.best"), axes), marker: { color: cssToken("--ax-card"), symbol: "diamond", size: 10, line: { color: ink, width: 2 } } };
  const marks = pairs.flatMap(({ run, gamma: at, pair: [theory, measured] }) => {
    const color = runColour(run, isDark());
    const link = { type: "scatter", mode: "lines", x: [at, at], y: [theory, measured], hoverinfo: "skip", line: { color, width: 1.5, dash: "2px,2px" } };
    const mark = (key, y, symbol) => ({ ...points, x: [at], y: [y], hovertemplate: hoverOf(`${run.label}: ${say(key)}`, axes), marker: { color, symbol, size: 9, line: { color, width: 2 } } });
    return [link, mark("calculator.theory", theory, "circle-open"), mark("calculator.measured.short", measured, "circle")];
  });
  const layout = lineLayout(box, axes, gamma);
  const [now] = layout.shapes;
  const plain = { type: "line", x0: 0, x1: 1, xref: "paper", y0: 1, y1: 1, line: { color: cssToken("--ax-muted"), width: 1.5, dash: "2px,3px" } };
  const shapes = [{ ...now, line: { ...now.line, color: accent, dash: "2px,3px" } }, plain];
  Plotly.react(box, [line, ...marks, ...(best.ratio > 1 ? [optimal] : []), chosen], { ...layout, shapes }, PLOT_CONFIG);
}
