// Live races that have ended: the browser keeps the last ones, and the server keeps those of all visitors for a while.

const STORE = "aded-races"; // a cache of the browser
const MAX_RACES = 6;
const ID_LENGTH = 16; // of a live race
const WAIT = 4000; // milliseconds to wait for the server

const addressOf = (id) => new URL(`races/${id}`, document.baseURI).href;

// Keeps the JSON lines of a race in the browser; a page without such a store, as in a sandboxed frame, keeps none.
export async function keepRace(id, lines) {
  try {
    const store = await window.caches.open(STORE);
    await store.put(addressOf(id), new Response(lines));
    const all = await store.keys();
    await Promise.all(all.slice(0, Math.max(0, all.length - MAX_RACES)).map((one) => store.delete(one)));
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
