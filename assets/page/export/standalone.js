// One HTML file that plays a race without server and network: the page's script and styles, its language, and the chart library.

import { sourceOf } from "../core/files.js";
import { language, table } from "../core/words.js";
import { plotly } from "../plot/charts.js";
import { languages } from "../shell/languages.js";

const POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; connect-src data: blob:; font-src data:";

const PANELS = ["header", "race"];
const markup = {}; // of the panels, before anything was drawn into it
const values = {}; // of cards, by name

export function keepMarkup(name, element) {
  markup[name] = element.firstElementChild.cloneNode(true);
}

// `value` returns, at the time of saving, what a card needs in the saved page besides the race.
export function keepValue(name, value) {
  values[name] = value;
}

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
  for (const name of PANELS.filter((known) => markup[known])) add(made.body, "div", { id: `ax-${name}` }).append(made.importNode(markup[name], true));
  const spoken = languages().find(({ code }) => code === language());
  const files = { languages: [{ code: spoken.code, name: spoken.name, table: table() }] };
  add(made.body, "script", { type: "application/json", "data-ax-files": "" }, harmless(JSON.stringify(files)));
  add(made.body, "script", { type: "application/json", "data-ax-race": "" }, harmless(lines));
  const kept = Object.fromEntries(Object.entries(values).map(([name, value]) => [name, value()]));
  add(made.body, "script", { type: "application/json", "data-ax-kept": "" }, harmless(JSON.stringify(kept)));
  add(made.body, "script", { "data-ax-plotly": "" }, closed(await source("-plotly")));
  add(made.body, "script", { "data-ax-script": "" }, closed(await source("-script")));
  add(made.body, "script", {}, "AdedExplorer.openFile();");
  return `<!doctype html>\n${made.documentElement.outerHTML}\n`;
}

// JSON text that contains no markup.
function harmless(json) {
  return json.replaceAll("<", "\\u003c");
}

// Script text that cannot end its own element.
function closed(text) {
  return text.replace(/<(?=\/script|script|!--)/gi, "\\x3c");
}
