// The lessons, the tools and conversations: their script, with its styles and texts (page/lessons, page/tools, page/turns), is loaded when
// the list, one of them or a link to one is opened, for a live race, and for a later turn of a conversation.

import { cited } from "../core/dom.js";
import { emit, on } from "../core/events.js";
import { loadScript, pageFiles } from "../core/files.js";

let ready = null;
let seen = null; // the race for which it was loaded or not

// What page/lessons/start.js offers; null if it cannot be loaded, which is reported.
export async function lateScript() {
  ready ??= Promise.all([new Promise((resolve) => on("lessons", resolve)), loadScript({ src: pageFiles().lessons })]);
  try {
    return (await ready)[0];
  } catch {
    ready = null;
    emit("linkErrors", [["lessons.missing", {}]]);
    return null;
  }
}

// The button that opens the list, and the entries of the menu for it and for the tools; a saved page has none of them.
export function createLessons(button, entries) {
  for (const one of [button, ...entries]) one.hidden = !pageFiles().lessons;
  button.addEventListener("click", async () => (await lateScript())?.openList());
  on("shown", ({ race }) => {
    if (pageFiles().lessons && race.id !== seen && (race.source === "run" || race.runs[0].turn)) lateScript();
    seen = race.id;
  });
  for (const one of entries) if (one.dataset.tool) one.addEventListener("click", async () => (await lateScript())?.openTool(one.dataset.tool));
}

// Opens the lesson and the tool of a link, or closes those that are open; resolves when that is done.
export async function followLesson(link) {
  if (pageFiles().lessons && (link.lesson || link.tool || ready)) await (await lateScript())?.follow(link);
}

// Opens the lesson in a file, or returns what is wrong with it, as messages.
export async function openLesson(text, name) {
  if (!pageFiles().lessons) return [["file.lesson", { name: cited(name) }]];
  return (await lateScript())?.openText(text, name) ?? [];
}
