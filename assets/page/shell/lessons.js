// The lessons: their script, with its styles and texts (page/lessons), is loaded when the list, a lesson or a link to one is opened.

import { cited } from "../core/dom.js";
import { emit, on } from "../core/events.js";
import { loadScript, pageFiles } from "../core/files.js";

let ready = null;

// What page/lessons/start.js offers; null if it cannot be loaded, which is reported.
async function lessons() {
  ready ??= Promise.all([new Promise((resolve) => on("lessons", resolve)), loadScript({ src: pageFiles().lessons })]);
  try {
    return (await ready)[0];
  } catch {
    ready = null;
    emit("linkErrors", [["lessons.missing", {}]]);
    return null;
  }
}

// The button that opens the list, and the entry of the menu for it; a saved page has no lessons.
export function createLessons(button, entry) {
  button.hidden = entry.hidden = !pageFiles().lessons;
  button.addEventListener("click", async () => (await lessons())?.openList());
}

// Opens the lesson of a link, or closes the one that is open.
export async function followLesson(link) {
  if (pageFiles().lessons && (link.lesson || ready)) (await lessons())?.follow(link);
}

// Opens the lesson in a file, or returns what is wrong with it, as messages.
export async function openLesson(text, name) {
  if (!pageFiles().lessons) return [["file.lesson", { name: cited(name) }]];
  return (await lessons())?.openText(text, name) ?? [];
}
