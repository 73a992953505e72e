// Races that were on screen before, and how a link names a race. This tab keeps the last ones for the browser's Back button; of live races,
// the browser stores the last ones that have ended, and the server keeps those of all visitors for a while.

const STORE = "aded-races"; // a cache of the browser
const MAX_STORED = 6;
const ID_LENGTH = 16; // of a live race
const WAIT = 4000; // milliseconds to wait for the server
const MAX_RACES = 4; // of this tab

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

// Keeps the JSON lines of a race in the browser; a page without such a store, as in a sandboxed frame, keeps none.
export async function keepRace(id, lines) {
  try {
    const store = await window.caches.open(STORE);
    await store.put(addressOf(id), new Response(lines));
    const all = await store.keys();
    await Promise.all(all.slice(0, Math.max(0, all.length - MAX_STORED)).map((one) => store.delete(one)));
  } catch {
    return;
  }
}

// The JSON lines of a race; null if neither the browser nor the server has it.
export async function findRace(id) {
  if (id.length < ID_LENGTH) return null;
  return (await inBrowser(id)) ?? (await onServer(id));
}

async function inBrowser(id) {
  try {
    const found = await window.caches.match(addressOf(id));
    return found ? await found.text() : null;
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
