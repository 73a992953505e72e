// The page as a folder of files: recorded races and a menu of them, on any web server or straight from a disk.
//
// Every file is a script, since a page that was opened from a disk may read nothing else; texts are packed in them.

import { mountExperiment } from "./experiment.js";
import { emit } from "./bus.js";
import { cited, el, setText } from "./dom.js";
import { mountHeader } from "./header.js";
import { mountRace } from "./main.js";
import { standalone } from "./standalone.js";
import { keepWorded, say, sayOr } from "./words.js";

const LIBRARY = "plotly.js";
const taken = new Map();

// What a file's script calls: its own name, and the text that it brings, gzipped and in base64.
export function take(file, packed) {
  taken.set(file, packed);
}

// `races`, [{title, file}], in the order of the menu.
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

  // A link's race, or a word on it where there is none.
  function open(title) {
    if (fileOf(title)) return show(title);
    if (title) emit("refused", [["link.race", { value: cited(title), list: { say: "control.recorded" } }]]);
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
  keepWorded(panel("site"), word);
  word();
  await library().catch((error) => setText(status, error.message));
  mountRace(panel("race"), props, (_, act) => watchers.push(act), LIBRARY, standalone);
  mountExperiment(panel("experiment"), { value: "" }, () => {}, LIBRARY);
  await show(races[0].title);
  mountHeader(panel("header"), { value: null }, () => {}, (_, asked) => asked.link && open(asked.link.race));
}

// The charts' library as a script of the page itself, as the page that is saved from here needs it.
async function library() {
  document.head.append(el("script", { "data-ax-plotly": "", text: await textOf(LIBRARY) }));
}

async function textOf(file) {
  if (!taken.has(file)) await load(file);
  const bytes = Uint8Array.from(atob(taken.get(file) || ""), (letter) => letter.charCodeAt(0));
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
