// Time: playing, stepping and scrubbing a record. Draws nothing; it changes the state and says so.

import { draftingLane, duration, last, stepsDone, tellingStep } from "./record.js";

export const SPEEDS = [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5];
const PLEASANT = 14; // seconds a replay should last

export function createState(race) {
  return { race, lane: 0, step: 0, time: 0, done: 0, playing: 0, speed: 1, node: 0, hover: null, following: false, moment: null };
}

export function createPlayer(state, changed) {
  let before = null;

  const lane = () => state.race.lanes[state.lane];
  const settle = () => {
    state.done = lane() ? stepsDone(lane(), state.time) : 0;
    changed();
  };

  function open(race) {
    const fresh = race.id !== state.race.id || race !== state.race;
    state.race = race;
    if (fresh) reset();
    else if (state.following) follow();
    if (!race.running && state.following) finish();
    settle();
  }

  function reset() {
    const { race } = state;
    Object.assign(state, { lane: draftingLane(race), playing: 0, following: race.running, hover: null });
    state.time = duration(race);
    selectStep(race.running ? lastStep() : tellingStep(lane()));
    state.speed = pleasantSpeed(race);
  }

  function follow() {
    state.time = duration(state.race);
    selectStep(lastStep());
  }

  function finish() {
    follow();
    selectStep(tellingStep(lane()));
    state.following = false;
    state.speed = pleasantSpeed(state.race);
  }

  const lastStep = () => Math.max(0, lane().steps.length - 1);

  function selectStep(index) {
    state.step = index;
    state.hover = null;
    state.moment = null;
    const step = lane() && lane().steps[index];
    state.node = step && step.path.length > 1 ? step.path[step.path.length - 1] : 0;
  }

  function seek(index) {
    if (!lane() || !lane().steps.length) return;
    state.playing = 0;
    state.following = state.race.running && index >= lastStep();
    selectStep(Math.max(0, Math.min(lastStep(), index)));
    state.time = lane().ends[state.step];
    settle();
  }

  function setLane(index, step) {
    state.lane = index;
    const known = step === undefined ? Math.max(0, stepsDone(lane(), state.time) - 1) : step;
    if (step === undefined && state.time >= duration(state.race)) selectStep(tellingStep(lane()));
    else selectStep(known);
    if (step !== undefined) seek(step);
    settle();
  }

  function play(direction) {
    if (!state.race.lanes.length || state.race.running) return;
    const end = duration(state.race);
    if (direction > 0 && state.time >= end) state.time = 0;
    if (direction < 0 && state.time <= 0) state.time = end;
    state.playing = state.playing === direction ? 0 : direction;
    before = null;
    if (state.playing) requestAnimationFrame(frame);
    settle();
  }

  function frame(now) {
    if (!state.playing) return;
    const passed = before === null ? 0 : Math.min(0.25, (now - before) / 1000);
    before = now;
    const end = duration(state.race);
    state.time = Math.max(0, Math.min(end, state.time + passed * state.speed * state.playing));
    const index = Math.max(0, stepsDone(lane(), state.time) - 1);
    if (index !== state.step) selectStep(index);
    if ((state.playing > 0 && state.time >= end) || (state.playing < 0 && state.time <= 0)) state.playing = 0;
    else requestAnimationFrame(frame);
    settle();
  }

  return { open, seek, setLane, play, by: (n) => seek(state.step + n), home: () => seek(0), end: () => seek(last([lastStep()], 0)) };
}

// Real time where that is long enough to watch, otherwise slower, by the next speed on the list.
export function pleasantSpeed(race) {
  const wanted = duration(race) / PLEASANT;
  return SPEEDS.filter((s) => s <= 1).reduce((a, b) => (Math.abs(Math.log(b / wanted)) < Math.abs(Math.log(a / wanted)) ? b : a), 1);
}
