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
