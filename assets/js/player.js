// Time: playing, stepping and scrubbing a record. Draws nothing; it changes the state and says so.

import { currentPair, pairOfNode, rowsSoFar } from "./pairs.js";
import { isPlace } from "./places.js";
import { draftingLane, duration, laneName, stepsDone, tellingStep } from "./record.js";

export const SPEEDS = [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5];
const PLEASANT = 14; // seconds a replay should last

export function createState(race) {
  return { race, lane: 0, step: 0, time: 0, done: 0, playing: 0, speed: 1, node: 0, pair: null, hover: null, following: false, moment: null, guess: null, peek: false };
}

// Whether the verdict on the step on screen waits for the learner's guess.
export function covered(state) {
  return unguessed(state, state.step);
}

// Whether a step's verdict is still to be guessed; what the text before the step on screen has told needs no guess.
export function unguessed({ guess, step }, index) {
  return guess !== null && index >= step && !guess.has(index);
}

// Steps of a lane that may be seen: those that have ended, and where a verdict is covered none that says more than the text before it.
export function stepsShown(state, lane) {
  const done = stepsDone(lane, state.time);
  if (!covered(state)) return done;
  const known = state.race.lanes[state.lane].counts[state.step - 1] ?? 0;
  const beyond = lane.counts.findIndex((count) => count > known);
  return beyond < 0 ? done : Math.min(done, beyond);
}

// `missed` is told what a link names and the race does not have: (lane, step, node or pair; its name).
export function createPlayer(state, changed, missed = () => {}) {
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
    Object.assign(state, { lane: draftingLane(race), playing: 0, following: race.running, hover: null, guess: null, peek: false });
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
    state.pair = null;
    state.moment = null;
    const step = lane()?.steps[index];
    state.node = step?.path.length > 1 && !covered(state) ? step.path[step.path.length - 1] : 0;
  }

  // A node that is chosen brings its pair of tokens with it; a node without one brings the step's own pair back.
  function selectNode(node) {
    state.node = node;
    state.hover = null;
    state.pair = pairOfNode(lane().steps, state.step, node);
    changed();
  }

  // A pair by its name, until another step or node is chosen; null for the step's own.
  function selectPair(name) {
    const { steps } = lane();
    const known = name !== null && name !== currentPair(steps[state.step]) && rowsSoFar(steps, state.step).has(name);
    state.pair = known ? name : null;
    changed();
  }

  function seek(index) {
    if (!lane()?.steps.length) return;
    state.playing = 0;
    state.following = state.race.running && index >= lastStep() && !state.guess;
    selectStep(Math.max(0, Math.min(lastStep(), index)));
    state.time = clock();
    settle();
  }

  // The race clock at the end of the step on screen, or at its beginning while its verdict is covered.
  function clock() {
    const { ends } = lane();
    return covered(state) ? (state.step ? ends[state.step - 1] : 0) : ends[state.step];
  }

  // The end of all lanes, at this one's last step.
  function end() {
    seek(lastStep());
    if (!lane() || covered(state)) return;
    state.time = duration(state.race);
    settle();
  }

  // Opens a view that a link names: {race, run, file, lane, step, node, pair}; what does not fit is told and left as it is.
  function show(view) {
    wanted = { ...view, beside: state.race };
    meet();
  }

  // A run that is here no more can be made again: then the view is that of the next run.
  const isThere = () => isPlace(wanted, state.race) || (wanted.run && state.race.source === "run" && state.race !== wanted.beside);

  function meet() {
    if (!wanted || !lane() || state.race.running || !isThere()) return;
    const { lane: name, step, node, pair } = wanted;
    wanted = null;
    const index = state.race.lanes.findIndex((_, i) => laneName(state.race.lanes, i) === name);
    if (name && index < 0) missed("lane", name);
    if (index >= 0 && index !== state.lane) setLane(index);
    if (step !== null && lane().steps[step]) seek(step);
    else if (step !== null) missed("step", step + 1);
    if (node !== null && lane().steps[state.step] && hasNode(lane().steps[state.step], node)) state.node = node;
    else if (node !== null) missed("node", node);
    if (pair !== null && lane().steps[state.step]) selectPair(pair);
    if (pair && ![state.pair, currentPair(lane().steps[state.step])].includes(pair)) missed("pair", pair);
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
    if (step !== undefined || state.guess) seek(state.step);
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

  return { open, seek, selectNode, selectPair, setLane, play, show, toggleGuess, answer, by: (n) => seek(state.step + n), home: () => seek(0), end };
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
