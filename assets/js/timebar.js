// Playback controls: buttons, keyboard shortcuts, speed, and the text about the current step and time.

import { emit } from "./events.js";
import { el, setText } from "./dom.js";
import { listenToShortcuts } from "./shortcuts.js";
import { SPEEDS, covered } from "./player.js";
import { gain } from "./timestrip.js";
import { say } from "./words.js";

// `present` takes an arrow key while presenting; returns whether it did.
export function createTimeBar(part, state, player, present) {
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
  return { render: () => render(part, state) };
}

function render(part, state) {
  const run = state.race.runs[state.run];
  const step = run.steps[state.step];
  renderButton(part("play"), state.playing > 0, "time.play", state.race.running);
  renderButton(part("back"), state.playing < 0, "time.backwards", state.race.running);
  part("speed").value = String(state.speed);
  setText(part("where"), step ? say("step.where", { step: state.step + 1, steps: run.steps.length }) : say("step.none"));
  setText(part("gain"), step && !covered(state) ? gain(step) : "");
  setText(part("clock"), say("time.clock", { seconds: state.time.toFixed(2) }));
}

function renderButton(button, plays, idle, disabled) {
  button.dataset.on = String(plays);
  button.setAttribute("aria-label", say(plays ? "time.pause" : idle));
  button.disabled = disabled;
}
