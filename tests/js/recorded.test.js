// Sentences of the engine in the reader's language; the engine's own source and the bundled races are the oracle.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";

import { recorded } from "../../assets/js/recorded.js";
import { setLanguage } from "../../assets/js/words.js";
import "./words.js";

const read = (path) => readFileSync(new URL(`../../${path}`, import.meta.url), "utf-8");
const traces = readdirSync(new URL("../../assets/traces/", import.meta.url)).map((name) => JSON.parse(read(`assets/traces/${name}`)));
const steps = traces.flatMap((race) => race.lanes.flatMap((lane) => lane.steps));
const constants = readdirSync(new URL("../../aded/drafters/", import.meta.url))
  .filter((name) => name.endsWith(".py"))
  .flatMap((name) => [...read(`aded/drafters/${name}`).matchAll(/^NO_[A-Z]+ = "(.+)"$/gm)].map((found) => found[1]));
const budgets = [...read("aded/decode.py").matchAll(/FixedBudget\([^"]*"(.+)"\)/g)].map((found) => found[1]);
const shaped = [
  "automatic: all 12 nodes of the draft pay",
  "automatic: no draft pays here; 1 node would bring 0.31 tokens and cost 2.10 ms, the time of 0.40 tokens",
  "automatic: no draft pays here; 7 nodes would bring 0.31 tokens and cost 2.10 ms, the time of 0.40 tokens",
  "automatic: 1 more node would bring 0.02 tokens and cost 0.61 ms, the time of 0.03 tokens",
  "automatic: 8 more nodes would bring 0.21 tokens and cost 4.08 ms, the time of 0.25 tokens",
  "5 of 24 nodes: the search found no more",
  "the last 3 tokens stand in the datastore 12 times",
];
const sentences = [...new Set([...steps.flatMap(({ note, budget }) => [note, budget.why]), ...constants, ...budgets, ...shaped])].filter(Boolean);
const said = (language) => {
  setLanguage(language);
  const all = sentences.map(recorded);
  setLanguage("en");
  return all;
};

test("every sentence of the engine is said in Chinese, with its numbers", () => {
  assert.ok(constants.length >= 7 && budgets.length >= 4 && steps.length > 500);
  said("zh").forEach((words, i) => {
    assert.match(words, /[\u4e00-\u9fff]/, sentences[i]);
    assert.doesNotMatch(words, /\{/);
    const numbers = (text) => (text.match(/\d+(\.\d+)?/g) || []).sort();
    assert.deepEqual(numbers(words), numbers(sentences[i]), sentences[i]);
  });
});

test("in English they stay as the engine wrote them, but for one and many", () => {
  const plain = (text) => text.replace(/1 nodes would/, "1 node would").replace("last 1 tokens stand", "last token stands").replace("last 1 tokens", "last token");
  said("en").forEach((words, i) => assert.equal(words, plain(sentences[i])));
});

test("what nobody knows stays as it is, markup and all", () => {
  for (const text of ["", "<img src=x>", "as set ", "${1+1} more nodes", "automatic: 1e308 more nodes"]) assert.equal(recorded(text), text);
});
