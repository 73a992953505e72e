// The record on the page: rebuilt from JSON lines, with each lane's own clock. Knows nothing of drawing.

import { laneLabel } from "./recorded.js";

export function emptyRace() {
  return { id: null, source: "", title: "", settings: null, lanes: [], running: false, kept: {}, read: 0 };
}

// Reads what is new in a growing string of JSON lines; another race starts over. Returns the race.
export function readLines(race, value) {
  const text = value || "";
  const head = text.slice(0, text.indexOf("\n"));
  if (!head) return race;
  const id = JSON.parse(head).id;
  const target = id === race.id && text.length >= race.read ? race : emptyRace();
  const end = text.lastIndexOf("\n") + 1;
  for (const line of text.slice(target.read, end).split("\n")) if (line) apply(target, JSON.parse(line));
  target.read = end;
  return target;
}

// The lines of a race as if it had been stopped where they end: for whoever keeps them while it runs.
export function stoppedLines(text) {
  const [head] = text.split("\n", 1);
  const lanes = head ? JSON.parse(head).lanes.length : 0;
  const ended = new Set(text.split("\n").filter((line) => line.startsWith('{"t":"lane"')).map((line) => JSON.parse(line).lane));
  const cut = Array.from({ length: lanes }, (_, lane) => lane).filter((lane) => !ended.has(lane));
  const ends = cut.map((lane) => ({ t: "lane", lane, prefill_seconds: 0, text: "", finish_reason: "cancelled" }));
  return [text.slice(0, text.lastIndexOf("\n") + 1), ...[...ends, { t: "status", running: false }].map((event) => `${JSON.stringify(event)}\n`)].join("");
}

const TICK = 1e-9; // seconds; no clock tells less

const READERS = {
  race(race, event) {
    Object.assign(race, { id: event.id, source: event.source, title: event.title, settings: event.settings ?? null, lanes: event.lanes.map(emptyLane) });
  },
  step(race, event) {
    const lane = race.lanes[event.lane];
    lane.steps.push(event.step);
    lane.layouts.push(event.layout);
    const s = event.step.seconds;
    const took = s.draft + s.verify + s.commit + s.update;
    lane.ends.push(last(lane.ends, 0) + (took < TICK ? 0 : took));
    lane.counts.push(last(lane.counts, 0) + event.step.emitted.length);
  },
  lane(race, event) {
    const { lane, prefill_seconds, text, finish_reason, taught } = event;
    Object.assign(race.lanes[lane], { prefill_seconds, text, finish_reason, taught: Boolean(taught) });
  },
  status(race, event) {
    race.running = event.running;
    race.kept = event.kept ?? {};
  },
};

function apply(race, event) {
  READERS[event.t](race, event);
}

function emptyLane({ header, colours, remembers }) {
  const label = { get: () => laneLabel(header), enumerable: true }; // in the language of the moment
  return Object.defineProperty({ header, colours, remembers: remembers ?? null, taught: false, steps: [], layouts: [], ends: [], counts: [], prefill_seconds: 0, text: "", finish_reason: null }, "label", label);
}

// A column of a tree, an entry a node; nothing but nulls where the method does not fill it.
export function column(tree, name) {
  return tree.columns[name] || new Array(tree.tokens.length).fill(null);
}

// The target's most probable tokens at a choice: {token, text, p}. Top-k and top-p leave some with no probability at all.
export function possible({ top_tokens: tokens, top_texts: texts, top_probabilities: probabilities }) {
  return tokens.map((token, k) => ({ token, text: texts[k], p: probabilities[k] })).filter(({ p }) => p > 0);
}

// A node's rank among the target's tokens; null where it has none, or no probability to be ranked by.
export function rankOf(tree, node) {
  return tree.probability[node] === 0 ? null : tree.rank[node];
}

export function last(list, otherwise) {
  return list.length ? list[list.length - 1] : otherwise;
}

export function duration(race) {
  return Math.max(0, ...race.lanes.map((lane) => last(lane.ends, 0)));
}

// Steps that a lane has finished at a time on its own clock.
export function stepsDone(lane, time) {
  let low = 0;
  let high = lane.ends.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lane.ends[middle] <= time + 1e-9) low = middle + 1;
    else high = middle;
  }
  return low;
}

// What the time of a step is made of, in the order in which it passes.
export const PARTS = ["draft", "verify", "commit", "update"];

// A lane's figures after its first `done` steps; each part in seconds.
export function figures(lane, done) {
  const sum = { draft: 0, verify: 0, commit: 0, update: 0 };
  for (const { seconds } of lane.steps.slice(0, done)) for (const part of PARTS) sum[part] += seconds[part];
  const tokens = done ? lane.counts[done - 1] : 0;
  const seconds = done ? lane.ends[done - 1] : 0;
  return { tokens, seconds, passes: done, rate: seconds ? tokens / seconds : 0, perPass: done ? tokens / done : 0, ...sum };
}

export function plainLane(race) {
  return race.lanes.find((lane) => lane.header.method === "plain") || null;
}

// A lane's name in links and tables: its method's, and for a further lane of that method its place among them.
export function laneName(lanes, index) {
  const { method } = lanes[index].header;
  const before = lanes.slice(0, index).filter((lane) => lane.header.method === method).length;
  return before ? `${method}~${before + 1}` : method;
}

// Items that stand for lanes, in the order of the page: what is studied first, plain decoding last.
export function plainLast(items, lanes) {
  const plain = (i) => lanes[i].header.method === "plain";
  return [...items.filter((_, i) => !plain(i)), ...items.filter((_, i) => plain(i))];
}

// The lane whose steps are worth opening first: one that drafts.
export function draftingLane(race) {
  return Math.max(0, race.lanes.findIndex((lane) => lane.header.method !== "plain"));
}

// A step that shows much: the longest accepted draft, early ones first.
export function tellingStep(lane) {
  let best = 0;
  lane.steps.forEach((step, i) => {
    if (weight(step) > weight(lane.steps[best])) best = i;
  });
  return best;
}

function weight(step) {
  return Math.min(step.path.length, 5) * 1000 + Math.min(step.tree.tokens.length, 40);
}

const VERSION = 3; // of the record, as in aded/core/trace.py

// The race as `aded.core.trace` writes it.
export function toFile(race) {
  const lanes = race.lanes.map((lane) => ({
    format: "aded-trace",
    version: VERSION,
    header: lane.header,
    steps: lane.steps,
    prefill_seconds: lane.prefill_seconds,
    text: lane.text,
    token_ids: lane.steps.flatMap((step) => step.emitted),
    finish_reason: lane.finish_reason,
  }));
  return JSON.stringify({ format: "aded-race", version: VERSION, lanes });
}
