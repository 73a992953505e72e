// The runs side by side: the text of each method, the source of each token, tokens per step, speed-up and acceptance rate.

import { BIDI, cssToken, el, fixed, setText, toggleClass } from "../../page/core/dom.js";
import { emit } from "../../page/core/events.js";
import { offerExport, registerExport } from "../../page/export/exports.js";
import { lossyMark } from "../../page/controls/picker.js";
import { paintRun } from "../../page/plot/lines.js";
import { covered, stepsShown } from "../../page/shell/player.js";
import { FEW, PARTS, acceptanceRate, column, last, plainRun, runStats, speedSpread, stepsDone, targetTokenKind } from "../../page/record/record.js";
import { engineText } from "../../page/record/enginetext.js";
import { say } from "../../page/core/words.js";
import { createWelcome } from "./welcome.js";

const MAX_REJECTED = 4; // rejected tokens that are shown
const MOST_RUNS = 6; // of a race that runs here; a file may have more
const FONTS = { label: "650 15px", speed: "700 23px", figures: "12.5px" }; // of the parts of a head (card.css)
const SPACES = 42; // pixels of a head that are not for them

export function mount({ part, state, player, subscribe }) {
  offerExport("runs", { group: "race", title: "save.runs", at: part("runs"), picture: true, table: true });
  const [root, toggle] = [part("runs"), part("rejected")];
  let views = [];
  createWelcome(part);
  root.addEventListener("click", (event) => {
    const view = views.find((v) => v.root.contains(event.target));
    if (!view) return;
    const step = event.target.closest(".ax-step");
    if (step) player.setRun(view.index, Number(step.dataset.step));
    else if (event.target.closest(".ax-about")) emit("article", state.race.runs[view.index].header.method);
    else if (event.target.closest(".ax-run-head")) player.setRun(view.index);
  });
  toggle.addEventListener("click", () => {
    const on = toggle.getAttribute("aria-pressed") !== "true";
    toggle.setAttribute("aria-pressed", String(on));
    root.dataset.rejected = String(on);
    showNow();
  });
  const showNow = () => {
    for (const { parts } of views) keepInView(parts.text, parts.text.querySelector(".ax-now"));
  };
  new ResizeObserver(showNow).observe(root); // the texts are lower beside some tabs

  subscribe("frame", ({ race }) => [race], ({ race }) => {
    views = race.runs.map(createRun);
    for (const view of views) scrollTogether(view, views);
    root.replaceChildren(...views.map((view) => view.root));
    root.dataset.many = String(race.runs.length > 3);
    root.dataset.over = String(race.runs.length > MOST_RUNS); // a selector with :has(:nth-child) takes 0.1 s of every step
    root.style.setProperty("--ax-runs", race.runs.length);
    const picture = () => {
      const texts = views.map(({ parts }) => [parts.label.parentElement, parts.text]);
      return [...(root.dataset.many === "true" ? texts.flat() : [texts]), part("origins")];
    };
    registerExport("runs", { place: () => root, picture, table: () => runsTable(race) });
  });

  subscribe("frame", ({ race, run }) => [race, run, root.clientHeight], ({ run }) => revealRow(root, views[run].root));
  const headWidth = () => views[0]?.root.querySelector(".ax-run-head").clientWidth ?? 0;
  subscribe("frame", ({ race }) => [race, headWidth()], ({ race }) => (root.dataset.head = headOf(race, headWidth())));
  const selected = ({ race, run, step, time, playing, following }) => [race, race.read, run, step, time, playing !== 0 || following, covered(state), root.clientWidth];
  subscribe("frame", selected, () => {
    const base = plainRun(state.race);
    for (const view of views) renderRun(view, state, base);
  });
}

// Scrolls the box of the runs, where it is lower than they are, to the selected one.
function revealRow(root, row) {
  const below = row.offsetTop + row.offsetHeight - root.clientHeight;
  if (root.scrollHeight > root.clientHeight + 1) root.scrollTop = Math.max(below, Math.min(root.scrollTop, row.offsetTop));
}

// A text that the user scrolls takes the others with it, by share of their heights.
function scrollTogether({ parts }, views) {
  let mine = false;
  for (const name of ["wheel", "pointerdown", "touchmove", "keydown"]) parts.text.addEventListener(name, () => (mine = true), { passive: true });
  parts.text.addEventListener("scroll", () => {
    if (!mine) return;
    mine = false;
    const share = parts.text.scrollTop / Math.max(1, parts.text.scrollHeight - parts.text.clientHeight);
    for (const { parts: other } of views) if (other !== parts) other.text.scrollTop = share * (other.text.scrollHeight - other.text.clientHeight);
  });
}

function createRun(run, index) {
  const parts = {
    look: el("button", { class: "ax-look", type: "button", text: run.label }),
    speed: el("span", { class: "ax-speed" }),
    figures: el("span", { class: "ax-figures" }),
    about: el("button", { class: "ax-about", type: "button", "data-no-picture": "", "aria-label": say("run.about", { name: run.label }), title: say("run.about", { name: run.label }), text: "?" }),
    text: el("p", { class: "ax-text", tabindex: "0", "aria-label": say("run.text", { name: run.label }) }),
  };
  parts.label = el("h3", { class: "ax-run-label" }, parts.look, lossyMark(run.header));
  const root = el("article", { class: "ax-run-view", "data-method": run.header.method });
  paintRun(root, run);
  const notice = run.header.notice ? el("p", { class: "ax-run-notice", text: engineText(run.header.notice) }) : null;
  root.append(el("div", { class: "ax-run-head" }, parts.label, parts.speed, parts.figures, parts.about), el("div", { class: "ax-run-main" }, parts.text, notice));
  return { root, index, run, parts, steps: [] };
}

function renderRun(view, state, base) {
  const { run, parts, index } = view;
  while (view.steps.length < run.steps.length) appendStep(view);
  parts.text.dataset.empty = run.steps.length ? "" : say("run.waiting");
  const done = stepsShown(state, run);
  const now = runStats(run, done);
  setText(parts.speed, now.steps ? now.perStep.toFixed(1) : "–");
  renderFigures(parts.figures, figuresOf(run, state, base, now, done));
  parts.figures.title = [parts.figures.textContent, say("run.figures.meaning"), run.loop === null ? "" : say("run.loops.meaning", { count: run.loop })].filter(Boolean).join("\n");
  const focus = state.run === index;
  toggleClass(view.root, "ax-focus", focus);
  parts.look.setAttribute("aria-pressed", String(focus));
  parts.look.title = say(focus ? "run.shown" : "run.show");
  renderSteps(view, state, done);
}

// How the heads of the runs are laid out, the same for all and at every time, so that nothing moves while a race runs: "row" in one row,
// "short" without the range of the speed-up, "rows" with the figures below the name.
function headOf(race, width) {
  const pen = document.createElement("canvas").getContext("2d");
  const measure = (text, font) => {
    pen.font = `${font} ${cssToken("--ax-sans")}`;
    return pen.measureText(text).width;
  };
  const base = plainRun(race);
  const widest = (withRange) => Math.max(...race.runs.map((run) => {
    const name = run.label + (run.header.lossless ? "" : `  ${say("lossy")}`);
    const figures = [say("run.unit.part"), ...(run === base ? [] : [`0.00×`, say("run.accepts", { alpha: "0.00" })]), ...(run.loop === null ? [] : [say("run.loops")])];
    const ended = race.source === "run" || run === base ? [] : figuresOf(run, { race, time: Infinity }, base, runStats(run, run.steps.length), run.steps.length).map((texts) => (withRange ? texts.join("") : texts[0]));
    const texts = [figures, ended].map((parts) => measure(parts.join(" · "), FONTS.figures));
    return measure(name, FONTS.label) + measure("0.0", FONTS.speed) + Math.max(...texts) + SPACES;
  }));
  return widest(true) <= width ? "row" : widest(false) <= width ? "short" : "rows";
}

// The unit of the large number, the speed-up over plain decoding with its range over repeats, the acceptance rate, and whether the text loops.
function figuresOf(run, state, base, now, done) {
  const plain = base ? runStats(base, stepsDone(base, state.time)) : null;
  const whole = done === run.steps.length && !state.race.running;
  const accepted = acceptanceRate(run.steps.slice(0, done));
  return [
    [say(whole ? "run.unit" : "run.unit.part")],
    run === base ? [] : speedTexts(run, base, now, plain, whole),
    accepted === null ? [] : [say("run.accepts", { alpha: accepted.toFixed(2) })],
    run.loop === null ? [] : [say("run.loops")],
  ].filter((texts) => texts.length);
}

// Each figure has a text and may have a range.
function renderFigures(box, figures) {
  const texts = figures.map(([text, range = ""], i) => [i ? ` · ${text}` : text, range]);
  if (box.textContent === texts.flat().join("")) return;
  box.replaceChildren(...texts.flatMap(([text, range]) => [text, ...(range ? [el("span", { class: "ax-range", text: range })] : [])]));
}

function speedTexts(run, base, now, plain, whole) {
  if (!plain?.rate || !now.rate || Math.min(now.tokens, plain.tokens) < FEW) return [];
  const spread = whole ? speedSpread(run, base) : null;
  if (!spread) return [`${ratioText(now.rate / plain.rate)}×`];
  const [low, median, high] = spread.map(ratioText);
  return low === high ? [`${median}×`] : [`${median}×`, say("run.range", { low, high })];
}

function ratioText(ratio) {
  return fixed(ratio, ratio < 1 ? 2 : 1);
}

const LETTERS = /\p{L}/u;
const RIGHT_TO_LEFT = /[\p{sc=Hebrew}\p{sc=Arabic}\p{sc=Syriac}\p{sc=Thaana}\p{sc=Nko}\p{sc=Adlam}\p{sc=Samaritan}\p{sc=Mandaic}]/u;

// The direction of a text, by its first letter; null without letters. (dir="auto" would also look at rejected tokens that are hidden.)
function directionOf(text) {
  const first = LETTERS.exec(text);
  return first && (RIGHT_TO_LEFT.test(first[0]) ? "rtl" : "ltr");
}

function appendStep(view) {
  const index = view.steps.length;
  const step = view.run.steps[index];
  const node = el("span", { class: "ax-step", "data-step": index });
  node.append(...step.texts.map((text, i) => token(text, step.origins[i] === "draft" ? "draft" : targetTokenKind(step), step.emitted[i])));
  view.parts.text.dir ||= directionOf(step.texts.join("")) ?? "";
  view.parts.text.append(node);
  view.steps.push(node);
  strike(view.run, node, index);
}

// Rejected draft tokens, struck through, before the correction token: shown in the step on screen, and in all steps on demand.
function strike(run, node, i) {
  const { tree } = run.steps[i];
  const text = rejectedPath(run.steps[i]).map((at) => tree.texts[at]).join("").replaceAll("\n", "⏎"); // a rejected draft ends no line
  if (text) node.lastElementChild.before(el("s", { class: BIDI.test(text) ? "ax-rejected-text ax-iso" : "ax-rejected-text", text, title: say("rejected.meaning") }));
}

// `kind`: "draft" for an accepted draft token, else the kind of the target's token.
function token(text, kind, id) {
  const name = ["ax-tok", ...(kind === "draft" ? ["ax-draft"] : ["ax-target", `ax-${kind}`])];
  if (text.includes("\n") && !text.trim()) name.push("ax-nl");
  if (BIDI.test(text)) name.push("ax-iso");
  return el("span", { class: name.join(" "), text, "data-id": id, title: say(`origin.${kind}`) });
}

// Highlights in each run the step that wrote the token at which the step of the selected run begins, or its latest step before that token.
function renderSteps(view, state, done) {
  const { run, index } = view;
  const from = state.race.runs[state.run].counts[state.step - 1] ?? 0;
  const same = run.counts.findIndex((count) => count > from);
  const current = state.run === index ? state.step : Math.max(0, Math.min(same < 0 ? run.steps.length - 1 : same, done - 1));
  view.steps.forEach((node, i) => {
    toggleClass(node, "ax-later", i >= done);
    toggleClass(node, "ax-now", i === current && i < Math.max(done, index === state.run ? current + 1 : 0));
  });
  toggleClass(view.parts.text, "ax-playing", state.playing !== 0 || state.following);
  keepInView(view.parts.text, view.steps[Math.min(current, view.steps.length - 1)]);
}

const WAYS = [[], ["ax-fresh"], ["ax-fresh", "ax-tight"]]; // classes of a step that has more lines than its box: first it begins a line, then its rejected drafts are left out

// Scrolls the text box of the run, never the page: all of the step is in view if it fits, and a line before it; instead of a step that is
// still hidden, the one before it.
function keepInView(box, step) {
  if (!step || !box.clientHeight) return;
  const before = step.classList.contains("ax-later") ? step.previousElementSibling : null;
  const node = before?.matches(".ax-step") ? before : step;
  for (const other of box.querySelectorAll(".ax-fresh")) {
    if (other === node) continue;
    other.classList.remove(...WAYS[2]);
    delete other.dataset.fitted;
  }
  const line = parseFloat(getComputedStyle(box).lineHeight);
  const lines = Math.max(1, Math.floor(box.clientHeight / line + 0.2));
  toggleClass(box, "ax-one-line", lines === 1);
  const key = () => [lines, box.clientWidth, box.scrollHeight].join();
  if (node.dataset.fitted !== key()) {
    for (const way of WAYS) {
      for (const name of WAYS[2]) toggleClass(node, name, way.includes(name));
      const [at, end] = linesOf(box, node, line);
      if (end - at <= lines) break;
    }
    node.dataset.fitted = key();
  }
  const [at, end] = linesOf(box, node, line);
  const first = Math.round(box.scrollTop / line);
  if (at <= first || end > first + lines) box.scrollTop = Math.max(0, Math.min(at, Math.max(at - 1, end - lines))) * line;
}

// The first line of the step in its box, and the one after its last; parts of no size, such as after a line break, do not count.
function linesOf(box, node, line) {
  const { top, height } = box.getBoundingClientRect();
  const scale = box.offsetHeight / (height || 1); // presenting enlarges the page
  const rows = [...node.getClientRects()].filter(({ width, height }) => width >= 1 && height >= 1).map((rect) => Math.floor((((rect.top + rect.bottom) / 2 - top) * scale + box.scrollTop) / line));
  return rows.length ? [Math.min(...rows), Math.max(...rows) + 1] : [0, 0];
}

// The most probable path of rejected draft tokens after the last accepted node; [] if none were rejected there.
export function rejectedPath(step) {
  if (targetTokenKind(step) !== "correction") return [];
  const nodes = [];
  for (let node = bestChild(step.tree, last(step.path)); node !== null && nodes.length < MAX_REJECTED; node = bestChild(step.tree, node)) nodes.push(node);
  return nodes;
}

// The child with the most visits, or with the highest prior if visits are not counted, else the first.
function bestChild(tree, parent) {
  const weight = (node) => column(tree, "visits")[node] ?? column(tree, "prior")[node] ?? 0;
  const children = tree.parents.flatMap((above, node) => (above === parent ? [node] : []));
  return children.length ? children.reduce((best, node) => (weight(node) > weight(best) ? node : best)) : null;
}

export function runsTable({ runs }) {
  const head = ["method", "label", "lossless", "tokens", "steps", "seconds", "tokens_per_second", "tokens_per_step", ...PARTS.map((p) => `${p}_seconds`)];
  const rows = runs.map((run) => {
    const now = runStats(run, run.steps.length);
    const { method, label, lossless } = run.header;
    return [method, label, String(lossless), now.tokens, now.steps, now.seconds, now.rate, now.perStep, ...PARTS.map((p) => now[p])];
  });
  return [head, ...rows];
}
