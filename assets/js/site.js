// The page as a folder of files: recorded races and a menu, on any web server or from disk.

import { mountExperiment } from "./experiment.js";
import { emit, on } from "./events.js";
import { pageFiles } from "./files.js";
import { el, setText } from "./dom.js";
import { mountHeader } from "./header.js";
import { mountRace } from "./main.js";
import { standalone } from "./standalone.js";
import { localize, say, sayOr } from "./words.js";

export function openSite() {
  const panel = (name) => document.getElementById(`ax-${name}`);
  const menu = panel("site").querySelector("select");
  const still = () => {};
  const word = () => {
    for (const option of menu.options) option.text = sayOr(`title.${option.value}`, option.value);
  };
  menu.append(...pageFiles().races.map(({ title }) => el("option", { value: title })));
  menu.addEventListener("change", () => emit("raceChosen", menu.value));
  on("loading", (title) => setText(panel("site").querySelector("[role=status]"), title === null ? "" : say("site.loading")));
  on("shown", ({ race }) => {
    menu.value = race.title;
  });
  localize(panel("site"), word);
  word();
  mountRace(panel("race"), { value: "" }, still, standalone);
  mountExperiment(panel("experiment"), { value: "" }, still);
  mountHeader(panel("header"), { value: null }, still, still);
}
