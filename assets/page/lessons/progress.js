// Progress in the lessons: the parts that were seen, the exercises that were solved, and where each lesson was left. The browser keeps it.

import { loadItem, storeItem } from "../core/storage.js";

const ITEM = "lessons";

function stored() {
  try {
    const found = JSON.parse(loadItem(ITEM));
    return found !== null && typeof found === "object" && !Array.isArray(found) ? found : {};
  } catch {
    return {};
  }
}

const numbers = (list) => (Array.isArray(list) ? list.filter((i) => Number.isInteger(i) && i >= 0) : []);

// Of a lesson: {done, solved, at}: numbers of parts, and the part at which it was left.
export function progressOf(name) {
  const found = stored()[name] ?? {};
  return { done: numbers(found.done), solved: numbers(found.solved), at: Number.isInteger(found.at) ? found.at : 0 };
}

// Notes a part: `what` is "done", "solved" or "at".
export function note(name, what, part) {
  const before = progressOf(name);
  const after = what === "at" ? { ...before, at: part } : { ...before, [what]: [...new Set([...before[what], part])] };
  storeItem(ITEM, JSON.stringify({ ...stored(), [name]: after }));
}
