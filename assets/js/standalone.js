// One HTML file that plays a race without server and network: the page's script and styles, its language, and the chart library.

import { plotly } from "./charts.js";
import { emit } from "./events.js";
import { cited } from "./dom.js";
import { mountExperiment } from "./experiment.js";
import { sourceOf } from "./files.js";
import { mountHeader } from "./header.js";
import { languages, ready } from "./languages.js";
import { viewOf } from "./link.js";
import { mountRace } from "./main.js";
import { isRace } from "./racehistory.js";
import { keptMarkup, keptValue } from "./panels.js";
import { language, table } from "./words.js";

const POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; connect-src data: blob:; font-src data:";

const PANELS = ["header", "race"];

// The text of the file; `lines` is the race as JSON lines.
export async function standalone(lines) {
  await plotly();
  const source = (mark) => sourceOf(document.querySelector(`[data-ax${mark}]`));
  const made = document.implementation.createHTMLDocument("ADED Explorer");
  const add = (parent, tag, attributes, text = "") => {
    const node = made.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.textContent = text;
    parent.append(node);
    return node;
  };
  made.documentElement.lang = document.documentElement.lang;
  made.body.className = document.body.classList.contains("dark") ? "ax-file dark" : "ax-file";
  add(made.head, "meta", { charset: "utf-8" });
  add(made.head, "meta", { name: "viewport", content: "width=device-width, initial-scale=1" });
  add(made.head, "meta", { "http-equiv": "Content-Security-Policy", content: POLICY });
  add(made.head, "style", { "data-ax": "" }, await source(""));
  const panels = keptMarkup();
  for (const name of PANELS.filter((known) => panels[known])) add(made.body, "div", { id: `ax-${name}` }).append(made.importNode(panels[name], true));
  const spoken = languages().find(({ code }) => code === language());
  const files = { languages: [{ code: spoken.code, name: spoken.name, table: table() }] };
  add(made.body, "script", { type: "application/json", "data-ax-files": "" }, harmless(JSON.stringify(files)));
  add(made.body, "script", { type: "application/json", "data-ax-race": "" }, harmless(lines));
  add(made.body, "script", { type: "application/json", "data-ax-experiment": "" }, harmless(keptValue("experiment")));
  add(made.body, "script", { "data-ax-plotly": "" }, closed(await source("-plotly")));
  add(made.body, "script", { "data-ax-script": "" }, closed(await source("-script")));
  add(made.body, "script", {}, "AdedExplorer.standalone.openFile();");
  return `<!doctype html>\n${made.documentElement.outerHTML}\n`;
}

// Starts such a page.
export async function openFile() {
  await ready();
  const still = () => {};
  const panel = (name) => document.getElementById(`ax-${name}`);
  const value = (name) => document.querySelector(`script[data-ax-${name}]`).textContent;
  mountRace(panel("race"), { value: value("race") }, still, standalone);
  mountExperiment(panel("race"), value("experiment"));
  mountHeader(panel("header"), { value: null }, still, (_, { link }) => link && reportOther(link, value("race")));
}

// A page contains one race; a link to another one is reported, except to a file, which can be opened.
function reportOther(link, lines) {
  const shown = JSON.parse(lines.slice(0, lines.indexOf("\n")));
  if (!link.file && !isRace(viewOf(link), shown)) emit("linkErrors", [["link.alone", { value: cited(link.race || "") }]]);
}

// JSON text that contains no markup.
function harmless(json) {
  return json.replaceAll("<", "\\u003c");
}

// Script text that cannot end its own element.
function closed(text) {
  return text.replace(/<(?=\/script|script|!--)/gi, "\\x3c");
}
