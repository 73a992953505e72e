// Time: playing, stepping and scrubbing a record. Draws nothing; it changes the state and says so.

import { draftingLane, duration, laneName, stepsDone, tellingStep } from "./record.js";

export const SPEEDS = [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5];
const PLEASANT = 14; // seconds a replay should last

export function createState(race) {
  return { race, lane: 0, step: 0, time: 0, done: 0, playing: 0, speed: 1, node: 0, hover: null, following: false, moment: null, guess: null };
}

// Whether the verdict on the step on screen waits for the learner's guess.
export function covered(state) {
  return state.guess !== null && !state.guess.has(state.step);
}

export function createPlayer(state, changed) {
  let before = null;
  let wanted = null; // the view to open as soon as its race is there

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
    meet();
  }

  function reset() {
    const { race } = state;
    Object.assign(state, { lane: draftingLane(race), playing: 0, following: race.running, hover: null, guess: null });
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
    state.node = step && step.path.length > 1 && !covered(state) ? step.path[step.path.length - 1] : 0;
  }

  function seek(index) {
    if (!lane() || !lane().steps.length) return;
    state.playing = 0;
    state.following = state.race.running && index >= lastStep();
    selectStep(Math.max(0, Math.min(lastStep(), index)));
    state.time = clock();
    settle();
  }

  // The race clock at the end of the step on screen, or at its beginning while its verdict is covered.
  function clock() {
    const { ends } = lane();
    return covered(state) ? (state.step ? ends[state.step - 1] : 0) : ends[state.step];
  }

  // Opens a view that a link names: {race, run, lane, step, node}; what does not fit is left as it is.
  function show(view) {
    wanted = view;
    meet();
  }

  function meet() {
    if (!wanted || !lane() || state.race.running || !fits(wanted, state.race)) return;
    const { lane: name, step, node } = wanted;
    wanted = null;
    const index = state.race.lanes.findIndex((_, i) => laneName(state.race.lanes, i) === name);
    if (index >= 0 && index !== state.lane) setLane(index);
    if (step !== null) seek(step);
    if (node !== null && lane().steps[state.step] && hasNode(lane().steps[state.step], node)) state.node = node;
    settle();
  }

  function toggleGuess() {
    state.guess = state.guess ? null : new Map();
    seek(state.step);
  }

  function answer(node) {
    state.guess.set(state.step, node);
    seek(state.step);
  }

  function setLane(index, step) {
    if (state.guess && index !== state.lane) state.guess = new Map();
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
    state.guess = null;
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

  return { open, seek, setLane, play, show, toggleGuess, answer, by: (n) => seek(state.step + n), home: () => seek(0), end: () => seek(lastStep()) };
}

function fits(view, race) {
  if (view.race) return race.source === "recorded" && race.title === view.race;
  return !view.run || race.source === "run";
}

function hasNode(step, node) {
  const own = step.origins[step.origins.length - 1] === "target";
  return node >= (own ? -1 : 0) && node < step.tree.tokens.length;
}

// Real time where that is long enough to watch, otherwise slower, by the next speed on the list.
export function pleasantSpeed(race) {
  const wanted = duration(race) / PLEASANT;
  return SPEEDS.filter((s) => s <= 1).reduce((a, b) => (Math.abs(Math.log(b / wanted)) < Math.abs(Math.log(a / wanted)) ? b : a), 1);
}
