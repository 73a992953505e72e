// The menu of exports: the race, a page that plays it, and what the panels registered. Everything is made in the browser.

import { csv } from "./csv.js";
import { emit } from "../core/events.js";
import { el, onKey } from "../core/dom.js";
import { drawingOf, pixels, svgText } from "./svgexport.js";
import { GROUPS, availableExports, pictureOf, tableOf } from "./exports.js";
import { toFile } from "../record/record.js";
import { say } from "../core/words.js";

const KEPT = 10000; // milliseconds until the memory of a saved file is released

// `source` returns {race, standalone}; `standalone` makes the text of a page that plays the race.
export function createSave(part, source) {
  const menu = part("save-menu");
  const list = part("save-list");
  menu.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-save]");
    if (!button || !source().race.runs.length) return;
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
  const rows = availableExports().filter((entry) => entry.group === group).map(entryRow);
  return rows.length ? [el("p", { class: "ax-dim", text: say(`save.group.${group}`) }), ...rows] : [];
}

function entryRow({ name, title, picture, table }) {
  const words = say(title);
  const formats = [...(picture ? ["svg", "png"] : []), ...(table ? ["csv"] : [])];
  const buttons = formats.map((format) => el("button", { type: "button", "data-save": `${name}.${format}`, "aria-label": `${words}, ${format.toUpperCase()}`, text: format.toUpperCase() }));
  return el("span", { class: "ax-menu-row" }, el("span", { text: words }), ...buttons);
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
  const url = URL.createObjectURL(new Blob([await MAKERS[format](source, name)], { type: TYPES[format] }));
  const link = el("a", { href: url, download: file });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), KEPT);
}
