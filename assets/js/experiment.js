// The experiments below the race: this run and the one before, where drafting pays, what a memory gains.

import { MEASURES, PARTS_OF_MATRIX, partKey } from "./agreement.js";
import { on } from "./bus.js";
import { renderCaching } from "./cachingchart.js";
import { plotly } from "./charts.js";
import { renderCompare, summary } from "./compare.js";
import { compareTable } from "./csv.js";
import { el, isDark } from "./dom.js";
import { offer } from "./offers.js";
import { keepMarkup, keepValue } from "./panels.js";
import { renderPaying } from "./payingchart.js";
import { renderSuccessive, taken } from "./successive.js";
import { keepWorded, language } from "./words.js";

const FORGET = "#ax-forget";

// The value is {runs, series} as JSON, which only a saved page has.
// `trigger` tells the server what shall be done; a page without one has none.
export function mountExperiment(element, props, watch, plotlyUrl, trigger = null) {
  keepMarkup("experiment", element);
  const part = (name) => element.querySelector(`[data-part="${name}"]`);
  const known = parsed(props.value);
  const state = { race: null, lane: 0, runs: known.runs, series: known.series, Plotly: null, drawn: "" };

  function show({ race, lane }) {
    if (race.running || !race.lanes.length) return;
    Object.assign(state, { race, lane });
    if (race.source === "run" && !state.runs.some((run) => run.id === race.id)) remember(race);
    render();
  }

  function remember(race) {
    state.runs = [...state.runs, { id: race.id, ...summary(race) }].slice(-2);
    state.series = taken(state.series, race);
  }

  function render() {
    const { race, lane, Plotly } = state;
    const measure = part("memory-measure").value;
    const key = [race.id, lane, race.lanes[lane].steps.length, props.value, state.series.length, measure, isDark(), language(), element.clientWidth, Boolean(Plotly)].join("/");
    if (state.drawn === key) return;
    state.drawn = key;
    const [before, now] = state.runs.length > 1 ? state.runs : [null, state.runs[0]];
    renderCompare(part, before, now);
    offer("compare", { group: "experiment", title: "compare.title", place: () => part("compare-table"), table: () => compareTable(before, now) });
    renderPaying(part, Plotly, race, race.lanes[lane], isDark());
    renderCaching(part, Plotly, race.lanes[lane], isDark());
    renderSuccessive(part, Plotly, state.series);
    part("memory-reset").hidden = !trigger;
  }

  const again = () => state.race && render();
  for (const who of ["base", "session"]) part("memory-key").append(partKey([who, PARTS_OF_MATRIX[who]]));
  part("memory-measure").append(...MEASURES.map((value) => el("option", { value, "data-say": `measure.${value}` })));
  part("memory-measure").addEventListener("change", again);
  wireForgetting(part("memory-reset"), trigger, () => {
    state.series = [];
    again();
  });
  keepValue("experiment", () => JSON.stringify({ runs: state.runs, series: state.series }));
  keepWorded(element, again);
  watch("value", again);
  on("shown", show);
  plotly(plotlyUrl).then(
    (library) => {
      state.Plotly = library;
      again();
    },
    () => undefined, // the race's panel says that there are no pictures; the tables stand
  );
}

function parsed(value) {
  return { runs: [], series: [], ...(value ? JSON.parse(value) : {}) };
}

// Both buttons, this card's and the one beside the controls, make the drafters forget, and the series ends with it.
function wireForgetting(button, trigger, forgotten) {
  document.addEventListener("click", (event) => event.target instanceof Element && event.target.closest(FORGET) && forgotten());
  button.addEventListener("click", () => {
    trigger("clear");
    forgotten();
  });
}
