// Engine messages in the user's language; the engine's source and the bundled races are the reference.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";

import { runLabel, engineText, engineMessage, engineSentence } from "../../assets/page/record/enginetext.js";
import { speak } from "./words.js";

const read = (path) => readFileSync(new URL(`../../${path}`, import.meta.url), "utf-8");
const traces = readdirSync(new URL("../../assets/traces/", import.meta.url)).map((name) => JSON.parse(read(`assets/traces/${name}`)));
const steps = traces.flatMap((race) => race.lanes.flatMap((run) => run.steps));
const constants = readdirSync(new URL("../../aded/drafters/", import.meta.url), { recursive: true })
  .filter((name) => name.endsWith(".py"))
  .flatMap((name) => [...read(`aded/drafters/${name}`).matchAll(/^NO_[A-Z]+ = "(.+)"$/gm)].map((found) => found[1]));
const budgets = [...read("aded/decoding/decoder.py").matchAll(/FixedBudget\([^"]*"(.+)"\)/g)].map((found) => found[1]);
const shaped = [
  "automatic: all 12 nodes of the draft are throughput-optimal",
  "automatic: plain decoding is fastest here; 1 node would add 0.31 tokens and cost 2.10 ms, the time of 0.40 tokens",
  "automatic: plain decoding is fastest here; 7 nodes would add 0.31 tokens and cost 2.10 ms, the time of 0.40 tokens",
  "automatic: 1 more node would add 0.02 tokens and cost 0.61 ms, the time of 0.03 tokens",
  "automatic: 8 more nodes would add 0.21 tokens and cost 4.08 ms, the time of 0.25 tokens",
  "5 of 24 nodes: the search found no more",
  "the last 3 tokens occur in the datastore 12 times",
];
const sentences = [...new Set([...steps.flatMap(({ note, budget }) => [note, budget.why]), ...constants, ...budgets, ...shaped])].filter(Boolean);
const said = (language) => {
  speak(language);
  const all = sentences.map(engineText);
  speak("en");
  return all;
};

test("every engine sentence is translated to Chinese, with its numbers", () => {
  assert.ok(constants.length >= 7 && budgets.length >= 4 && steps.length > 500);
  said("zh").forEach((words, i) => {
    assert.match(words, /[\u4e00-\u9fff]/, sentences[i]);
    assert.doesNotMatch(words, /\{/);
    const numbers = (text) => (text.match(/\d+(\.\d+)?/g) || []).sort();
    assert.deepEqual(numbers(words), numbers(sentences[i]), sentences[i]);
  });
});

test("in English every engine sentence has the field's terms and its numbers, with the singular for one", () => {
  for (const [i, words] of said("en").entries()) {
    assert.doesNotMatch(words, /\b(pays?|brings?|stands?|stood|pair|known|plain step|1 nodes|last 1 tokens)\b|\{/, sentences[i]);
    const numbers = (text) => (text.match(/\d+(\.\d+)?/g) || []).sort();
    assert.deepEqual(numbers(words.replace(/last token\b/, "last 1 tokens").replace("the one drafted", "1")), numbers(sentences[i]), sentences[i]);
  }
});

test("unknown sentences are shown unchanged, with any markup", () => {
  for (const text of ["", "<img src=x>", "as set ", "${1+1} more nodes", "automatic: 1e308 more nodes"]) assert.equal(engineText(text), text);
});

// Messages of the engine from its source, with values filled into f-strings.
const filled = (text) => text.replaceAll(/\{len\(ids\)[^}]*\}|\{[^}]*(?:limit|original|total|count)[^}]*\}/g, "12").replaceAll(/\{[^}]*\}/g, "X");
const joined = (path, start) => {
  const found = new RegExp(`(f?"${start}[^]*?)\n\\s*\\)`).exec(read(path)) || new RegExp(`(f?"${start}.*")`).exec(read(path));
  return filled([...found[1].matchAll(/"((?:[^"\\\\])*)"/g)].map((part) => part[1]).join(""));
};
// Progress messages of loading, from all sources.
const progress = ["aded/engine/target_model.py", "aded/engine/loading/weights.py", "ui/race/models.py", "ui/serving/zerogpu/worker.py"].flatMap((path) =>
  [...read(path).matchAll(/(?:progress|Loading)\(f?"([^"]+)"/g)].map((found) => filled(found[1]).replace("i + 1", "12").replace(/tensor \w+ of/, "tensor 3 of")),
);

test("progress messages of loading are translated to Chinese", () => {
  assert.ok(progress.length >= 8, progress.join("; "));
  speak("zh");
  const words = progress.map(engineMessage);
  speak("en");
  for (const [i, text] of words.entries()) assert.match(text, /[\u4e00-\u9fff]/, progress[i]);
});

const answers = [
  joined("aded/engine/target_model.py", "the prompt has").replace("Xtokens", "X tokens"),
  joined("aded/decoding/decoder.py", "the memory of the device"),
  "the prompt holds characters that are no valid Unicode; give it as UTF-8 text",
  "there is no datastore for this model's tokenizer; make what is missing with `python -m aded prepare SPEC`, or give --datastore FILE",
  "there are no Medusa heads for this model; make what is missing with `python -m aded prepare SPEC`, or give --heads FILE",
  "there is no EAGLE head for this model; make what is missing with `python -m aded prepare SPEC`, or give --head FILE",
  "the prompt has one token, so the head has no features before the first step: plain step",
  "the head stops drafting: its logits are not finite; train it again, or use a wider --dtype",
  "there is no GliDe head for this model; make what is missing with `python -m aded prepare SPEC`, or give --head FILE",
  "there is no MTP head for this model; make what is missing with `python -m aded prepare SPEC`, or give --head FILE",
  "there is no draft model for this model; make what is missing with `python -m aded prepare SPEC`, or give --draft FILE",
  "starting the engine",
  "loading the model",
  "checking the weights",
  "downloading the default model (93 MB, once)",
  "converting the model, once: tensor 3 of 272",
  "saving the converted model",
  "steps of this model cannot be captured: they run one operation at a time",
  "this model verifies chains only: of a draft tree, its first path is verified",
  "this model verifies one token a step: drafting is off",
  "the context is held to 4096 tokens, where this model's rotary embedding changes",
];

test("engine messages are translated to Chinese, alone and in a sentence", () => {
  speak("zh");
  for (const text of [...answers, answers.slice(-4, -2).join("; ")]) {
    assert.match(engineMessage(text), /[\u4e00-\u9fff]/, text);
    assert.match(engineSentence(`${text[0].toUpperCase()}${text.slice(1)}.`), /[\u4e00-\u9fff].*。$/, text);
    assert.match(engineSentence(`${text}…`), /…$/);
  }
  speak("en");
  for (const text of answers) assert.match(engineMessage(text), /^\p{Ll}[^{}]*$/u, text);
});

test("the sentences in the engine's source are those of the patterns", () => {
  const source = ["aded/core/errors.py", "aded/engine/target_model.py", "aded/engine/loading/gguf_file.py", "aded/engine/loading/loader.py", "aded/engine/loading/weights.py", "aded/decoding/decoder.py", "aded/drafters/registry.py", "aded/draft_models/checkpoints.py", "ui/race/models.py"].map(read).join("\n");
  const quoted = ["starting the engine", "loading the model", "checking the weights", "saving the converted model", "this model verifies", "the context is held to", "there are no Medusa heads", "there is no EAGLE head", "there is no draft model", "make what is missing with `python -m aded prepare", "there is no datastore for this model's tokenizer", "steps of this model cannot be captured", "converting the model, once: tensor", "downloading the default model"];
  for (const words of quoted) assert.ok(source.includes(words), words);
});

test("a run is named by its method, or by its value in an ablation, in the user's language", () => {
  const names = () => [["plain", "Plain decoding"], ["aded", "ADED, search mcts"], ["aded", "ADED, c1 0.25"], ["aded", "mine"], ["nobody", "Nobody"], ["__proto__", "x"]].map(([method, label]) => runLabel({ method, label }));
  assert.deepEqual(names(), ["Plain decoding", "ADED · Search: MCTS", "ADED · c₁ (prior): 0.25", "mine", "Nobody", "x"]);
  speak("zh");
  assert.deepEqual(names().slice(0, 4), ["自回归解码", "ADED · 搜索：蒙特卡洛树搜索（MCTS）", "ADED · c₁（先验）：0.25", "mine"]);
  speak("en");
});

test("CPU threads are counted in the user's language", () => {
  assert.deepEqual(["cpu (CPU, 1 threads)", "cpu (CPU, 16 threads)"].map(engineText), ["cpu (CPU, 1 thread)", "cpu (CPU, 16 threads)"]);
  assert.deepEqual(["CPU, 1 threads (processor: AMD EPYC)", "CPU, 2 threads (processor: AMD EPYC)"].map(engineText), ["CPU, 1 thread (processor: AMD EPYC)", "CPU, 2 threads (processor: AMD EPYC)"]);
  speak("zh");
  assert.equal(engineText("cpu (CPU, 16 threads)"), "cpu（CPU，16 个线程）");
  assert.equal(engineText("cuda:0 (NVIDIA H100)"), "cuda:0 (NVIDIA H100)");
  speak("en");
});
