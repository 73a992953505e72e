// What the panels tell each other: names and listeners, nothing else.
//   view (race, lane, step, node, pair as a link names them): what is on screen;  show (the same): what shall be
//   shown ({race, lane, step}): the race and the step that is shown;  study ({lane, step}): the step that shall be;  keys: the sheet of keys shall open
//   refused (sentences as keys and values): what a link names and the page does not have
//   running (its id, or null): the race on screen while it is being run
//   chosen (its title): the recorded race that the visitor wants
//   told (a notice): what the line under the buttons shall say
//   did (step, play, node, search, guess): what the visitor has just done;  article (method): what shall be explained

const listeners = new Map();
const latest = new Map();

// Listens from now on; whoever comes late is told what was said last.
export function on(name, listener) {
  listeners.set(name, [...(listeners.get(name) || []), listener]);
  if (latest.has(name)) listener(latest.get(name));
}

export function emit(name, detail) {
  latest.set(name, detail);
  for (const listener of listeners.get(name) || []) listener(detail);
}
