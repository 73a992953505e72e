// The cache's slots, checked against a cache that is played: what a step leaves is what the next one begins with.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";

import { folded, slotsOf } from "../../assets/js/slots.js";

const folder = new URL("../../assets/traces/", import.meta.url);
const lanes = readdirSync(folder)
  .filter((name) => name.endsWith(".json"))
  .flatMap((name) => JSON.parse(readFileSync(new URL(name, folder), "utf-8")).lanes);

test("a cache that is played slot by slot always holds the text, and nothing else before the next root", () => {
  for (const lane of lanes) {
    const cache = [...lane.header.prompt_tokens.slice(0, -1)];
    const text = [...lane.header.prompt_tokens];
    for (const step of lane.steps) {
      const { start, written, kept, free } = slotsOf(step);
      assert.equal(start, cache.length);
      for (const { node, slot } of written) cache[slot] = step.tree.tokens[node];
      const moved = kept.map(({ from }) => cache[from]);
      for (const [i, { slot }] of kept.entries()) cache[slot] = moved[i];
      cache.length -= free;
      text.push(...step.emitted);
      assert.deepEqual(cache, text.slice(0, -1), `${lane.header.label} ${step.index}`);
    }
  }
});

test("some drafts are moved and some lie together already", () => {
  const kept = lanes.flatMap((lane) => lane.steps.map((step) => slotsOf(step).kept));
  assert.ok(kept.some((slots) => slots.some(({ slot, from }) => slot !== from)));
  assert.ok(kept.some((slots) => slots.length > 1 && slots.every(({ slot, from }) => slot === from)));
});

test("of a large draft the first slots and all kept ones are drawn, and the others are counted where they are left out", () => {
  const written = Array.from({ length: 12 }, (_, node) => ({ node, slot: 100 + node }));
  const shown = folded(written, [{ node: 0 }, { node: 7 }], 4);
  assert.deepEqual(shown.map((one) => ("to" in one ? `${one.from}–${one.to}` : one.node)), [0, 1, 2, 3, "4–6", 7, "8–11"]);
});
