// The calculator of speculative decoding: expected tokens per step and speed-up for an acceptance rate, a draft length and costs, and the runs of
// the race on screen with what was measured.

import { errorOf, numberOf } from "../controls/number.js";
import { el, number, setText } from "../core/dom.js";
import { emit, on } from "../core/events.js";
import { say, sentences } from "../core/words.js";
import { createSheet } from "../learn/sheet.js";
import { plotly } from "../plot/charts.js";
import { paintRun } from "../plot/lines.js";
import { MAX_DEPTH, optimum } from "../record/estimate.js";
import { drawChart } from "./chart.js";
import { createField } from "./field.js";
import { FIELDS, measuredRuns, predictions } from "./theory.js";

const DIGITS = 3; // decimals of a value that is taken from a run
const CHARTS = [
  { name: "ratio", of: (row) => row.ratio, run: ({ speed, theory }) => [theory.speed, speed], suffix: "×" },
  { name: "tokens", of: (row) => row.tokens, run: ({ tokens, theory }) => [theory.tokens, tokens], suffix: "" },
];

const rounded = (value) => String(Number(value.toFixed(DIGITS)));

// Returns {open(link), dialog}; the values of a link are texts.
export function createCalculator() {
  const texts = Object.fromEntries(FIELDS.map(({ name, first }) => [name, String(first)]));
  const valid = { ...texts }; // the last valid text of each field
  let race = null;
  let seen = ""; // the race of the table, and whether it was running
  let view = null;
  const sheet = createSheet("tool-calculator", "tool.calculator", content);
  const values = () => Object.fromEntries(FIELDS.map(({ name }) => [name, numberOf(valid[name])]));
  const runs = () => (race && !race.running ? measuredRuns(race) : []);

  function set(changes) {
    Object.assign(texts, changes);
    for (const field of FIELDS) if (!errorOf(texts[field.name], field)) valid[field.name] = texts[field.name];
    if (!view) return;
    for (const { name } of FIELDS) view.fields[name].show(texts[name], valid[name]);
    render();
  }

  function content() {
    const fields = Object.fromEntries(FIELDS.map((field) => [field.name, createField(field, (text) => set({ [field.name]: text }))]));
    const figures = CHARTS.map(({ name }) => {
      const box = el("div", { class: "ax-line-chart", role: "img", "aria-label": say(`calculator.${name}.label`), "data-part": `tool-${name}-chart` });
      return { box, element: el("figure", {}, el("figcaption", { text: say(`calculator.${name}.title`) }), box) };
    });
    view = { fields, boxes: figures.map(({ box }) => box), result: el("dl", { class: "ax-tool-result" }), sentence: el("p", { class: "ax-sentence", "aria-live": "polite", "data-part": "tool-sentence" }), presets: el("div", { class: "ax-tool-presets", role: "group", "aria-label": say("calculator.presets") }), measured: el("section") };
    const observer = new ResizeObserver(draw);
    for (const box of view.boxes) observer.observe(box);
    fillMeasured();
    set({});
    return [
      el("p", { class: "ax-dim", text: say("calculator.intro") }),
      view.presets,
      el("div", { class: "ax-tool-fields" }, ...FIELDS.map(({ name }) => fields[name].element)),
      view.result,
      view.sentence,
      el("div", { class: "ax-three" }, ...figures.map(({ element }) => element)),
      el("p", { class: "ax-dim", text: say("calculator.key") }),
      view.measured,
      sources(),
    ];
  }

  function fillMeasured() {
    const found = runs();
    const pills = found.map((one) => preset(one.run.label, { alpha: rounded(one.alpha), gamma: String(Math.max(1, Math.round(one.gamma))), ...(one.c === null ? {} : { c: rounded(one.c), v: rounded(one.v) }) }, one.run));
    view.presets.replaceChildren(el("span", { class: "ax-dim", text: say("calculator.presets") }), ...pills, preset(say("calculator.paper"), { v: "1" }), preset(say("calculator.free"), { c: "0", v: "1" }));
    const title = el("h3", { text: say("calculator.measured") });
    view.measured.replaceChildren(title, ...(found.length ? [table(found), el("p", { class: "ax-dim", text: say("calculator.why") })] : [el("p", { class: "ax-dim", text: say(race?.running ? "calculator.running" : "calculator.none") })]));
  }

  function preset(label, changes, run = null) {
    const button = el("button", { type: "button", class: "ax-pill ax-small-pill", "data-preset": run ? "run" : "paper", text: label });
    if (run) paintRun(button, run);
    button.addEventListener("click", () => {
      const inRange = FIELDS.filter(({ name }) => changes[name] !== undefined).map(({ name, minimum, maximum }) => [name, String(Math.min(maximum, Math.max(minimum, Number(changes[name]))))]);
      set(Object.fromEntries(inRange));
    });
    return button;
  }

  function render() {
    const now = values();
    const rows = predictions(now);
    const here = rows[now.gamma];
    const { best } = optimum(rows);
    const result = (key, text) => el("div", {}, el("dt", { text: say(key) }), el("dd", { class: "ax-num", text }));
    view.result.replaceChildren(result("calculator.tokens", number(here.tokens)), result("calculator.speed", `${number(here.ratio)}×`), result("calculator.best", best.ratio > 1 ? say("calculator.best.value", { gamma: best.depth, ratio: number(best.ratio) }) : "–"));
    setText(view.sentence, sentenceOf(now, here, best));
    emit("tool", { tool: "calculator", ...now, v: now.v === 1 ? null : now.v });
    draw();
  }

  async function draw() {
    const Plotly = await plotly().catch(() => null);
    if (!view.boxes[0].clientWidth) return;
    const [now, found] = [values(), runs()];
    for (const [i, chart] of CHARTS.entries()) {
      if (Plotly) drawChart(Plotly, view.boxes[i], chart, predictions(now), now.gamma, found);
      else setText(view.boxes[i], say("error.charts"));
    }
  }

  on("shown", (shown) => {
    const now = `${shown.race.id}/${shown.race.running}`;
    if (now === seen) return;
    [seen, race] = [now, shown.race];
    if (view && sheet.body.closest("dialog").open) {
      fillMeasured();
      draw();
    }
  });

  // A link has the values that differ from the first ones; without a link, the tool is as it was left.
  function open(link) {
    if (link.tool) set(Object.fromEntries(FIELDS.map(({ name, first }) => [name, link[name] ?? String(first)])));
    sheet.open();
    draw();
  }
  return { open, dialog: sheet.body.closest("dialog") };
}

function sentenceOf({ alpha, c, v, gamma }, here, best) {
  const shown = { alpha: number(alpha), gamma, tokens: number(here.tokens), seconds: number(here.seconds), ratio: number(here.ratio), best: best.depth, most: number(best.ratio) };
  const verdict = best.ratio <= 1 ? "never" : best.depth === MAX_DEPTH ? "deeper" : best.depth === gamma ? "optimal" : "better";
  const bound = v === 1 && alpha > c ? say("calculator.bound", { bound: number((1 + alpha) / (1 + c)) }) : "";
  return sentences(say("calculator.sentence", shown), say(`calculator.verdict.${verdict}`, shown), bound);
}

function table(found) {
  const heads = ["run", "alpha.short", "gamma.short", "c.short", "v.short", "theory", "measured.short", "theory", "measured.short"];
  const groups = el("tr", {}, el("td", { colspan: "5" }), ...["tokens", "speed"].map((name) => el("th", { colspan: "2", scope: "colgroup", text: say(`calculator.${name}`) })));
  const head = el("thead", {}, groups, el("tr", {}, ...heads.map((name) => el("th", { scope: "col", text: say(`calculator.${name}`) }))));
  const times = (value) => (value === null ? "–" : `${number(value)}×`);
  const rows = found.map(({ run, alpha, gamma, c, v, tokens, speed, theory }) => {
    const name = el("th", { scope: "row", class: "ax-tool-run", text: run.label });
    paintRun(name, run);
    const cells = [number(alpha), number(gamma, 1), number(c, 3), number(v), number(theory.tokens), number(tokens), times(theory.speed), times(speed)];
    return el("tr", {}, name, ...cells.map((text) => el("td", { class: "ax-num", text })));
  });
  return el("div", { class: "ax-wide", tabindex: "0", role: "group", "aria-label": say("calculator.measured") }, el("table", { class: "ax-agree", "data-part": "tool-measured" }, head, el("tbody", {}, ...rows)));
}

function sources() {
  const entry = (name) => el("li", {}, el("code", { text: say(`calculator.formula.${name}`) }), el("span", { class: "ax-dim", text: say(`calculator.source.${name}`) }));
  return el("section", { class: "ax-tool-sources" }, el("h3", { text: say("calculator.sources") }), el("ul", {}, ...["tokens", "speed", "bound"].map(entry)), el("p", { class: "ax-dim", text: say("calculator.paper.full") }));
}
