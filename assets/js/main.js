// The view: connects the record, the player and the panels. One state a page, none shared.

import { createAgreement } from "./agreement.js";
import { createBar } from "./bar.js";
import { emit, on } from "./bus.js";
import { drawRaceChart, laneDash, lineKey, plotly } from "./charts.js";
import { cited, el, isDark, setText } from "./dom.js";
import { createFigures } from "./figures.js";
import { createGuess, unjudged, unjudgedLayout } from "./guess.js";
import { createLanes, paintLane } from "./lanes.js";
import { createMask } from "./mask.js";
import { createMatrix } from "./matrix.js";
import { kindsOf, renderNode } from "./node.js";
import { keepMarkup } from "./panels.js";
import { createPlaces, isPlace, placeOf } from "./places.js";
import { covered, createPlayer, createState, stepsShown } from "./player.js";
import { createPromptLine } from "./promptline.js";
import { duration, emptyRace, laneName, plainLast, readLines, stoppedLines } from "./record.js";
import { recorded } from "./recorded.js";
import { createSave } from "./save.js";
import { searchedStep } from "./search.js";
import { createSearch } from "./searching.js";
import { renderShadeKey, renderStep, sentence, visitsKey } from "./step.js";
import { shadesOf } from "./shades.js";
import { createSlots } from "./slots.js";
import { createSettled } from "./settled.js";
import { createStrip } from "./strip.js";
import { createNodeTable } from "./tables.js";
import { createTimes } from "./times.js";
import { createTree } from "./tree.js";
import { longestVerdict, verdict } from "./verdict.js";
import { keepWorded, language, say, sayOr } from "./words.js";
import { createZoom } from "./zoom.js";

const QUIET = 110; // milliseconds between drawings of the heavy parts while time runs
const SLOW = 330; // and between those of what the matrix learned
const SETTLED = ".ax-card:not(.ax-race, .ax-time), .ax-where, .ax-tree, .ax-tree-legend, [data-part^='step-']:is(p)"; // what steps make higher or lower
const SPOKEN = 1500; // milliseconds between spoken sentences

export function mountRace(element, props, watch, plotlyUrl, standalone) {
  keepMarkup("race", element);
  const part = (name) => element.querySelector(`[data-part="${name}"]`);
  const state = createState(emptyRace());
  const player = createPlayer(state, schedule, (what, value) => emit("refused", [[`link.${what}`, { value: cited(value) }]]));
  const places = createPlaces();
  const pick = (node) => {
    player.selectNode(node);
    emit("did", "node");
  };
  const hover = (node) => {
    if (state.hover === node) return;
    state.hover = node;
    schedule();
  };
  // The card follows the pointer over the tree alone: over what stands below it, it would move that away from under the pointer.
  const peek = (node) => {
    state.peek = node !== null;
    hover(node);
  };
  const panels = createPanels(part, state, player, { pick, hover, peek, schedule, redraw });
  const settle = createSettled([...element.querySelectorAll(SETTLED)]);
  const drawn = { race: null, grew: null, verdict: "", step: "", slots: "", table: "", picture: "", chart: "", view: "", reserved: "", spokenAt: -SPOKEN, heavyAt: 0, learnedAt: 0 };
  let Plotly = null;
  let waiting = 0;
  let timer = 0;
  let learning = 0;
  let voice = 0;

  function moving() {
    return state.playing !== 0 || state.following;
  }

  function schedule() {
    if (!waiting) waiting = requestAnimationFrame(render);
  }

  function render() {
    waiting = 0;
    if (!state.race.lanes.length) return;
    if (drawn.race !== state.race) {
      panels.lanes.rebuild(state.race);
      panels.times.rebuild(state.race);
      part("race-body").dataset.many = String(state.race.lanes.length > 3);
      drawn.race = state.race;
      renderHead(part, state.race);
      panels.prompt(state.race.lanes[0].header.prompt);
    }
    panels.lanes.render(state);
    panels.times.render(state);
    panels.strip.render(state);
    panels.bar.render();
    if (state.race.running) drawn.grew = state.race.id;
    const { id, running } = state.race;
    Object.assign(part("view-root").dataset, { running: String(running), grew: String(drawn.grew === id), covered: String(covered(state)) });
    renderVerdict(part("verdict"), state.race);
    heavySoon();
  }

  // While a race runs its verdict has the room of the longest one, and keeps it: nothing moves as it is reworded.
  function renderVerdict(box, race) {
    if (drawn.grew !== race.id) box.style.minHeight = "";
    else if (drawn.verdict !== race.id) {
      drawn.verdict = race.id;
      box.style.minHeight = "";
      tellVerdict(longestVerdict(race));
      box.style.minHeight = `${box.offsetHeight}px`;
    }
    tellVerdict(verdict(race));
  }

  function tellVerdict({ sentence, detail }) {
    setText(part("sentence"), sentence);
    setText(part("detail"), detail);
  }

  // Tables and charts: at once when the user acts, in their own rhythm while time runs.
  function heavySoon() {
    const rest = moving() ? QUIET - (performance.now() - drawn.heavyAt) : 0;
    clearTimeout(timer);
    if (rest <= 0) renderHeavy();
    else timer = setTimeout(renderHeavy, rest);
  }

  function renderHeavy() {
    drawn.heavyAt = performance.now();
    const lane = state.race.lanes[state.lane];
    const step = lane.steps[state.step];
    if (!step) return;
    const key = `${state.race.id}/${state.lane}/${state.step}/${covered(state)}/${language()}`;
    settle(moving(), key);
    if (drawn.step !== key) {
      drawn.step = key;
      renderStep(part, state);
    }
    const shown = state.hover ?? state.node;
    const picture = `${key}/${state.moment}/${state.node}/${shown}/${isDark()}/${part("tree").clientWidth}`;
    if (drawn.picture !== picture) {
      drawn.picture = picture;
      renderPicture(lane, step, shown);
    }
    panels.search.render(step, lane.header, state.moment);
    panels.guess.render(state, step);
    setText(part("visits-key"), visitsKey(step, state.moment));
    part("tree-card").dataset.searching = String(state.moment !== null);
    learnSoon();
    drawChart();
    panels.figures.render(state);
    speak(step);
    tell();
    emit("shown", { race: state.race, lane: state.lane, step: state.step });
  }

  // What the matrix learned: once the step is on screen, and more seldom while time runs.
  function learnSoon() {
    const rest = moving() ? Math.max(0, SLOW - (performance.now() - drawn.learnedAt)) : 0;
    clearTimeout(learning);
    learning = setTimeout(renderLearning, rest);
  }

  function renderLearning() {
    drawn.learnedAt = performance.now();
    const lane = state.race.lanes[state.lane];
    if (!lane?.steps[state.step]) return;
    panels.matrix.render(Plotly, state);
    panels.agreement.render(Plotly, state.race, lane, state.step, isDark());
  }

  function renderPicture(lane, step, shown) {
    const hidden = covered(state);
    const calm = hidden ? unjudged(step) : step;
    const layout = hidden ? unjudgedLayout(step, lane.layouts[state.step]) : lane.layouts[state.step];
    const seen = state.moment === null ? calm : searchedStep(step, state.moment, lane.header.method_settings);
    const there = (id) => (seen.exists && (id < 0 || !seen.exists[id]) ? 0 : id);
    const node = there(shown);
    const card = (id) => renderNode(part("node"), seen, id, lane.header, calm, state.moment);
    reserve(card, seen, `${drawn.step}/${part("node").clientWidth}`);
    card(state.peek ? node : there(state.node));
    panels.mask.draw(calm, layout, shown);
    if (drawn.slots !== drawn.step) panels.slots.render(calm, !hidden);
    drawn.slots = drawn.step;
    panels.slots.select(node);
    if (drawn.table !== `${drawn.step}/${state.moment}`) panels.table.render(seen, layout);
    drawn.table = `${drawn.step}/${state.moment}`;
    panels.table.select(node);
    panels.tree.show(node);
    const shades = shadesOf(seen, step, lane.header.method_settings);
    renderShadeKey(part, shades);
    if (Plotly) panels.tree.draw(Plotly, seen, layout, node, shades);
  }

  // The card is as high as any node of the step makes it, so that nothing moves when another one is chosen.
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
    const seen = race.lanes.map((lane) => (state.guess ? stepsShown(state, lane) : lane.steps.length)); // no line tells what is still to be guessed
    const key = [race.id, seen, state.time, span, isDark(), part("chart").clientWidth, language()].join("/");
    if (!Plotly || drawn.chart === key || panels.zoom.held()) return;
    drawn.chart = key;
    drawRaceChart(Plotly, part, state, isDark(), span, seen);
    panels.zoom.listen();
  }

  function speak(step) {
    clearTimeout(voice);
    if (state.playing !== 0) return;
    const rest = SPOKEN - (performance.now() - drawn.spokenAt);
    if (rest > 0) {
      voice = setTimeout(renderHeavy, rest);
      return;
    }
    const words = say("live.step", { step: step.index + 1, sentence: covered(state) ? say("guess.covered", { count: step.tree.tokens.length - 1 }) : sentence(step) });
    if (part("live").textContent !== words) drawn.spokenAt = performance.now();
    setText(part("live"), words);
  }

  // Says what is on screen, for the address.
  function tell() {
    if (moving()) return;
    const { settings } = state.race;
    const view = { ...placeOf(state.race), lane: laneName(state.race.lanes, state.lane), step: state.step + 1, node: state.node, pair: state.pair, settings };
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
    createSave(part, () => ({ race: state.race, standalone: () => standalone(stoppedLines(props.value)) }));
    new ResizeObserver(redraw).observe(element);
    new MutationObserver(redraw).observe(document.body, { attributes: true, attributeFilter: ["class"] });
    on("show", show);
    on("study", ({ lane, step }) => player.setLane(lane, step));
  }

  function open() {
    const before = state.race.running;
    player.open(readLines(state.race, props.value));
    if (state.race.id !== null) places.keep(state.race, props.value);
    if (state.race.running === before) return;
    drawn.view = ""; // a run that ends is told of, wherever it ends
    emit("running", state.race.running ? state.race.id : null);
  }

  // The view of a link: of the race on screen, of one that was there before, or of one that is still to come.
  function show(view) {
    const text = !state.race.running && !isPlace(view, state.race) && places.find(view);
    if (text) {
      props.value = text;
      open();
    }
    if (view.again && view.run && !isPlace(view, state.race)) emit("refused", [["link.gone", {}]]);
    player.show(view);
  }

  wire();
  keepWorded(element, reword);
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
  const lanes = { onStep: player.setLane, onLane: player.setLane, onAbout: (lane) => emit("article", state.race.lanes[lane].header.method) };
  const onMoment = (moment) => {
    state.moment = moment;
    emit("did", "search");
    schedule();
  };
  const seek = (index) => {
    player.seek(index);
    emit("did", "step");
  };
  const answer = (node) => {
    player.answer(node);
    emit("did", "guess");
  };
  return {
    prompt: createPromptLine(part),
    lanes: createLanes(part("lanes"), part("refused"), lanes),
    times: createTimes(part("times")),
    zoom: createZoom(part, redraw),
    bar: createBar(part, state, player),
    strip: createStrip(part("strip"), { onSeek: seek }),
    tree: createTree(part("tree"), part("tree-legend"), { onHover: peek, onPick: pick }),
    table: createNodeTable(part("nodes"), both),
    matrix: createMatrix(part, { onChange: schedule, onPair: player.selectPair }),
    mask: createMask(part("mask"), part("mask-text"), both),
    slots: createSlots(part, both),
    agreement: createAgreement(part, schedule),
    figures: createFigures(part, schedule),
    search: createSearch(part, { onMoment }),
    guess: createGuess(part, { onToggle: player.toggleGuess, onAnswer: answer, onNext: () => player.by(1) }),
  };
}

function renderHead(part, race) {
  const { header } = race.lanes[0];
  part("chart-key").replaceChildren(...plainLast(race.lanes.map(chartKey), race.lanes));
  const chip = document.querySelector("[data-part='machine']");
  if (chip) setText(chip, [header.model, recorded(header.device), header.dtype].join(" · "));
  setText(part("source"), race.source ? say(`source.${race.source}`) : "");
  setText(part("race-title"), sayOr(`title.${race.title}`, race.title));
}

function chartKey(lane, index, lanes) {
  const key = el("span", { class: "ax-key" }, lineKey(laneDash(lanes, index)), lane.label);
  paintLane(key, lane);
  return key;
}
