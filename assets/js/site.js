// The page as a folder of files: recorded races and a menu, on any web server or from disk.
//
// All data files are scripts, because a page opened from disk cannot read other files; they contain compressed text.

import { mountExperiment } from "./experiment.js";
import { emit, on } from "./events.js";
import { cited, el, setText } from "./dom.js";
import { mountHeader } from "./header.js";
import { mountRace } from "./main.js";
import { standalone } from "./standalone.js";
import { localize, say, sayOr } from "./words.js";

const LIBRARY = "plotly.js";
const loaded = new Map();

// Called by the script of a data file: its name, and its text, gzipped and in base64.
export function take(file, packed) {
  loaded.set(file, packed);
}

// `races`: [{title, file}] in the order of the menu.
export async function openSite(races) {
  const panel = (name) => document.getElementById(`ax-${name}`);
  const menu = panel("site").querySelector("select");
  const status = panel("site").querySelector("[role=status]");
  const props = { value: "" };
  const watchers = [];
  const fileOf = (title) => races.find((race) => race.title === title)?.file;
  let wanted = "";

  function word() {
    for (const option of menu.options) option.text = sayOr(`title.${option.value}`, option.value);
  }

  // Shows the race of a link, or a message if it does not exist.
  function open(title) {
    if (fileOf(title)) return show(title);
    if (title) emit("linkErrors", [["link.race", { value: cited(title), list: { say: "control.recorded" } }]]);
    return null;
  }

  async function show(title) {
    wanted = menu.value = title;
    setText(status, say("site.loading"));
    const lines = await textOf(fileOf(title)).catch((error) => setText(status, error.message));
    if (!lines || wanted !== title) return;
    setText(status, "");
    props.value = lines;
    for (const act of watchers) act();
  }

  menu.append(...races.map(({ title }) => el("option", { value: title })));
  menu.addEventListener("change", () => show(menu.value));
  on("opened", () => {
    wanted = menu.value = "";
  });
  localize(panel("site"), word);
  word();
  await library().catch((error) => setText(status, error.message));
  mountRace(panel("race"), props, (_, act) => watchers.push(act), LIBRARY, standalone);
  mountExperiment(panel("experiment"), { value: "" }, () => {}, LIBRARY);
  await show(races[0].title);
  mountHeader(panel("header"), { value: null }, () => {}, (_, asked) => asked.link && open(asked.link.race));
}

// The chart library as a script of the page itself, where saving the page finds it.
async function library() {
  document.head.append(el("script", { "data-ax-plotly": "", text: await textOf(LIBRARY) }));
}

async function textOf(file) {
  if (!loaded.has(file)) await load(file);
  const bytes = Uint8Array.from(atob(loaded.get(file) || ""), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

function load(file) {
  return new Promise((resolve, reject) => {
    const script = el("script", { src: file });
    script.addEventListener("load", resolve);
    script.addEventListener("error", () => reject(new Error(say("site.missing", { file }))));
    document.head.append(script);
  });
}
