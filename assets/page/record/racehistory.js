// Races that were on screen before, and how a link names a race. This tab keeps the last ones for the browser's Back button; of live races,
// the browser stores the last ones, one that is running as far as it has come, and the server keeps those of all visitors for a while.

import { loadOfTab, storeOfTab } from "../core/storage.js";
import { stoppedLines } from "./record.js";

const STORE = "aded-races"; // a cache of the browser
const MAX_STORED = 6;
const ID_LENGTH = 16; // of a live race
const WAIT = 4000; // milliseconds to wait for the server
const MAX_RACES = 4; // of this tab
const PARTIAL = "x-aded-partial"; // header of a stored race that had not ended
const TAIL = "tail"; // in the storage of the tab, which is written at once
const KEPT_IN = "x-aded-kept"; // header of a race that the server keeps
const BETWEEN = 2000; // milliseconds between two copies of a running race, and
const PER_MEGABYTE = 2000; // as many more for each megabyte, since a copy is written as a whole

// How a link names a race: a recorded one by title, a live race by id, an opened file by name.
export function raceIdOf({ id, source, title }) {
  return { race: source === "recorded" ? title : null, run: source === "run" ? id : null, file: source === "file" ? title : null };
}

// Whether the view of a link is of this race, or names none.
export function isRace({ race, run, file }, shown) {
  const here = raceIdOf(shown);
  if (race || file) return (race || null) === here.race && (file || null) === here.file;
  return !run || run === here.run;
}

export function createRaceHistory() {
  const texts = new Map();

  function keep(race, text) {
    const key = JSON.stringify(raceIdOf(race));
    texts.delete(key);
    texts.set(key, text);
    if (texts.size > MAX_RACES) texts.delete(texts.keys().next().value);
  }

  // The text of the race that a view names; undefined if it is not kept.
  const find = ({ race, run, file }) => texts.get(JSON.stringify({ race: race || null, run: run || null, file: file || null }));

  return { keep, find };
}

const addressOf = (id) => new URL(`races/${id}`, document.baseURI).href;

// Keeps live races in the browser: {copy, leave}. `copy` does so now and then while a race runs, and when it has ended; `partial`: whether it has only
// come so far. `leave` adds the steps of a running race since its last copy when the page is left. `keep` stores a copy.
export function createKeeper(keep = keepRace, clock = () => performance.now()) {
  let latest = { id: null, at: 0 };
  let copied = { id: null, length: 0 };
  let done = Promise.resolve();
  let pending = 0;
  const copy = ({ id, running }, lines, partial = running) => {
    const due = id !== latest.id || clock() - latest.at > BETWEEN + (PER_MEGABYTE * lines.length) / 1e6;
    if (running && (pending || !due)) return;
    latest = { id, at: clock() };
    pending += 1;
    done = done.then(() => keep(id, lines, partial)).then(() => {
      pending -= 1;
      copied = { id, length: lines.length };
    });
  };
  const leave = ({ id, running }, lines) => {
    const from = id === copied.id ? copied.length : 0;
    if (running) storeOfTab(TAIL, JSON.stringify({ id, from, text: lines.slice(from) }));
  };
  return { copy, leave };
}

// Keeps the JSON lines of a race in the browser; a page without such a store, as in a sandboxed frame, keeps none. `partial`: it has not ended.
async function keepRace(id, lines, partial) {
  try {
    const store = await window.caches.open(STORE);
    await store.put(addressOf(id), new Response(lines, { headers: partial ? { [PARTIAL]: "1" } : {} }));
    const all = await store.keys();
    await Promise.all(all.slice(0, Math.max(0, all.length - MAX_STORED)).map((one) => store.delete(one)));
  } catch {
    return;
  }
}

// A live race: {lines, partial}, `partial` being the number of its steps if it is only a part, else null; null if neither the browser nor
// the server has it.
export async function findRace(id) {
  if (id.length < ID_LENGTH) return null;
  const own = await inBrowser(id);
  if (own && !own.partial) return { lines: own.lines, partial: null };
  const lines = await onServer(id);
  if (lines === null) return own && partOf(stoppedLines(own.lines));
  if (!own || !lines.includes('"finish_reason":"cancelled"')) return { lines, partial: null };
  return [partOf(lines), partOf(stoppedLines(own.lines))].reduce((most, one) => (one.partial > most.partial ? one : most));
}

// The copy of a race with the steps that came after it and before the page was left.
function withTail(id, lines) {
  const tail = JSON.parse(loadOfTab(TAIL) ?? "{}");
  const joined = tail.id === id && tail.from <= lines.length ? lines.slice(0, tail.from) + tail.text : "";
  return joined.length > lines.length ? joined : lines;
}

const partOf = (lines) => ({ lines, partial: lines.split('\n{"t":"step"').length - 1 });

async function inBrowser(id) {
  try {
    const found = await window.caches.match(addressOf(id));
    const [lines, partial] = found ? [await found.text(), found.headers.has(PARTIAL)] : ["", true];
    const whole = partial ? withTail(id, lines) : lines;
    return whole ? { lines: whole, partial } : null;
  } catch {
    return null;
  }
}

// Where the server keeps a race: "disk", "memory" or "none"; null if it does not answer.
export async function placeOnServer(id) {
  try {
    const { status, headers } = await fetch(addressOf(id), { method: "HEAD", signal: AbortSignal.timeout(WAIT) });
    return status === 204 ? "none" : status === 200 ? (headers.get(KEPT_IN) ?? "disk") : null;
  } catch {
    return null;
  }
}

async function onServer(id) {
  try {
    const answer = await fetch(addressOf(id), { signal: AbortSignal.timeout(WAIT) });
    return answer.status === 200 ? await answer.text() : null;
  } catch {
    return null;
  }
}
