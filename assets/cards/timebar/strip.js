// The time strip: one bar per step, its height is the number of new tokens; it is also the seek bar.

import { el, milliseconds, toggleClass } from "../../page/core/dom.js";
import { covered, unpredicted } from "../../page/shell/player.js";
import { say } from "../../page/core/words.js";

export function createStrip(root, onSeek) {
  let bars = [];
  let shape = "";
  let shown = null; // the state that is rendered
  const at = (event) => {
    const { left } = root.getBoundingClientRect();
    const { right } = bars[bars.length - 1].getBoundingClientRect(); // with few steps the bars do not fill the box
    const share = (event.clientX - left) / (right - left);
    return Math.max(0, Math.min(bars.length - 1, Math.floor(share * bars.length)));
  };
  root.addEventListener("pointerdown", (event) => {
    if (!bars.length) return;
    root.setPointerCapture(event.pointerId);
    root.focus({ preventScroll: true });
    onSeek(at(event));
  });
  root.addEventListener("pointermove", (event) => {
    if (bars.length && root.hasPointerCapture(event.pointerId)) onSeek(at(event));
  });

  // The text of a bar is written when the pointer reaches it.
  root.addEventListener("pointerover", (event) => {
    const index = bars.indexOf(event.target.closest("i"));
    const steps = shown?.race.runs[shown.run]?.steps ?? [];
    if (index >= 0 && index < steps.length) bars[index].title = unpredicted(shown, index) ? "" : barText(index, steps);
  });

  function render(state) {
    shown = state;
    const run = state.race.runs[state.run];
    const steps = run ? run.steps : [];
    const key = `${state.race.id}/${state.run}`;
    if (key !== shape || bars.length > steps.length) reset(key);
    const grew = bars.length < steps.length;
    while (bars.length < steps.length) append(steps[bars.length]);
    if (grew) scale(steps);
    const done = run ? state.done : 0;
    bars.forEach((bar, i) => {
      toggleClass(bar, "ax-current", i === state.step);
      toggleClass(bar, "ax-ahead", i >= done && i !== state.step);
      toggleClass(bar, "ax-unpredicted", unpredicted(state, i));
    });
    describe(state, steps);
  }

  function reset(key) {
    shape = key;
    bars = [];
    root.replaceChildren();
  }

  function append(step) {
    const accepted = step.origins.filter((o) => o === "draft").length;
    const parts = [el("b", { class: "ax-bar-draft" }), el("b", { class: "ax-bar-target" })];
    parts[0].style.flexGrow = accepted;
    parts[1].style.flexGrow = step.emitted.length - accepted;
    const bar = el("i", {}, ...parts);
    root.append(bar);
    bars.push(bar);
  }

  function scale(steps) {
    const most = Math.max(4, ...steps.map((s) => s.emitted.length));
    for (const [i, bar] of bars.entries()) bar.style.height = `${(100 * steps[i].emitted.length) / most}%`;
    toggleClass(root, "ax-dense", steps.length > 90);
  }

  function describe(state, steps) {
    const step = steps[state.step];
    root.setAttribute("aria-valuemax", String(Math.max(1, steps.length)));
    root.setAttribute("aria-valuenow", String(step ? state.step + 1 : 0));
    root.setAttribute("aria-valuetext", step ? value(state, step, steps.length) : say("step.none"));
  }
  return { render };
}

function value(state, step, steps) {
  const gained = covered(state) ? say("predict.covered", { count: step.tree.tokens.length - 1 }) : gain(step);
  return say("strip.value", { step: state.step + 1, steps, gain: gained });
}

function barText(index, steps) {
  return say("strip.value", { step: index + 1, steps: steps.length, gain: gain(steps[index]) });
}

export function gain(step) {
  const s = step.seconds;
  return say("step.gain", { count: step.emitted.length, time: milliseconds(s.draft + s.verify + s.commit + s.update) });
}
