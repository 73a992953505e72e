// The experiments below the race: this run and the one before, where drafting pays, what a memory gains.

import { PARTS_OF_MATRIX, partKey } from "./agreement.js";
import { on } from "./bus.js";
import { plotly } from "./charts.js";
import { renderCompare, summary } from "./compare.js";
import { isDark } from "./dom.js";
import { renderPaying } from "./payingchart.js";
import { renderSuccessive, taken } from "./successive.js";
import { keepWorded, language } from "./words.js";

export function mountExperiment(element, props, watch, plotlyUrl) {
  const part = (name) => element.querySelector(`[data-part="${name}"]`);
  const state = { race: null, lane: 0, runs: [], series: [], Plotly: null, drawn: "" };
  const cost = () => (props.value ? JSON.parse(props.value).cost : null);

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
    const key = [race.id, lane, race.lanes[lane].steps.length, props.value, isDark(), language(), element.clientWidth, Boolean(Plotly)].join("/");
    if (state.drawn === key) return;
    state.drawn = key;
    const [before, now] = state.runs.length > 1 ? state.runs : [null, state.runs[0]];
    renderCompare(part, before, now);
    renderPaying(part, Plotly, race, race.lanes[lane], cost(), isDark());
    renderSuccessive(part, Plotly, state.series);
  }

  const again = () => state.race && render();
  for (const who of ["base", "session"]) part("memory-key").append(partKey([who, PARTS_OF_MATRIX[who]]));
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
