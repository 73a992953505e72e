// The tools: sheets that are opened from the list of lessons, from the menu or by a link, one at a time.

import { cited } from "../core/dom.js";
import { emit } from "../core/events.js";
import { createCalculator } from "./calculator.js";
import { createResults } from "./results.js";

export const TOOLS = ["calculator", "results"];

// `results`: the file of the benchmark results; `focus`: focuses what opens the tools, if the dialog cannot give the focus back. Returns {open(name, link), close}.
export function createTools(results, focus) {
  const makers = { calculator: createCalculator, results: () => createResults(results) };
  const made = {};
  let shown = null; // name of the tool on screen

  function make(name) {
    const tool = makers[name]();
    tool.dialog.addEventListener("close", () => {
      if (shown !== name) return;
      shown = null;
      emit("tool", null);
      if (document.activeElement === document.body) focus();
    });
    return tool;
  }

  function open(name, link = {}) {
    if (!TOOLS.includes(name)) return emit("linkErrors", [["tool.unknown", { value: cited(name), list: { say: "lessons.open" } }]]);
    if (shown !== name) close();
    shown = name;
    made[name] ??= make(name);
    return made[name].open(link);
  }

  function close() {
    if (shown) made[shown].dialog.close();
  }
  return { open, close };
}
