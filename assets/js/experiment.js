// The experiments below the race: comparison with the race before, draft depth, KV cache, learning from prompt to prompt.

import { MEASURES, PARTS_OF_MATRIX, partKey } from "./agreement.js";
import { on } from "./events.js";
import { renderKvCache } from "./kvcachechart.js";
import { plotly } from "./charts.js";
import { renderCompare, summary } from "./compare.js";
import { compareTable } from "./csv.js";
import { el, isDark } from "./dom.js";
import { registerExport } from "./exports.js";
import { keepValue } from "./panels.js";
import { renderThroughput } from "./throughputchart.js";
import { renderPromptSeries, extended } from "./promptseries.js";
import { fillText, language, onLanguage } from "./words.js";

const FORGET = "#ax-forget";

// `element`: that of the race view; `value`: {races, series} as JSON, only in a saved page; `trigger` sends an event to the server, null without one.
export function mountExperiment(element, value, trigger = null) {
  const part = (name) => element.querySelector(`[data-part="${name}"]`);
  const saved = parsed(value);
  const state = { race: null, run: 0, races: saved.races, series: saved.series, Plotly: null, drawn: "" };

  function show({ race, run }) {
    if (race.running || !race.runs.length) return;
    Object.assign(state, { race, run });
    if (race.source === "run" && !state.races.some(({ id }) => id === race.id)) keepRace(race);
    render();
  }

  function keepRace(race) {
    state.races = [...state.races, { id: race.id, ...summary(race) }].slice(-2);
    state.series = extended(state.series, race);
  }

  function render() {
    if (!part("measure").open) return;
    const { race, run, Plotly } = state;
    const measure = part("memory-measure").value;
    const key = [race.id, run, race.runs[run].steps.length, state.series.length, measure, isDark(), language(), part("measure").clientWidth, part("measure").open, Boolean(Plotly)].join("/");
    if (state.drawn === key) return;
    state.drawn = key;
    const [before, now] = state.races.length > 1 ? state.races : [null, state.races[0]];
    renderCompare(part, before, now);
    registerExport("compare", { group: "experiment", title: "compare.title", place: () => part("compare-table"), table: () => compareTable(before, now) });
    renderThroughput(part, Plotly, race, race.runs[run], isDark());
    renderKvCache(part, Plotly, race.runs[run], isDark());
    renderPromptSeries(part, Plotly, state.series);
    part("memory-reset").hidden = !trigger;
  }

  const redraw = () => state.race && render();
  for (const who of ["base", "session"]) part("memory-key").append(partKey([who, PARTS_OF_MATRIX[who]]));
  part("memory-measure").append(...MEASURES.map((value) => el("option", { value, "data-say": `measure.${value}` })));
  fillText(part("memory-card"));
  part("memory-measure").addEventListener("change", redraw);
  wireForgetting(part("memory-reset"), trigger, () => {
    state.series = [];
    redraw();
  });
  keepValue("experiment", () => JSON.stringify({ races: state.races, series: state.series }));
  onLanguage(redraw);
  part("measure").addEventListener("toggle", redraw);
  on("shown", show);
  plotly().then(
    (library) => {
      state.Plotly = library;
      redraw();
    },
    () => undefined, // the race panel reports that there are no charts; the tables remain
  );
}

function parsed(value) {
  return { races: [], series: [], ...(value ? JSON.parse(value) : {}) };
}

// The button in this card and the one in the controls both make drafters forget; then the series is cleared too.
function wireForgetting(button, trigger, clear) {
  document.addEventListener("click", (event) => event.target instanceof Element && event.target.closest(FORGET) && clear());
  button.addEventListener("click", () => {
    trigger("clear");
    clear();
  });
}
