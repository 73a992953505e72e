// The bar at the bottom of the window: playback, the strip of steps, and the text about the current step and time.

import { el, setText } from "../../page/core/dom.js";
import { emit } from "../../page/core/events.js";
import { say } from "../../page/core/words.js";
import { offerExport, registerExport } from "../../page/export/exports.js";
import { listenToShortcuts } from "../../page/learn/shortcuts.js";
import { PARTS, duration, partName, runName } from "../../page/record/record.js";
import { SPEEDS, covered } from "../../page/shell/player.js";
import { createPresenter } from "../../page/shell/present.js";
import { createStrip, gain } from "./strip.js";

export function mount({ part, state, player, showTab, subscribe }) {
  offerExport("strip", { group: "race", title: "save.strip", at: part("strip"), picture: true });
  offerExport("steps", { group: "race", title: "save.steps", at: part("strip"), table: true });
  const present = createPresenter(state, player, showTab);
  const strip = createStrip(part("strip"), (index) => {
    player.seek(index);
    emit("action", "step");
  });
  const step = (move) => () => {
    move();
    emit("action", "step");
  };
  const play = (direction) => () => {
    player.play(direction);
    emit("action", "play");
  };
  const actions = {
    play: play(1),
    back: play(-1),
    previous: step(() => player.by(-1)),
    next: step(() => player.by(1)),
    left: () => present(-1) || actions.previous(),
    right: () => present(1) || actions.next(),
    home: step(player.home),
    end: step(player.end),
    help: () => emit("shortcuts"),
  };
  part("speed").append(...SPEEDS.map((speed) => el("option", { value: speed, text: `${speed}×` })));
  part("speed").addEventListener("change", (event) => {
    state.speed = Number(event.target.value);
  });
  for (const name of ["play", "back", "previous", "next"]) part(name).addEventListener("click", actions[name]);
  listenToShortcuts(actions);
  const selected = ({ race, run, step, done, time, playing, speed, following, predictions }) => [race, race.read, run, step, done, time, playing, speed, following, predictions, predictions?.size];
  subscribe("frame", selected, () => {
    strip.render(state);
    render(part, state);
  });
  subscribe("frame", ({ race }) => [race], ({ race }) => {
    registerExport("strip", { place: () => part("strip"), picture: () => [part("strip"), part("origins")] });
    registerExport("steps", { place: () => part("strip"), table: () => stepsTable(race) });
  });
}

function render(part, state) {
  const run = state.race.runs[state.run];
  const step = run.steps[state.step];
  renderButton(part("play"), state.playing > 0, "time.play", state.race.running);
  renderButton(part("back"), state.playing < 0, "time.backwards", state.race.running);
  part("speed").value = String(state.speed);
  setText(part("where"), step ? say("step.where", { step: state.step + 1, steps: run.steps.length }) : say("step.none"));
  setText(part("gain"), step && !covered(state) ? gain(step) : "");
  const whole = state.time >= duration(state.race) && step !== run.steps[run.steps.length - 1];
  setText(part("clock"), say(whole ? "time.whole" : "time.clock", { seconds: state.time.toFixed(2) }));
}

function renderButton(button, plays, idle, disabled) {
  button.dataset.on = String(plays);
  button.setAttribute("aria-label", say(plays ? "time.pause" : idle));
  button.disabled = disabled;
}

export function stepsTable({ runs }) {
  const head = ["method", "step", "position", "drafted", "accepted", "written", ...PARTS.map((part) => `${partName(part)}_seconds`), "text"];
  const rows = runs.flatMap((run, i) =>
    run.steps.map((step) => {
      const counts = [step.index + 1, step.position, step.tree.tokens.length - 1, step.path.length - 1, step.emitted.length];
      return [runName(runs, i), ...counts, ...PARTS.map((p) => step.seconds[p]), step.texts.join("")];
    }),
  );
  return [head, ...rows];
}
