// Cache slots, checked by simulating a cache: each step starts from what the step before left.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";

import "./words.js";
import { folded, slotsText } from "../../assets/cards/slots/card.js";
import { slotsOf } from "../../assets/page/record/record.js";

const folder = new URL("../../assets/traces/", import.meta.url);
const runs = readdirSync(folder)
  .filter((name) => name.endsWith(".json"))
  .flatMap((name) => JSON.parse(readFileSync(new URL(name, folder), "utf-8")).lanes);

test("a simulated cache always contains exactly the context before the next root", () => {
  for (const run of runs) {
    const cache = [...run.header.prompt_tokens.slice(0, -1)];
    const text = [...run.header.prompt_tokens];
    for (const step of run.steps) {
      const { start, written, kept, free } = slotsOf(step);
      assert.equal(start, cache.length);
      for (const { node, slot } of written) cache[slot] = step.tree.tokens[node];
      const moved = kept.map(({ from }) => cache[from]);
      for (const [i, { slot }] of kept.entries()) cache[slot] = moved[i];
      cache.length -= free;
      text.push(...step.emitted);
      assert.deepEqual(cache, text.slice(0, -1), `${run.header.label} ${step.index}`);
    }
  }
});

test("in some steps accepted nodes are moved, in others they are already contiguous", () => {
  const kept = runs.flatMap((run) => run.steps.map((step) => slotsOf(step).kept));
  assert.ok(kept.some((slots) => slots.some(({ slot, from }) => slot !== from)));
  assert.ok(kept.some((slots) => slots.length > 1 && slots.every(({ slot, from }) => slot === from)));
});

test("that the accepted token which ends a text has no entry is said where it is so", () => {
  const steps = runs.flatMap((run) => run.steps);
  const said = steps.map((step) => [slotsText(step).includes("it is not kept"), slotsOf(step).kept.length !== step.path.length]);
  assert.ok(said.every(([is, wanted]) => is === wanted));
  for (const wanted of [true, false]) assert.ok(said.some(([is]) => is === wanted));
});

test("of a large draft the first slots and all kept ones are drawn, the others are counted", () => {
  const written = Array.from({ length: 12 }, (_, node) => ({ node, slot: 100 + node }));
  const shown = folded(written, [{ node: 0 }, { node: 7 }], 4);
  assert.deepEqual(shown.map((one) => ("to" in one ? `${one.from}–${one.to}` : one.node)), [0, 1, 2, 3, "4–6", 7, "8–11"]);
});
