// The race view: connects the record, the player and the panels. All state is in one object per page.

import { createAgreement } from "./agreement.js";
import { createTimeBar } from "./timebar.js";
import { emit, on } from "./events.js";
import { drawRaceChart, runDash, lineKey, plotly } from "./charts.js";
import { cited, el, isDark, setText } from "./dom.js";
import { createRunTable } from "./runtable.js";
import { createPrediction, unverified, unverifiedLayout } from "./prediction.js";
import { createRuns, paintRun } from "./runs.js";
import { createMask } from "./mask.js";
import { createMatrix } from "./matrix.js";
import { renderNode } from "./node.js";
import { keepMarkup } from "./panels.js";
import { createRaceHistory, isRace, raceIdOf } from "./racehistory.js";
import { createRecorded } from "./recorded.js";
import { covered, createPlayer, createState, stepsShown } from "./player.js";
import { findRace, keepRace } from "./keptraces.js";
import { createLine } from "./line.js";
import { createPresenter } from "./present.js";
import { createOpening } from "./opening.js";
import { createPromptLine } from "./promptline.js";
import { duration, emptyRace, runName, readLines, stoppedLines } from "./record.js";
import { createSave } from "./save.js";
import { searchedStep } from "./search.js";
import { createSearch } from "./searchplayer.js";
import { renderColourKey, renderStep, sentence, visitsKey } from "./step.js";
import { scoreColours } from "./scorecolours.js";
import { createSlots } from "./slots.js";
import { createStableHeights } from "./stableheight.js";
import { fitStage } from "./stage.js";
import { TABS, createTabs } from "./tabs.js";
import { createTimeStrip } from "./timestrip.js";
import { createNodeTable } from "./steptables.js";
import { createStepTimes } from "./steptimes.js";
import { createTree } from "./tree.js";
import { verdict } from "./verdict.js";
import { createWhatIf } from "./whatif.js";
import { localize, language, say } from "./words.js";
import { createZoom } from "./zoom.js";

const QUIET = 110; // milliseconds between two drawings of tables and charts during playback
const SLOW = 330; // milliseconds between two drawings of the matrix panels during playback
const STABLE = ".ax-matrix-grid > .ax-card, .ax-where, .ax-step-line"; // elements whose height changes from step to step
const ABOVE = ["#ax-bar", "#ax-header", "#ax-notice", "#ax-controls", "#ax-site", "#ax-race .ax-race"]; // what is above the stage
const SPOKEN = 1500; // milliseconds between two announcements for screen readers

export function mountRace(element, props, watch, standalone) {
  keepMarkup("race", element);
  const part = (name) => element.querySelector(`[data-part="${name}"]`);
  const state = createState(emptyRace());
  const player = createPlayer(state, schedule, (what, value) => emit("linkErrors", [[`link.view.${what}`, { value: cited(value) }]]));
  const raceHistory = createRaceHistory();
  const recorded = createRecorded(open);
  const pick = (node) => {
    player.selectNode(node);
    part("node-card").dataset.open = "true";
    emit("action", "node");
  };
  const hover = (node) => {
    if (state.hover === node) return;
    state.hover = node;
    schedule();
  };
  // The node card follows the pointer only over the tree: over elements below the card, its changing height would move them.
  const peek = (node) => {
    state.peek = node !== null;
    hover(node);
  };
  const panels = createPanels(part, element, state, player, { pick, hover, peek, schedule, redraw, showTab: (name) => showTab(name) });
  const holdHeights = createStableHeights([...element.querySelectorAll(STABLE)]);
  const drawn = { race: null, grew: null, verdict: "", step: "", slots: "", table: "", picture: "", mask: "", chart: "", view: "", spokenAt: -SPOKEN, heavyAt: 0, matrixAt: 0 };
  const fit = fitStage(part("stage"), element.querySelector(".ax-time"), document.querySelectorAll(ABOVE.join(", ")));
  let Plotly = null;
  let lines = ""; // the race on screen
  let waiting = 0;
  let timer = 0;
  let matrixTimer = 0;
  let speechTimer = 0;

  function moving() {
    return state.playing !== 0 || state.following;
  }

  function schedule() {
    if (!waiting) waiting = requestAnimationFrame(render);
  }

  function render() {
    waiting = 0;
    if (!state.race.runs.length) return;
    if (drawn.race !== state.race) {
      panels.runs.rebuild(state.race);
      panels.times.rebuild(state.race);
      drawn.race = state.race;
      panels.line.render(state.race);
      part("chart-key").replaceChildren(...state.race.runs.map(chartKey));
      panels.prompt(state.race.runs[0].header.prompt);
    }
    panels.runs.render(state);
    panels.times.render(state);
    panels.strip.render(state);
    panels.bar.render();
    if (state.race.running) drawn.grew = state.race.id;
    const { id, running } = state.race;
    Object.assign(part("view-root").dataset, { running: String(running), grew: String(drawn.grew === id), covered: String(covered(state)) });
    const { sentence, detail } = verdict(state.race);
    setText(part("sentence"), sentence);
    setText(part("detail"), detail);
    heavySoon();
  }

  // Tables and charts: at once after user input, at a limited rate during playback.
  function heavySoon() {
    const rest = moving() ? QUIET - (performance.now() - drawn.heavyAt) : 0;
    clearTimeout(timer);
    if (rest <= 0) renderHeavy();
    else timer = setTimeout(renderHeavy, rest);
  }

  function renderHeavy() {
    drawn.heavyAt = performance.now();
    const run = state.race.runs[state.run];
    const step = run.steps[state.step];
    if (!step) return;
    const key = `${state.race.id}/${state.run}/${state.step}/${covered(state)}/${language()}`;
    holdHeights(moving(), key);
    if (drawn.step !== key) {
      drawn.step = key;
      renderStep(part, state);
    }
    panels.tabs.render(state.tab);
    fit();
    renderPicture(run, step, state.hover ?? state.node);
    panels.search.render(step, run.header, state.moment);
    panels.prediction.render(state, step);
    setText(part("visits-key"), visitsKey(step, state.moment));
    part("tree-card").dataset.searching = String(state.moment !== null);
    matrixSoon();
    drawChart();
    panels.runTable.render(state);
    speak(step);
    report();
    emit("shown", { race: state.race, run: state.run, step: state.step });
  }

  // What the matrix learned: after the step is on screen, at a lower rate during playback.
  function matrixSoon() {
    const rest = moving() ? Math.max(0, SLOW - (performance.now() - drawn.matrixAt)) : 0;
    clearTimeout(matrixTimer);
    matrixTimer = setTimeout(renderMatrix, rest);
  }

  function renderMatrix() {
    drawn.matrixAt = performance.now();
    const run = state.race.runs[state.run];
    if (!run?.steps[state.step]) return;
    panels.matrix.render(Plotly, state);
    panels.agreement.render(Plotly, state.race, run, state.step, isDark());
  }

  // The tree and the tables are drawn when the step, its search or the theme changes; another node changes the ring, the card and the mask.
  function renderPicture(run, step, shown) {
    const picture = `${drawn.step}/${state.moment}/${isDark()}/${part("tree").clientWidth}/${part("tree").clientHeight}/${Boolean(Plotly)}`;
    const key = `${picture}/${state.node}/${shown}/${state.peek}/${state.tab}/${part("mask").clientWidth}`;
    if (drawn.mask === key) return;
    drawn.mask = key;
    const hidden = covered(state);
    const calm = hidden ? unverified(step) : step;
    const layout = hidden ? unverifiedLayout(step, run.layouts[state.step]) : run.layouts[state.step];
    const seen = state.moment === null ? calm : searchedStep(step, state.moment, run.header.method_settings);
    const there = (id) => (seen.exists && (id < 0 || !seen.exists[id]) ? 0 : id);
    const node = there(shown);
    renderNode(part("node"), seen, state.peek ? node : there(state.node), run.header, calm, state.moment);
    if (state.tab === "pass") panels.mask.draw(calm, layout, shown);
    part("pass-none").hidden = step.tree.tokens.length > 1;
    if (drawn.slots !== drawn.step) panels.slots.render(calm, !hidden);
    drawn.slots = drawn.step;
    panels.slots.select(node);
    if (drawn.table !== `${drawn.step}/${state.moment}`) panels.table.render(seen, layout, run.header);
    drawn.table = `${drawn.step}/${state.moment}`;
    panels.table.select(node);
    if (Plotly && drawn.picture !== picture && part("tree").clientWidth) {
      drawn.picture = picture;
      const colours = scoreColours(seen, step, run.header.method_settings);
      renderColourKey(part, colours, run.header);
      panels.tree.draw(Plotly, seen, layout, colours);
    }
    panels.tree.select(node);
    if (state.tab === "verify") panels.whatif.render(step, run.header, state.node);
  }

  function drawChart() {
    if (!part("measure").open) return;
    const { race } = state;
    const span = panels.zoom.follow(race.id, state.time, duration(race), state.following);
    const seen = race.runs.map((run) => (state.predictions ? stepsShown(state, run) : run.steps.length)); // no curve shows what is still to be predicted
    const key = [race.id, seen, state.time, span, isDark(), part("chart").clientWidth, language()].join("/");
    if (!Plotly || drawn.chart === key || panels.zoom.held()) return;
    drawn.chart = key;
    drawRaceChart(Plotly, part, state, isDark(), span, seen);
    panels.zoom.listen();
  }

  function speak(step) {
    clearTimeout(speechTimer);
    if (state.playing !== 0) return;
    const rest = SPOKEN - (performance.now() - drawn.spokenAt);
    if (rest > 0) {
      speechTimer = setTimeout(renderHeavy, rest);
      return;
    }
    const words = say("live.step", { step: step.index + 1, sentence: covered(state) ? say("predict.covered", { count: step.tree.tokens.length - 1 }) : sentence(step) });
    if (part("live").textContent !== words) drawn.spokenAt = performance.now();
    setText(part("live"), words);
  }

  // Reports the view on screen, for the address.
  function report() {
    if (moving()) return;
    const { settings } = state.race;
    const view = { ...raceIdOf(state.race), method: runName(state.race.runs, state.run), step: state.step + 1, node: state.node, bigram: state.bigram, tab: state.tab === TABS[0] ? null : state.tab, settings };
    const key = JSON.stringify(view);
    if (drawn.view === key) return;
    drawn.view = key;
    emit("view", view);
  }

  function redraw() {
    drawn.picture = drawn.mask = drawn.chart = drawn.verdict = "";
    schedule();
  }

  function showTab(name) {
    if (!TABS.includes(name)) return;
    state.tab = name;
    schedule();
  }

  function reword() {
    drawn.race = null;
    redraw();
  }

  function wire() {
    part("walk").addEventListener("click", (event) => {
      const row = event.target.closest("tr");
      if (row) pick(Number(row.dataset.node));
    });
    createOpening(part, () => state.race.running, show);
    emit("embedCode", part("embed-code"));
    createSave(part, () => ({ race: state.race, standalone: () => standalone(stoppedLines(lines)) }));
    new ResizeObserver(redraw).observe(element);
    new MutationObserver(redraw).observe(document.body, { attributes: true, attributeFilter: ["class"] });
    for (const section of ["lab", "measure"]) part(section).addEventListener("toggle", redraw);
    part("node-close").addEventListener("click", () => (part("node-card").dataset.open = "false"));
    on("openView", openView);
    on("tab", showTab);
    on("present", redraw);
    on("raceChosen", recorded.open);
    on("goto", ({ run, step }) => player.setRun(run, step));
    on("cut", end);
  }

  // Shows a race from a file.
  function show(text) {
    open(text);
    emit("fileOpened", state.race);
    emit("notice", { kind: "", messages: [], fraction: null });
  }

  // The connection to a running race is lost: it ends at the last step that arrived.
  function end() {
    if (state.race.running) open(stoppedLines(lines));
  }

  function open(text) {
    const before = state.race.running;
    lines = text;
    player.open(readLines(state.race, lines));
    if (state.race.id !== null) raceHistory.keep(state.race, lines);
    if (state.race.running === before) return;
    drawn.view = ""; // the end of a live race is always reported
    emit("running", state.race.running ? state.race.id : null);
    if (!state.race.running && state.race.source === "run") keepRace(state.race.id, lines);
  }

  // A live race that is no longer in this tab.
  async function reopen(view) {
    const text = await findRace(view.run);
    if (state.race.running) return;
    if (text === null) return emit("linkErrors", [["link.gone", {}]]);
    open(text);
    player.show(view);
  }

  // Opens the view of a link: the race on screen, an earlier one, a recorded one, or one that is still to be run. At first, some
  // race is opened.
  function openView(view) {
    const other = !state.race.running && !isRace(view, state.race);
    const text = view.text ?? (other && raceHistory.find(view));
    recorded.cancel();
    if (text) open(text);
    else if (other && view.race) recorded.open(view.race);
    else if (other && view.again && view.run) reopen(view);
    showTab(view.tab ?? state.tab);
    if (state.race.id === null && !recorded.loading()) recorded.open();
    player.show(view);
  }

  wire();
  localize(element, reword);
  watch("value", () => {
    recorded.cancel();
    open(props.value);
  });
  if (props.value) open(props.value);
  plotly().then(
    (library) => {
      Plotly = library;
      redraw();
    },
    (error) => setText(part("hidden"), say("error.picture", { reason: error.message })),
  );
}

function createPanels(part, element, state, player, { pick, hover, peek, schedule, redraw, showTab }) {
  const both = { onHover: hover, onPick: pick };
  const runs = { onStep: player.setRun, onRun: player.setRun, onAbout: (run) => emit("article", state.race.runs[run].header.method) };
  const onMoment = (moment) => {
    state.moment = moment;
    emit("action", "search");
    schedule();
  };
  const seek = (index) => {
    player.seek(index);
    emit("action", "step");
  };
  const answer = (node) => {
    player.answer(node);
    emit("action", "predict");
  };
  return {
    prompt: createPromptLine(part),
    runs: createRuns(part("runs"), part("rejected"), runs),
    times: createStepTimes(part("times")),
    zoom: createZoom(part, redraw),
    bar: createTimeBar(part, state, player, createPresenter(state, player, showTab)),
    line: createLine(part, element),
    tabs: createTabs(part, showTab),
    whatif: createWhatIf(part),
    strip: createTimeStrip(part("strip"), { onSeek: seek }),
    tree: createTree(part("tree"), part("tree-legend"), { fit: part("tree-fit"), in: part("tree-in"), out: part("tree-out") }, { onHover: peek, onPick: pick }),
    table: createNodeTable(part, both),
    matrix: createMatrix(part, { onChange: schedule, onBigram: player.selectBigram }),
    mask: createMask(part("mask"), part("mask-text"), both),
    slots: createSlots(part, both),
    agreement: createAgreement(part, schedule),
    runTable: createRunTable(part, schedule),
    search: createSearch(part, { onMoment }),
    prediction: createPrediction(part, { onToggle: player.togglePrediction, onAnswer: answer, onNext: () => player.by(1) }),
  };
}

function chartKey(run, index, runs) {
  const key = el("span", { class: "ax-key" }, lineKey(runDash(runs, index)), run.label);
  paintRun(key, run);
  return key;
}
