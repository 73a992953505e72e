// Opens saved races and lessons, by a button or dropped onto the page. The browser reads and checks the file.

import { cited, el, withCode } from "../core/dom.js";
import { on } from "../core/events.js";
import { createLatest } from "../core/latest.js";
import { linesOf, parseRace } from "../record/traceformat.js";
import { openLesson } from "./lessons.js";
import { onLanguage, say, sentences } from "../core/words.js";

const MEBIBYTES = 16; // maximum size of a file

// While `state.race` is running, no race is opened; `show` gets the JSON lines of the opened race.
export function createOpening(part, state, show) {
  const input = el("input", { type: "file", accept: ".json,application/json", "data-part": "open-file", hidden: true });
  const error = el("div", { class: "ax-notice ax-open-error", "data-part": "open-error", "data-kind": "error", role: "alert", hidden: true });
  let messages = [];
  let shown = null; // id of the race on screen to which the messages belong
  const ask = createLatest(); // of several files, the last one is opened

  function draw() {
    error.replaceChildren(...withCode(sentences(...messages.map(([key, values]) => say(key, values)))));
    error.hidden = !messages.length;
  }

  function report(found) {
    messages = found;
    draw();
  }

  async function open(file) {
    part("save-menu").open = false; // it would cover the race, or the message about the file
    shown = state.race.id; // the event of a race that has just started may be still to come, and must not clear the message
    const isLatest = ask();
    let running = state.race.running; // a race may also start while the file is read
    const found = running ? [] : await read(file, (lines) => {
      running = state.race.running;
      if (isLatest() && !running) show(lines);
    });
    if (isLatest()) report(running ? [["file.running", {}]] : found);
  }

  part("open").addEventListener("click", () => input.click());
  input.addEventListener("change", async () => {
    const [file] = input.files;
    if (file) await open(file);
    input.value = ""; // the same file can be opened again
  });
  document.addEventListener("dragover", (event) => event.dataTransfer.types.includes("Files") && event.preventDefault());
  document.addEventListener("drop", (event) => {
    const { files } = event.dataTransfer;
    if (!files.length) return;
    event.preventDefault();
    if (files.length === 1) open(files[0]);
    else {
      ask(); // a file that is still being read is not opened
      report([["file.several", {}]]);
    }
  });
  on("shown", ({ race }) => {
    if (shown !== race.id) report([]);
    shown = race.id;
  });
  onLanguage(draw);
  part("open").after(input);
  part("race-head").after(error);
}

// Shows a file's race, or returns what is wrong with the file, as messages.
export async function read(file, show) {
  const name = cited(file.name);
  const remedy = ["file.remedy", { save: { say: "save.race" } }];
  if (!/\.json$/i.test(file.name)) return [["file.kind", { name }], remedy];
  if (file.size > MEBIBYTES * 2 ** 20) return [["file.large", { megabytes: MEBIBYTES }]];
  const bytes = await file.arrayBuffer().catch(() => null);
  if (!bytes) return [["file.missing", { name }], remedy];
  const { lines, problem, where } = linesIn(bytes, file.name);
  if (problem === "foreign" && decoded(bytes).includes('"aded-lesson"')) return openLesson(decoded(bytes), file.name);
  if (!problem) show(lines);
  return problem ? [[`file.${problem}`, { name }], ...(where ? [["file.where", { where: cited(where) }]] : []), remedy] : [];
}

function linesIn(bytes, title) {
  try {
    const { race, ...refusal } = parseRace(decoded(bytes));
    return race ? { lines: linesOf(race, title) } : refusal;
  } catch {
    return { problem: "damaged" };
  }
}

// The text of the file; empty if it is not UTF-8.
function decoded(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return "";
  }
}
