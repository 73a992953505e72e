// Sentences that the engine writes into its records, in the reader's language: known ones by their pattern, others as they stand, cut where they are very long.

import { fitted } from "./dom.js";
import { say } from "./words.js";

const LONGEST = 240; // letters of a sentence that somebody else wrote
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
}).map(([key, [pattern, ...names]]) => ({ key, names, pattern: new RegExp(`^${pattern}$`) }));

export function recorded(text) {
  for (const { key, names, pattern } of PATTERNS) {
    const found = pattern.exec(text);
    if (found) return say(`recorded.${key}`, Object.fromEntries(names.map((name, i) => [name, name === "count" ? Number(found[i + 1]) : found[i + 1]])));
  }
  return fitted(text, LONGEST);
}
