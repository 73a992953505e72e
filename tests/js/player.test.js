// Playback: how the clock of a replay advances.

import assert from "node:assert/strict";
import test from "node:test";

import { createPlayer, createState } from "../../assets/page/shell/player.js";
import { emptyRace } from "../../assets/page/record/record.js";

const frames = []; // requested, with their functions
globalThis.requestAnimationFrame = (draw) => frames.push(draw);

const step = () => ({ tree: { tokens: [1] }, path: [0], origins: ["target"], emitted: [1] });
const race = () => ({ ...emptyRace(), id: "one", runs: [{ header: { method: "plain" }, steps: [step(), step()], ends: [1, 2], counts: [1, 2] }] });

function opened() {
  const state = createState(emptyRace());
  const player = createPlayer(state, () => {});
  player.open(race());
  frames.length = 0;
  return { state, player };
}

test("playback that is started again within a frame has one frame at a time", () => {
  const { state, player } = opened();
  for (let press = 0; press < 3; press++) player.play(1);
  assert.deepEqual([state.playing, frames.length], [1, 1]);
  frames.pop()(1000);
  assert.equal(frames.length, 1);
});

test("playback that was stopped within a frame does not go on", () => {
  const { state, player } = opened();
  player.play(1);
  player.play(1);
  frames.pop()(1000);
  assert.deepEqual([state.playing, frames.length], [0, 0]);
});

test("a race that has ended is played at the speed of its whole length, whatever was selected meanwhile", () => {
  const { state, player } = opened();
  const live = { ...race(), id: "live", running: true };
  live.runs[0].ends = [0.1, 0.2];
  player.open(live);
  player.seek(0);
  assert.deepEqual([state.following, state.speed], [false, 0.02]);
  live.runs[0].ends = [7, 14];
  live.running = false;
  player.open(live);
  assert.deepEqual([state.step, state.speed], [0, 1]);
});

test("of a race, and of one that was stopped, a run that has steps is on screen", () => {
  const stopped = (running) => ({ ...race(), id: String(running), running, runs: [...race().runs, { header: { method: "aded" }, steps: [], ends: [], counts: [] }] });
  const { state, player } = opened();
  player.open(stopped(false));
  assert.equal(state.run, 0);
  const live = stopped(true);
  player.open(live);
  assert.equal(state.run, 1);
  live.running = false;
  player.open(live);
  assert.equal(state.run, 0);
});
