// The runs: the text of each method, the source of each token, and the speed.

import { runsTable } from "./csv.js";
import { BIDI, el, fixed, rate, setText, toggleClass } from "./dom.js";
import { registerExport } from "./exports.js";
import { lossyMark } from "./picker.js";
import { stepsShown } from "./player.js";
import { runStats, plainRun, plainLast, stepsDone, targetTokenKind } from "./record.js";
import { engineText } from "./enginetext.js";
import { rejectedPath } from "./rejected.js";
import { say } from "./words.js";

export function createRuns(root, toggle, { onStep, onRun, onAbout }) {
  let views = [];
  root.addEventListener("click", (event) => {
    const view = views.find((v) => v.root.contains(event.target));
    if (!view) return;
    const step = event.target.closest(".ax-step");
    if (step) onStep(view.index, Number(step.dataset.step));
    else if (event.target.closest(".ax-look")) onRun(view.index);
    else if (event.target.closest(".ax-about")) onAbout(view.index);
  });

  toggle.addEventListener("click", () => {
    const on = toggle.getAttribute("aria-pressed") !== "true";
    toggle.setAttribute("aria-pressed", String(on));
    for (const view of views) showRejected(view, on);
  });

  function rebuild(race) {
    toggle.setAttribute("aria-pressed", "false");
    views = race.runs.map(createRun);
    const shown = plainLast(views, race.runs);
    root.replaceChildren(...shown.map((view) => view.root));
    const picture = () => shown.flatMap(({ parts }) => [parts.label, parts.text]);
    registerExport("runs", { group: "race", title: "save.runs", place: () => root, picture, table: () => runsTable(race) });
  }

  function render(state) {
    const base = plainRun(state.race);
    for (const view of views) renderRun(view, state, base);
  }
  return { rebuild, render };
}

// Sets the colours of a run on an element, as CSS variables.
export function paintRun(node, run) {
  if (!run.colours) return;
  node.style.setProperty("--run-light", run.colours[0]);
  node.style.setProperty("--run-dark", run.colours[1]);
}

function createRun(run, index) {
  const parts = {
    label: el("h3", { class: "ax-run-label" }, run.label, lossyMark(run.header)),
    speed: el("p", { class: "ax-speed" }),
    rate: el("p", { class: "ax-figures" }),
    look: el("button", { class: "ax-look", type: "button" }),
    about: el("button", { class: "ax-about", type: "button", "aria-label": say("run.about", { name: run.label }), text: say("run.how") }),
    text: el("p", { class: "ax-text", dir: "auto", tabindex: "0", "aria-label": say("run.text", { name: run.label }) }),
  };
  const root = el("article", { class: "ax-run-view", "data-method": run.header.method });
  paintRun(root, run);
  const notice = run.header.notice ? el("p", { class: "ax-run-notice", text: engineText(run.header.notice) }) : null;
  const side = el("div", { class: "ax-run-side" }, parts.label, parts.speed, parts.rate, parts.look, parts.about);
  root.append(side, el("div", { class: "ax-run-main" }, parts.text, notice));
  return { root, index, run, parts, steps: [] };
}

function renderRun(view, state, base) {
  const { run, parts, index } = view;
  while (view.steps.length < run.steps.length) appendStep(view);
  const done = stepsShown(state, run);
  const now = runStats(run, done);
  const plain = base ? runStats(base, stepsDone(base, state.time)) : null;
  setText(parts.speed, speedText(run, now, plain, base));
  const words = now.steps ? say("run.figures", { rate: rate(now.rate), perStep: now.perStep.toFixed(1) }) : say("step.none");
  setText(parts.rate, now.steps && done < run.steps.length ? say("run.sofar", { figures: words }) : words);
  const focus = state.run === index;
  toggleClass(view.root, "ax-focus", focus);
  setText(parts.look, say(focus ? "run.shown" : "run.show"));
  parts.look.setAttribute("aria-pressed", String(focus));
  renderSteps(view, state, done);
}

function speedText(run, now, plain, base) {
  if (run === base) return "1×";
  return plain?.rate && now.rate ? `${fixed(now.rate / plain.rate, now.rate < plain.rate ? 2 : 1)}×` : "–";
}

function appendStep(view) {
  const index = view.steps.length;
  const step = view.run.steps[index];
  const node = el("span", { class: "ax-step", "data-step": index });
  node.append(...step.texts.map((text, i) => token(text, step.origins[i] === "draft" ? "draft" : targetTokenKind(step), step.emitted[i])));
  view.parts.text.append(node);
  view.steps.push(node);
}

// Shows rejected draft tokens, struck through, before the correction token; or removes them again.
function showRejected({ run, steps }, on) {
  steps.forEach((node, i) => {
    for (const old of node.querySelectorAll("s")) old.remove();
    const { tree } = run.steps[i];
    const text = on ? rejectedPath(run.steps[i]).map((at) => tree.texts[at]).join("") : "";
    if (text) node.lastElementChild.before(el("s", { class: BIDI.test(text) ? "ax-rejected-text ax-iso" : "ax-rejected-text", text, title: say("rejected.meaning") }));
  });
}

// `kind`: "draft" for an accepted draft token, else the kind of the target's token.
function token(text, kind, id) {
  const name = ["ax-tok", ...(kind === "draft" ? ["ax-draft"] : ["ax-target", `ax-${kind}`])];
  if (text.includes("\n") && !text.trim()) name.push("ax-nl");
  if (BIDI.test(text)) name.push("ax-iso");
  return el("span", { class: name.join(" "), text, "data-id": id, title: say(`origin.${kind}`) });
}

function renderSteps(view, state, done) {
  const current = state.run === view.index ? state.step : done - 1;
  view.steps.forEach((node, i) => {
    toggleClass(node, "ax-later", i >= done);
    toggleClass(node, "ax-now", i === current && state.run === view.index);
  });
  toggleClass(view.parts.text, "ax-playing", state.playing !== 0 || state.following);
  const node = view.steps[Math.max(0, Math.min(current, view.steps.length - 1))];
  if (node) keepInView(view.parts.text, node);
}

// Scrolls the text box of the run, never the page.
function keepInView(box, node) {
  if (box.scrollHeight <= box.clientHeight + 1) return;
  const top = node.offsetTop - box.offsetTop;
  const bottom = top + node.offsetHeight;
  if (top < box.scrollTop) box.scrollTop = top - 4;
  else if (bottom > box.scrollTop + box.clientHeight) box.scrollTop = bottom - box.clientHeight + 4;
}
