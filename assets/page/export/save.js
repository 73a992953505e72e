// The menu of exports: the race, a page that plays it, and what the panels registered. Everything is made in the browser.

import { csv } from "./csv.js";
import { emit } from "../core/events.js";
import { el, onKey } from "../core/dom.js";
import { drawingOf, pixels, svgText } from "./svgexport.js";
import { GROUPS, exportsOf, pictureOf, tableOf } from "./exports.js";
import { toFile } from "../record/record.js";
import { say } from "../core/words.js";

const KEPT = 10000; // milliseconds until the memory of a saved file is released

// `source` returns {race, standalone}; `standalone` makes the text of a page that plays the race.
export function createSave(part, source) {
  const menu = part("save-menu");
  const list = part("save-list");
  menu.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-save]");
    if (!button || button.ariaDisabled === "true" || !source().race.runs.length) return;
    button.disabled = true;
    const file = button.dataset.save;
    await save(file, source()).catch(() => emit("linkErrors", [["save.failed", { file }]]));
    button.disabled = false;
    menu.open = false;
    menu.querySelector("summary").focus({ preventScroll: true });
  });
  menu.addEventListener("toggle", () => menu.open && list.replaceChildren(...GROUPS.flatMap(groupRows)));
  onKey(menu, (event) => {
    if (event.key === "Escape") menu.open = false;
  });
}

function groupRows(group) {
  return [el("p", { class: "ax-dim", text: say(`save.group.${group}`) }), ...exportsOf(group).map(entryRow)];
}

function entryRow({ name, title, picture, table, hint }) {
  const words = say(title);
  const formats = [["svg", picture], ["png", picture], ["csv", table]].filter(([, there]) => there !== null);
  const buttons = formats.map(([format, there]) =>
    el("button", { type: "button", "data-save": `${name}.${format}`, "aria-disabled": there ? null : "true", "aria-label": [words, format.toUpperCase(), there ? "" : hint].filter(Boolean).join(", "), title: there ? null : hint, text: format.toUpperCase() }),
  );
  return el("div", { class: "ax-menu-row" }, el("span", {}, words, hint ? el("small", { text: hint }) : null), ...buttons);
}

const MAKERS = {
  json: ({ race }) => toFile(race),
  html: ({ standalone }) => standalone(),
  csv: (_, name) => csv(tableOf(name)),
  svg: async (_, name) => svgText(await drawn(name)),
  png: async (_, name) => pixels(await drawn(name)),
};
const TYPES = { json: "application/json", html: "text/html", csv: "text/csv;charset=utf-8", svg: "image/svg+xml", png: "image/png" };

function drawn(name) {
  const { title, parts } = pictureOf(name);
  return drawingOf(say(title), parts);
}

async function save(file, source) {
  const [name, format] = file.split(".");
  download(fileName(file, source.race), await MAKERS[format](source, name));
}

const WHOLE = ["race.json", "race.html"];
const LONGEST = 60; // characters of a file name

// The name of a saved file; that of a whole race has its title, or the methods of a live race: "race-short-facts.json", "race-plain-aded.json".
export function fileName(file, { title, runs }) {
  if (!WHOLE.includes(file)) return file;
  const words = title.replace(/^race\b-?|\.json$/gi, "") || runs.map(({ header }) => header.method).join("-");
  const slug = words.toLowerCase().replace(/[^\p{L}\p{M}\p{N}]+/gu, "-").slice(0, LONGEST).replace(/^-|-$/g, "");
  return file.replace("race", ["race", slug].filter(Boolean).join("-"));
}

// Saves the content of a file, whose name says its type.
export function download(file, content) {
  const url = URL.createObjectURL(new Blob([content], { type: TYPES[file.split(".")[1]] }));
  const link = el("a", { href: url, download: file });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), KEPT);
}
