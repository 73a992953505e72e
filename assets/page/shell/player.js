// Playback: playing, stepping and seeking in a record. It changes the state and calls `changed`; it draws nothing.

import { currentBigram, bigramOfNode, rowsSoFar } from "../record/bigrams.js";
import { isRace } from "../record/racehistory.js";
import { draftingRun, duration, runName, stepsDone, exampleStep } from "../record/record.js";

export const SPEEDS = [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5];
const REPLAY_SECONDS = 14; // preferred duration of a replay

// All values that the page is drawn from. `replaced`: whether another race is being prepared, of which no step is there yet; `view`: the step as it is shown (see stepview.js); `Plotly`: the chart library once it is loaded.
export function createState(race) {
  const selection = { run: 0, step: 0, node: 0, bigram: null, hover: null, peek: false, moment: null, predictions: null, tab: "draft" };
  const playback = { time: 0, done: 0, playing: 0, speed: 1, following: false, replaced: false };
  return { race, ...selection, ...playback, view: null, dark: false, Plotly: null, chartError: null };
}

// Whether the verification of the step on screen is hidden until the user has predicted it.
export function covered(state) {
  return unpredicted(state, state.step);
}

// Whether a step is still to be predicted; earlier steps are visible in the text.
export function unpredicted({ predictions, step }, index) {
  return predictions !== null && index >= step && !predictions.has(index);
}

// Number of steps of a run to show: those that have ended; while a step is hidden, none that reveals more than the text before it.
export function stepsShown(state, run) {
  const done = stepsDone(run, state.time);
  if (!covered(state)) return done;
  const known = state.race.runs[state.run].counts[state.step - 1] ?? 0;
  const beyond = run.counts.findIndex((count) => count > known);
  return beyond < 0 ? done : Math.min(done, beyond);
}

// `missed` is called, when the view is open, for what a link names and the race does not have: (method, step, node, bigram or tab; its name).
export function createPlayer(state, changed, missed = () => {}) {
  let before = null; // time of the last frame
  let waiting = 0; // the frame that is asked for
  let wanted = null; // view to open when its race is there
  let running = false; // whether the race on screen ran when it was last opened

  const run = () => state.race.runs[state.run];
  const update = () => {
    state.done = run() ? stepsDone(run(), state.time) : 0;
    changed();
  };

  function open(race) {
    const fresh = race.id !== state.race.id || race !== state.race;
    state.race = race;
    if (fresh) reset();
    else if (state.following) follow();
    if (!race.running && state.following) finish();
    if (!race.running && running) state.speed = replaySpeed(race);
    running = race.running;
    update();
    openWanted();
  }

  function reset() {
    const { race } = state;
    Object.assign(state, { run: draftingRun(race), playing: 0, following: race.running, hover: null, predictions: null, peek: false });
    state.time = duration(race);
    selectStep(race.running ? lastStep() : exampleStep(run()));
    state.speed = replaySpeed(race);
  }

  function follow() {
    state.time = duration(state.race);
    selectStep(lastStep());
  }

  function finish() {
    if (!run().steps.length) state.run = draftingRun(state.race);
    follow();
    selectStep(exampleStep(run()));
    state.following = false;
  }

  const lastStep = () => Math.max(0, run().steps.length - 1);

  function selectStep(index) {
    state.step = index;
    state.hover = null;
    state.bigram = null;
    state.moment = null;
    const step = run()?.steps[index];
    state.node = step?.path.length > 1 && !covered(state) ? step.path[step.path.length - 1] : 0;
  }

  // Selecting a node also selects its bigram; a node without a recorded bigram selects the step's own.
  function selectNode(node) {
    state.node = node;
    state.hover = null;
    state.bigram = bigramOfNode(run().steps, state.step, node);
    changed();
  }

  // Selects a bigram by name until another step or node is selected; null: the step's own.
  function selectBigram(name) {
    const { steps } = run();
    const known = name !== null && name !== currentBigram(steps[state.step]) && rowsSoFar(steps, state.step).has(name);
    state.bigram = known ? name : null;
    changed();
  }

  function seek(index) {
    if (!run()?.steps.length) return;
    state.playing = 0;
    state.following = state.race.running && index >= lastStep() && !state.predictions;
    selectStep(Math.max(0, Math.min(lastStep(), index)));
    state.time = stepTime();
    update();
  }

  // The race time at the end of the step on screen, or at its start while its verification is hidden.
  function stepTime() {
    const { ends } = run();
    return covered(state) ? (state.step ? ends[state.step - 1] : 0) : ends[state.step];
  }

  // The end of the race: the last step of this run, and the end of all runs.
  function end() {
    seek(lastStep());
    if (!run() || covered(state)) return;
    state.time = duration(state.race);
    update();
  }

  // The step of a link: figures stay those of the whole race if it is over.
  function goTo(step) {
    if (state.predictions || state.time < duration(state.race)) seek(step);
    else selectStep(step);
  }

  // Opens the view of a link: {race, run, file, method, step, node, bigram}; parts that do not exist are reported and left as they are.
  function show(view) {
    wanted = { ...view, previous: state.race };
    openWanted();
  }

  // A live race that is no longer kept can be run again; then the view applies to the next live race.
  const isThere = () => isRace(wanted, state.race) || (wanted.run && state.race.source === "run" && state.race !== wanted.previous);

  function openWanted() {
    if (!wanted || !run() || state.race.running) return;
    if (!isThere()) {
      const wrong = Object.entries(wanted.wrong ?? {});
      wanted.wrong = {};
      for (const miss of wrong) missed(...miss);
      return;
    }
    const { method: name, step, node, bigram, wrong = {} } = wanted;
    wanted = null;
    const misses = Object.entries(wrong);
    const index = state.race.runs.findIndex((_, i) => runName(state.race.runs, i) === name);
    if (name && index < 0) misses.push(["method", name]);
    if (index >= 0 && index !== state.run) setRun(index);
    if (step !== null && run().steps[step]) goTo(step);
    else if (step !== null) misses.push(["step", step + 1]);
    if (node !== null && run().steps[state.step] && hasNode(run().steps[state.step], node)) state.node = node;
    else if (node !== null) misses.push(["node", node]);
    if (bigram !== null && run().steps[state.step]) selectBigram(bigram);
    if (bigram && ![state.bigram, currentBigram(run().steps[state.step])].includes(bigram)) misses.push(["bigram", bigram]);
    for (const miss of misses) missed(...miss);
    update();
  }

  function togglePrediction() {
    state.predictions = state.predictions ? null : new Map();
    seek(state.step);
  }

  // Hides the verification of the step on screen, or shows it, with the figures of the whole race.
  function predict(wanted) {
    if (Boolean(state.predictions) !== wanted) togglePrediction();
    if (!wanted) state.time = duration(state.race);
    update();
  }

  function answer(node) {
    state.predictions.set(state.step, node);
    seek(state.step);
  }

  function setRun(index, step) {
    if (state.predictions && index !== state.run) state.predictions = new Map();
    state.run = index;
    const known = step === undefined ? Math.max(0, stepsDone(run(), state.time) - 1) : step;
    if (step === undefined && state.time >= duration(state.race)) selectStep(exampleStep(run()));
    else selectStep(known);
    if (step !== undefined || state.predictions) seek(state.step);
    update();
  }

  function play(direction) {
    if (!state.race.runs.length || state.race.running) return;
    const end = duration(state.race);
    if (direction > 0 && state.time >= end) state.time = 0;
    if (direction < 0 && state.time <= 0) state.time = end;
    state.playing = state.playing === direction ? 0 : direction;
    state.predictions = null;
    before = null;
    if (state.playing) nextFrame();
    update();
  }

  // One frame at a time: playback that is stopped and started again within a frame goes on at its speed.
  function nextFrame() {
    if (!waiting) waiting = requestAnimationFrame(frame);
  }

  function frame(now) {
    waiting = 0;
    if (!state.playing) return;
    const passed = before === null ? 0 : Math.min(0.25, (now - before) / 1000);
    before = now;
    const end = duration(state.race);
    state.time = Math.max(0, Math.min(end, state.time + passed * state.speed * state.playing));
    const index = Math.max(0, stepsDone(run(), state.time) - 1);
    if (index !== state.step) selectStep(index);
    if ((state.playing > 0 && state.time >= end) || (state.playing < 0 && state.time <= 0)) state.playing = 0;
    else nextFrame();
    update();
  }

  return { open, seek, selectNode, selectBigram, setRun, play, show, togglePrediction, predict, answer, by: (n) => seek(state.step + n), home: () => seek(0), end };
}

function hasNode(step, node) {
  const own = step.origins[step.origins.length - 1] === "target";
  return node >= (own ? -1 : 0) && node < step.tree.tokens.length;
}

// Real time if it is long enough, otherwise the slower speed of the list that comes closest.
function replaySpeed(race) {
  const wanted = duration(race) / REPLAY_SECONDS;
  return SPEEDS.filter((s) => s <= 1).reduce((a, b) => (Math.abs(Math.log(b / wanted)) < Math.abs(Math.log(a / wanted)) ? b : a), 1);
}
