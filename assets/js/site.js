// The page as a folder of files: recorded races, on any web server or from disk.

import { mountExperiment } from "./experiment.js";
import { on } from "./events.js";
import { setText } from "./dom.js";
import { mountHeader } from "./header.js";
import { mountRace } from "./main.js";
import { standalone } from "./standalone.js";
import { say } from "./words.js";

export function openSite() {
  const panel = (name) => document.getElementById(`ax-${name}`);
  const still = () => {};
  on("loading", (title) => setText(panel("site").querySelector("[role=status]"), title === null ? "" : say("site.loading")));
  mountRace(panel("race"), { value: "" }, still, standalone);
  mountExperiment(panel("race"), "");
  mountHeader(panel("header"), { value: null }, still, still);
}
