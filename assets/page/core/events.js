// Events between panels: names and listeners. A name, what is passed with it, and its meaning:
//   view (race, run, file, method, step, node, bigram, as in a link): the view on screen;  openView (the same): a view to open
//   shown ({race, run, step}): the race, run and step on screen;  goto ({run, step}): a step to show
//   mounted (what cards get, see docs/architecture.md): the race view is there;  shortcuts: open the list of keyboard shortcuts
//   linkErrors (messages): parts of a link that do not exist on this page, and files that were not loaded or saved
//   edit (prompt, methods, settings): open the controls at one of them;  tab (name): a tab of the stage to show
//   present (true or false): whether the page is presented
//   running (id or null): the race on screen while it runs
//   raceChosen (title): the recorded race that the user selected;  loading (title or null): the recorded race that is being loaded
//   fileOpened (race): the race that was read from a file
//   notice (a notice, or null for the server's latest): a message to show below the buttons
//   busy (true or false): the server prepares a race or runs it
//   failed: the server's latest notice is an error, as it refused a race or ended it
//   corrected (keys): the controls no longer have the mistakes that messages of these keys are about
//   cut: the connection to the server is lost, and what was running with it
//   lesson ({lesson, part}): the lesson and its part on screen, for the address;  lessons (functions): their script is loaded
//   tool ({tool, and its values} or null): the tool on screen, for the address
//   fill (title): the recorded race whose settings fill the controls;  predict (true or false): whether the verification is hidden
//   moment (number): a moment of the search to show
//   embedCode (element): the menu's entry that copies the code of a frame
//   action (step, play, node, search, predict): what the user did last;  article (method): the method to explain

const listeners = new Map();
const latest = new Map();

// Adds a listener; it is called at once with the last event of this name, if there was one.
export function on(name, listener) {
  listeners.set(name, [...(listeners.get(name) || []), listener]);
  if (latest.has(name)) listener(latest.get(name));
}

export function emit(name, detail) {
  latest.set(name, detail);
  for (const listener of listeners.get(name) || []) listener(detail);
}
