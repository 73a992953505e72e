// The functions of the global AdedExplorer. Gradio's panels (ui/page.py, ui/controls.py), the static site (ui/site.py) and saved pages call them.

import { keepConnected } from "../controls/connection.js";
import { mountNotice } from "../controls/notice.js";
import { mountNumber } from "../controls/number.js";
import { mountPicker } from "../controls/picker.js";
import { mountPrompt } from "../controls/prompt.js";
import { adjustFields, fixDropdowns, keepRunFocus, tabAsSeen, wasChosen } from "../controls/widgets.js";
import { cited, setText } from "../core/dom.js";
import { emit, on } from "../core/events.js";
import { takeFile } from "../core/files.js";
import { say } from "../core/words.js";
import { setLabels } from "../record/enginetext.js";
import { isRace } from "../record/racehistory.js";
import { fillControls } from "../record/recorded.js";
import { setFormat } from "../record/traceformat.js";
import { mountHeader } from "./header.js";
import { loadLanguage, ready } from "./languages.js";
import { viewOf } from "./link.js";
import { mountRace } from "./race.js";

const nothing = () => {};
let cards = [];

// Called once, at the end of the script. `labels`: label of each method; `format`: format of saved races; `cards`: function `mount` of each card.
export function begin({ labels, format, cards: mounts }) {
  cards = mounts;
  setLabels(labels);
  setFormat(format);
  loadLanguage();
}

// Mounts the race view of a page with a server. `promptCharacters`: the longest prompt that the server takes.
export function mountLiveRace(element, props, watch, trigger, { promptCharacters }) {
  mountRace(element, props, watch, { cards, trigger });
  fillControls(trigger);
  keepConnected();
  fixDropdowns(document);
  keepRunFocus(document.body);
  tabAsSeen(document.body);
  adjustFields(document.body);
  mountPrompt(document.body, promptCharacters);
}

const panel = (name) => document.getElementById(`ax-${name}`);

// Starts the static site: a folder of files on any web server or on disk.
export function openSite() {
  on("loading", (title) => setText(panel("site").querySelector("[role=status]"), title === null ? "" : say("site.loading")));
  mountRace(panel("race"), { value: "" }, nothing, { cards });
  mountHeader(panel("header"), { value: null }, nothing, nothing);
}

// Starts a saved page, which contains one race. A link to another race is reported as an error, unless it names a file, which the user can open.
export async function openFile() {
  await ready();
  const text = (name) => document.querySelector(`script[data-ax-${name}]`).textContent;
  const lines = text("race");
  mountRace(panel("race"), { value: lines }, nothing, { cards, kept: JSON.parse(text("kept")) });
  mountHeader(panel("header"), { value: null }, nothing, (_, { link }) => {
    const shown = JSON.parse(lines.slice(0, lines.indexOf("\n")));
    if (link && !link.file && !isRace(viewOf(link), shown)) emit("linkErrors", [["link.alone", { value: cited(link.race || "") }]]);
  });
}

export { emit, mountHeader, mountNotice, mountNumber, mountPicker, ready, takeFile, wasChosen };
