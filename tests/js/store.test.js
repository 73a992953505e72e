// The store and the scheduler: subscribers are called when what they selected has changed, at the rates of their groups.

import assert from "node:assert/strict";
import test from "node:test";

import { createScheduler } from "../../assets/page/core/scheduler.js";
import { createStore, remembered } from "../../assets/page/core/store.js";

test("a subscriber is called when a value that it selects has changed, and not while there is nothing to draw", () => {
  let changes = 0;
  const store = createStore({ step: 0, node: 1, race: null }, () => (changes += 1));
  const drawn = [];
  store.subscribe("frame", ({ step }) => [step], ({ step }) => drawn.push(`step ${step}`));
  store.subscribe("frame", ({ race, node }) => (race ? [race, node] : null), ({ race }) => drawn.push(race));
  store.subscribe("slow", ({ node }) => [node], ({ node }) => drawn.push(`node ${node}`));
  store.notify("frame");
  store.set({ node: 2 });
  store.notify("frame");
  assert.deepEqual(drawn, ["step 0"]);
  store.set({ race: "race", step: 3 });
  store.notify("frame");
  store.notify("slow");
  assert.deepEqual(drawn.splice(0), ["step 0", "step 3", "race", "node 2"]);
  store.forget();
  store.notify("frame");
  assert.deepEqual(drawn, ["step 3", "race"]);
  assert.equal(changes, 2);
});

test("a remembered function makes its result once while its arguments are the same", () => {
  let made = 0;
  const pair = remembered((a, b) => [a, b, ++made]);
  assert.equal(pair(1, 2), pair(1, 2));
  assert.deepEqual(pair(1, 3), [1, 3, 2]);
});

test("a change is drawn at once after user input, and at limited rates while a race plays", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  let now = 0;
  context.mock.method(performance, "now", () => now);
  const frames = [];
  globalThis.requestAnimationFrame = (frame) => frames.push(frame);
  const drawn = [];
  let moving = false;
  const request = createScheduler(() => moving, (group) => drawn.push(group));
  const pass = (milliseconds) => {
    now += milliseconds;
    for (const frame of frames.splice(0)) frame();
    context.mock.timers.tick(milliseconds);
  };
  now = 1000;
  request();
  request();
  assert.equal(frames.length, 1);
  pass(1);
  assert.deepEqual(drawn.splice(0), ["frame", "quiet", "slow"]);
  moving = true;
  for (let i = 0; i < 30; i++) {
    request();
    pass(20);
  }
  const count = (group) => drawn.filter((one) => one === group).length;
  assert.equal(count("frame"), 30);
  assert.ok(count("quiet") >= 4 && count("quiet") <= 6, String(count("quiet")));
  assert.ok(count("slow") >= 1 && count("slow") <= 2, String(count("slow")));
});
