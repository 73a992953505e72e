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
import { kindsOf, renderNode } from "./node.js";
import { keepMarkup } from "./panels.js";
import { createRaceHistory, isRace, raceIdOf } from "./racehistory.js";
import { covered, createPlayer, createState, stepsShown } from "./player.js";
import { createOpening } from "./opening.js";
import { createPromptLine } from "./promptline.js";
import { duration, emptyRace, runName, plainLast, readLines, stoppedLines } from "./record.js";
import { engineText } from "./enginetext.js";
import { createSave } from "./save.js";
import { searchedStep } from "./search.js";
import { createSearch } from "./searchplayer.js";
import { renderColourKey, renderStep, sentence, visitsKey } from "./step.js";
import { scoreColours } from "./scorecolours.js";
import { createSlots } from "./slots.js";
import { createStableHeights } from "./stableheight.js";
import { createTimeStrip } from "./timestrip.js";
import { createNodeTable } from "./steptables.js";
import { createStepTimes } from "./steptimes.js";
import { createTree } from "./tree.js";
import { longestVerdict, verdict } from "./verdict.js";
import { localize, language, say, sayOr } from "./words.js";
import { createZoom } from "./zoom.js";

const QUIET = 110; // milliseconds between two drawings of tables and charts during playback
const SLOW = 330; // milliseconds between two drawings of the matrix panels during playback
const STABLE = ".ax-card:not(.ax-race, .ax-time), .ax-where, .ax-tree, .ax-tree-legend, [data-part^='step-']:is(p)"; // elements whose height changes from step to step
const SPOKEN = 1500; // milliseconds between two announcements for screen readers

export function mountRace(element, props, watch, plotlyUrl, standalone) {
  keepMarkup("race", element);
  const part = (name) => element.querySelector(`[data-part="${name}"]`);
  const state = createState(emptyRace());
  const player = createPlayer(state, schedule, (what, value) => emit("linkErrors", [[`link.view.${what}`, { value: cited(value) }]]));
  const raceHistory = createRaceHistory();
  const pick = (node) => {
    player.selectNode(node);
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
  const panels = createPanels(part, state, player, { pick, hover, peek, schedule, redraw });
  const holdHeights = createStableHeights([...element.querySelectorAll(STABLE)]);
  const drawn = { race: null, grew: null, verdict: "", step: "", slots: "", table: "", picture: "", chart: "", view: "", reserved: "", spokenAt: -SPOKEN, heavyAt: 0, matrixAt: 0 };
  let Plotly = null;
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
      part("race-body").dataset.many = String(state.race.runs.length > 3);
      drawn.race = state.race;
      renderHead(part, state.race);
      panels.prompt(state.race.runs[0].header.prompt);
    }
    panels.runs.render(state);
    panels.times.render(state);
    panels.strip.render(state);
    panels.bar.render();
    if (state.race.running) drawn.grew = state.race.id;
    const { id, running } = state.race;
    Object.assign(part("view-root").dataset, { running: String(running), grew: String(drawn.grew === id), covered: String(covered(state)) });
    renderVerdict(part("verdict"), state.race);
    heavySoon();
  }

  // While a race runs, the space of its longest possible verdict is reserved, so that nothing moves when the wording changes.
  function renderVerdict(box, race) {
    if (drawn.grew !== race.id) box.style.minHeight = "";
    else if (drawn.verdict !== race.id) {
      drawn.verdict = race.id;
      box.style.minHeight = "";
      setVerdict(longestVerdict(race));
      box.style.minHeight = `${box.offsetHeight}px`;
    }
    setVerdict(verdict(race));
  }

  function setVerdict({ sentence, detail }) {
    setText(part("sentence"), sentence);
    setText(part("detail"), detail);
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
    const shown = state.hover ?? state.node;
    const picture = `${key}/${state.moment}/${state.node}/${shown}/${isDark()}/${part("tree").clientWidth}`;
    if (drawn.picture !== picture) {
      drawn.picture = picture;
      renderPicture(run, step, shown);
    }
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

  function renderPicture(run, step, shown) {
    const hidden = covered(state);
    const calm = hidden ? unverified(step) : step;
    const layout = hidden ? unverifiedLayout(step, run.layouts[state.step]) : run.layouts[state.step];
    const seen = state.moment === null ? calm : searchedStep(step, state.moment, run.header.method_settings);
    const there = (id) => (seen.exists && (id < 0 || !seen.exists[id]) ? 0 : id);
    const node = there(shown);
    const card = (id) => renderNode(part("node"), seen, id, run.header, calm, state.moment);
    reserve(card, seen, `${drawn.step}/${part("node").clientWidth}`);
    card(state.peek ? node : there(state.node));
    panels.mask.draw(calm, layout, shown);
    if (drawn.slots !== drawn.step) panels.slots.render(calm, !hidden);
    drawn.slots = drawn.step;
    panels.slots.select(node);
    if (drawn.table !== `${drawn.step}/${state.moment}`) panels.table.render(seen, layout, run.header);
    drawn.table = `${drawn.step}/${state.moment}`;
    panels.table.select(node);
    panels.tree.show(node);
    const colours = scoreColours(seen, step, run.header.method_settings);
    renderColourKey(part, colours, run.header);
    if (Plotly) panels.tree.draw(Plotly, seen, layout, node, colours);
  }

  // The node card gets the height of the largest card of this step, so that nothing moves when another node is selected.
  function reserve(card, step, key) {
    const root = part("node");
    if (moving() || drawn.reserved === key) return;
    drawn.reserved = key;
    root.style.minHeight = "";
    const heights = kindsOf(step).map((id) => {
      card(id);
      return root.offsetHeight;
    });
    root.style.minHeight = `${Math.max(...heights)}px`;
  }

  function drawChart() {
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
    const view = { ...raceIdOf(state.race), method: runName(state.race.runs, state.run), step: state.step + 1, node: state.node, bigram: state.bigram, settings };
    const key = JSON.stringify(view);
    if (drawn.view === key) return;
    drawn.view = key;
    emit("view", view);
  }

  function redraw() {
    drawn.picture = drawn.chart = drawn.verdict = "";
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
    createSave(part, () => ({ race: state.race, standalone: () => standalone(stoppedLines(props.value)) }));
    new ResizeObserver(redraw).observe(element);
    new MutationObserver(redraw).observe(document.body, { attributes: true, attributeFilter: ["class"] });
    on("openView", openView);
    on("goto", ({ run, step }) => player.setRun(run, step));
    on("cut", end);
  }

  // Shows an opened race.
  function show(lines) {
    props.value = lines;
    open();
    emit("notice", { kind: "", messages: [], fraction: null });
    emit("opened");
  }

  // The connection to a running race is lost: it ends at the last step that arrived.
  function end() {
    if (!state.race.running) return;
    props.value = stoppedLines(props.value);
    open();
  }

  function open() {
    const before = state.race.running;
    player.open(readLines(state.race, props.value));
    if (state.race.id !== null) raceHistory.keep(state.race, props.value);
    if (state.race.running === before) return;
    drawn.view = ""; // the end of a live race is always reported
    emit("running", state.race.running ? state.race.id : null);
  }

  // Opens the view of a link: the race on screen, an earlier one, or one that is still to be run.
  function openView(view) {
    const text = !state.race.running && !isRace(view, state.race) && raceHistory.find(view);
    if (text) {
      props.value = text;
      open();
    }
    if (view.again && view.run && !isRace(view, state.race)) emit("linkErrors", [["link.gone", {}]]);
    player.show(view);
  }

  wire();
  localize(element, reword);
  watch("value", open);
  open();
  plotly(plotlyUrl).then(
    (library) => {
      Plotly = library;
      redraw();
    },
    (error) => setText(part("hidden"), say("error.picture", { reason: error.message })),
  );
}

function createPanels(part, state, player, { pick, hover, peek, schedule, redraw }) {
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
    bar: createTimeBar(part, state, player),
    strip: createTimeStrip(part("strip"), { onSeek: seek }),
    tree: createTree(part("tree"), part("tree-legend"), { onHover: peek, onPick: pick }),
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

function renderHead(part, race) {
  const { header } = race.runs[0];
  part("chart-key").replaceChildren(...plainLast(race.runs.map(chartKey), race.runs));
  const chip = document.querySelector("[data-part='machine']");
  if (chip) setText(chip, [header.model, engineText(header.device), header.dtype].join(" · "));
  setText(part("source"), race.source ? say(`source.${race.source}`) : "");
  setText(part("race-title"), sayOr(`title.${race.title}`, race.title));
}

function chartKey(run, index, runs) {
  const key = el("span", { class: "ax-key" }, lineKey(runDash(runs, index)), run.label);
  paintRun(key, run);
  return key;
}
