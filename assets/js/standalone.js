// One HTML file that plays a race without server and network: the page's scripts and styles, and the chart library.

import { emit } from "./events.js";
import { cited } from "./dom.js";
import { mountExperiment } from "./experiment.js";
import { mountHeader } from "./header.js";
import { viewOf } from "./link.js";
import { mountRace } from "./main.js";
import { isRace } from "./racehistory.js";
import { keptMarkup, keptValue } from "./panels.js";

const POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; connect-src data: blob:; font-src data:";

const PANELS = ["header", "race", "experiment"];

// The text of the file; `lines` is the race as JSON lines.
export async function standalone(lines) {
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
  for (const style of document.querySelectorAll("style[data-ax]")) add(made.head, "style", { "data-ax": "" }, style.textContent);
  const panels = keptMarkup();
  for (const name of PANELS.filter((known) => panels[known])) add(made.body, "div", { id: `ax-${name}` }).append(made.importNode(panels[name], true));
  add(made.body, "script", { type: "application/json", "data-ax-race": "" }, harmless(lines));
  add(made.body, "script", { type: "application/json", "data-ax-experiment": "" }, harmless(keptValue("experiment")));
  add(made.body, "script", { "data-ax-plotly": "" }, closed(await textOf("script[data-ax-plotly]")));
  add(made.body, "script", { "data-ax-script": "" }, closed(await textOf("script[data-ax-script]")));
  add(made.body, "script", {}, "window.AdedExplorer.standalone.openFile();");
  return `<!doctype html>\n${made.documentElement.outerHTML}\n`;
}

// Starts such a page.
export function openFile() {
  const still = () => {};
  const panel = (name) => document.getElementById(`ax-${name}`);
  const value = (name) => document.querySelector(`script[data-ax-${name}]`).textContent;
  mountRace(panel("race"), { value: value("race") }, still, null, standalone);
  if (panel("experiment")) mountExperiment(panel("experiment"), { value: value("experiment") }, still, null);
  mountHeader(panel("header"), { value: null }, still, (_, { link }) => link && reportOther(link, value("race")));
}

// A page contains one race; a link to another one is reported, except to a file, which can be opened.
function reportOther(link, lines) {
  const shown = JSON.parse(lines.slice(0, lines.indexOf("\n")));
  if (!link.file && !isRace(viewOf(link), shown)) emit("linkErrors", [["link.alone", { value: cited(link.race || "") }]]);
}

async function textOf(selector) {
  const script = document.querySelector(selector);
  return script.src ? (await fetch(script.src)).text() : script.textContent;
}

// JSON text that contains no markup.
function harmless(json) {
  return json.replaceAll("<", "\\u003c");
}

// Script text that cannot end its own element.
function closed(text) {
  return text.replace(/<(?=\/script|script|!--)/gi, "\\x3c");
}
