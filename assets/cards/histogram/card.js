// Accepted draft tokens per step, drawn by page/tools/histogram.js, which is loaded when the section is opened; a saved page has no such script.

import { pageFiles } from "../../page/core/files.js";
import { offerExport } from "../../page/export/exports.js";
import { lateScript } from "../../page/shell/lessons.js";

export function mount({ part, changed, subscribe }) {
  if (!pageFiles().lessons) return;
  const card = part("histogram-card");
  offerExport("accepted", { group: "experiment", title: "histogram.title", at: card.parentElement, picture: true, table: true }); // the card is hidden until the script is there
  let late = null;
  subscribe("quiet", ({ race, run, dark, Plotly }) => (part("measure").open && !race.running ? [race, run, dark, Plotly, late?.drawHistogram, part("measure").clientWidth] : null), async (state) => {
    if (late) return late.drawHistogram?.(card, state);
    late = {};
    late = (await lateScript()) ?? late;
    changed();
  });
}
