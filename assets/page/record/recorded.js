// The recorded races of the page: their texts are loaded when they are opened.

import { cited, embedded } from "../core/dom.js";
import { emit, on } from "../core/events.js";
import { pageFiles, textOf } from "../core/files.js";

// `show` shows a race from its text.
export function createRecorded(show) {
  let wanted = null;

  // Opens the race with this title, or the first one; a page that contains its only race opens none. `instead`: {shown}, what is on screen if there
  // is no such race.
  async function open(title = null, instead = null) {
    const races = pageFiles().races ?? [];
    const race = title === null ? races[0] : races.find((known) => known.title === title);
    if (!race) return report("link.race", title, instead ?? {});
    load(race.title);
    const text = await textOf(race.file).catch(() => null);
    if (wanted !== race.title) return;
    if (text === null) report("link.missing", race.title, { file: race.file });
    else show(text);
    load(null);
  }

  function load(title) {
    wanted = title;
    emit("loading", title);
  }

  function report(key, title, values = {}) {
    const name = embedded() ? `${key}.embed` : key; // an embedded panel has no bar to choose another race in
    if (pageFiles().races && title !== null) emit("linkErrors", [[name, { value: cited(title), ...values }]]);
  }

  return { open, cancel: () => wanted !== null && load(null), loading: () => wanted !== null };
}

// The server fills the controls with the settings of a recorded race that was chosen, or of a race from a file.
export function fillControls(trigger) {
  for (const name of ["raceChosen", "fill"]) on(name, (race) => trigger("select", { race }));
  on("fileOpened", ({ title, runs }) => trigger("select", { race: title, headers: runs.map(({ header }) => header) }));
}
