// The menu of things to save: the race, a file that plays it, pictures, tables. All of it is made in the browser.

import { csv, lanesTable, nodesTable, rowsTable, stepsTable } from "./csv.js";
import { cssToken, el } from "./dom.js";
import { toFile } from "./record.js";

const KEPT = 10000; // milliseconds until the memory of a saved file is given back
const PICTURES = {
  tree: ".ax-plot",
  race: ".ax-chart",
  agreement: ".ax-agreement",
  pairs: ".ax-pairs-plot",
  sizes: ".ax-sizes",
  cost: "[data-part='cost-chart']",
  tokens: "[data-part='tokens-chart']",
  speed: "[data-part='speed-chart']",
  memory: "[data-part='memory-chart']",
};

// `source` gives {race, step, Plotly, standalone}; the last makes the text of a file of its own.
export function createSave(part, source) {
  const menu = part("save-menu");
  menu.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-save]");
    if (!button || !source().race.lanes.length) return;
    button.disabled = true;
    await save(button.dataset.save, source()).finally(() => (button.disabled = false));
    menu.open = false;
    menu.querySelector("summary").focus({ preventScroll: true });
  });
  menu.addEventListener("toggle", () => {
    for (const button of menu.querySelectorAll("button[data-picture]")) button.disabled = !drawn(button.dataset.picture);
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key === "Escape") menu.open = false;
  });
}

async function save(what, { race, step, Plotly, standalone }) {
  const [name, format] = what.split(".");
  if (format === "svg" || format === "png") return download(what, await picture(Plotly, drawn(name), format));
  const text = {
    "race.json": () => toFile(race),
    "race.html": standalone,
    "lanes.csv": () => csv(lanesTable(race)),
    "steps.csv": () => csv(stepsTable(race)),
    "nodes.csv": () => csv(nodesTable(step)),
    "rows.csv": () => csv(rowsTable(race)),
  }[what];
  const type = { json: "application/json", html: "text/html", csv: "text/csv;charset=utf-8" }[format];
  const url = URL.createObjectURL(new Blob([await text()], { type }));
  download(what, url);
  setTimeout(() => URL.revokeObjectURL(url), KEPT);
}

// The Plotly drawing of a picture that is on screen, or null.
function drawn(name) {
  const box = document.querySelector(PICTURES[name]);
  return box && box.data && box.clientWidth ? box : null;
}

// A data address of the drawing, on the ground that it has on the page.
function picture(Plotly, box, format) {
  const { data, layout } = box.whole ? box.whole() : box;
  const figure = { data, layout: { ...layout, paper_bgcolor: cssToken("--ax-card") } };
  return Plotly.toImage(figure, { format, width: layout.width, height: layout.height, scale: format === "png" ? 2 : 1 });
}

function download(name, href) {
  const link = el("a", { href, download: name });
  document.body.append(link);
  link.click();
  link.remove();
}
