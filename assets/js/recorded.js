// What the engine writes, its sentences and the names of its lanes, in the reader's language: known ones by their pattern, others as they stand.

import { fitted } from "./dom.js";
import { original, say, sayOr } from "./words.js";

const LONGEST = 240; // letters of a sentence that somebody else wrote
const LONGEST_LABEL = 60; // letters of a lane's name
const NUMBER = String.raw`(-?\d+(?:\.\d+)?)`;
const BRINGS = `(\\d+) more nodes? would bring ${NUMBER} tokens and cost ${NUMBER} ms, the time of ${NUMBER} tokens`;
const PATTERNS = Object.entries({
  "as-set": ["as set"],
  "plain": ["plain decoding drafts nothing"],
  "one": ["the model takes one token a step"],
  "shared": ["fixed: processes that share a model have no clock in common to measure costs by"],
  "all-pay": ["automatic: all (\\d+) nodes of the draft pay", "count"],
  "none-pays": [`automatic: no draft pays here; ${BRINGS.replace(" more", "")}`, "count", "tokens", "cost", "time"],
  "more": [`automatic: ${BRINGS}`, "count", "tokens", "cost", "time"],
  "no-successor": ["no successor of this pair is known: plain step"],
  "no-answer": ["the target has not answered after this token yet: plain step"],
  "no-end": ["no end of the text stands anywhere else: plain step"],
  "no-more": ["(\\d+) of (\\d+) nodes: the search found no more", "count", "most"],
  "no-state": ["the heads have no hidden state before the first step: plain step"],
  "no-match": ["the newest tokens have not stood in the text before: plain step"],
  "not-stored": ["the newest tokens do not stand in the datastore: plain step"],
  "stored": ["the last (\\d+) tokens stand in the datastore (\\d+) times", "count", "times"],
  "no-gain": ["by its acceptance so far, no draft of this model pays: plain step"],
  "in-text": [`the tree of the last (\\d+) tokens in this text: ${NUMBER} tokens expected`, "count", "tokens"],
  "in-corpus": [`the tree of the last (\\d+) tokens in the corpus: ${NUMBER} tokens expected`, "count", "tokens"],
  "window": ["a window of (\\d+) columns and (\\d+) levels, (\\d+) guesses from a pool of (\\d+) n-grams", "columns", "levels", "guesses", "pool"],
  "context": ["the prompt has (\\d+) tokens and the model's context (\\d+); shorten it by at least (\\d+) tokens", "count", "context", "least"],
  "memory": ["the memory of the device is used up; ask for fewer new tokens, a shorter prompt or a smaller model"],
  "unicode": ["the prompt holds characters that are no valid Unicode; give it as UTF-8 text"],
  "template": ["the model's chat template failed \\((.+)\\); use --raw for bare text", "reason"],
  "no-datastore": ["rest has no datastore for this model's tokenizer; make one with `(.+)`, or name one with --datastore", "command"],
  "no-heads": ["there are no Medusa heads for this model; make what is missing with `(.+)`, or give --heads FILE", "command"],
  "no-draft-model": ["there is no draft model for this model; make what is missing with `(.+)`, or give --draft FILE", "command"],
  "starting": ["starting the engine"],
  "loading": ["loading the model"],
  "checking": ["checking that the model verifies trees"],
  "weights": ["checking the weights"],
  "download": ["downloading the default model \\((\\d+) MB, once\\)", "size"],
  "convert": ["converting the model, once: tensor (\\d+) of (\\d+)", "count", "total"],
  "converted": ["saving the converted model"],
  "hub": ["the bundled weights are not to be had \\((.+)\\); asking the hub for (\\S+)", "reason", "model"],
  "nowhere": ["the default model can be had neither from its package \\((.+)\\) nor from the hub; connect to a network once, or give --model a folder or a .gguf file", "reason"],
  "uncaptured": ["steps of this model cannot be captured: they run one operation at a time"],
  "chains": ["this model verifies chains only: of a draft tree, its first path is verified"],
  "single": ["this model verifies one token a step: drafting is off"],
  "threads": ["(\\w+) \\(CPU, (\\d+) threads?\\)", "place", "count"],
  "rotary": ["the context is held to (\\d+) tokens, where this model's rotary embedding changes", "count"],
}).map(([key, [pattern, ...names]]) => ({ key, names, pattern: new RegExp(`^${pattern}$`, "i") }));

// A sentence in the reader's language; null where nobody knows it.
function known(text) {
  for (const { key, names, pattern } of PATTERNS) {
    const found = pattern.exec(text);
    if (found) return say(`recorded.${key}`, Object.fromEntries(names.map((name, i) => [name, name === "count" ? Number(found[i + 1]) : found[i + 1]])));
  }
  return null;
}

// A sentence of a record; what nobody knows is cut where it is very long.
export function recorded(text) {
  return known(text) ?? fitted(text, LONGEST);
}

// What the engine says now, where it is never cut: one sentence, or several with semicolons between them.
export function spoken(text) {
  const parts = text.split("; ").map(known);
  return known(text) ?? (parts.includes(null) ? text : parts.join(say("verdict.semicolon")));
}

// The same with its capital and its full stop.
export function spokenSentence(text) {
  const [, body, end] = /^(.*?)([.…]?)$/s.exec(text);
  const words = spoken(body);
  if (words === body) return text;
  const whole = words[0].toUpperCase() + words.slice(1);
  return end === "…" ? whole + end : say("verdict.sentence", { clauses: whole });
}

// A lane's name: its method's, and for a lane of an ablation the value that it has of a setting.
export function laneLabel({ method, label }) {
  const variant = /^ADED, (\w+) (\S+)$/.exec(label);
  if (variant && sayOr(`control.${variant[1]}`, null)) return variantLabel(variant);
  return label === original(`article.${method}`) ? say(`article.${method}`) : fitted(label, LONGEST_LABEL);
}

function variantLabel([, setting, value]) {
  return say("lane.variant", { method: say("article.aded"), setting: say(`control.${setting}`), value: choice(value) });
}

// A value of a setting in words, where there are any.
export function choice(value) {
  return sayOr(`choice.${value}`, String(value));
}
