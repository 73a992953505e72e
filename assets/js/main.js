// The view: connects the record, the player and the panels. One state a page, none shared.

import { createAgreement } from "./agreement.js";
import { drawRaceChart, laneDash, lineKey, plotly } from "./charts.js";
import { el, isDark, milliseconds, plural, setText, visible } from "./dom.js";
import { listenToKeys } from "./keys.js";
import { createLanes, paintLane } from "./lanes.js";
import { renderNode } from "./node.js";
import { SPEEDS, createPlayer, createState } from "./player.js";
import { PARTS, column, emptyRace, plainLast, readLines, toFile } from "./record.js";
import { searchedStep } from "./search.js";
import { createSearch } from "./searching.js";
import { createStrip, gain } from "./strip.js";
import { createMatrix, createNodeTable, renderWalk } from "./tables.js";
import { createMask } from "./mask.js";
import { createTimes } from "./times.js";
import { createTree, tallest } from "./tree.js";

const QUIET = 110; // milliseconds between drawings of the heavy parts while time runs
const SPOKEN = 1500; // milliseconds between spoken sentences

export function mountRace(element, props, watch, plotlyUrl) {
  const part = (name) => element.querySelector(`[data-part="${name}"]`);
  const state = createState(emptyRace());
  const player = createPlayer(state, schedule);
  const pick = (node) => {
    state.node = node;
    state.hover = null;
    schedule();
  };
  const hover = (node) => {
    if (state.hover === node) return;
    state.hover = node;
    schedule();
  };
  const lanes = createLanes(part("lanes"), { onStep: (lane, step) => player.setLane(lane, step), onLane: (lane) => player.setLane(lane) });
  const times = createTimes(part("times"));
  const strip = createStrip(part("strip"), { onSeek: player.seek });
  const tree = createTree(part("tree"), { onHover: hover, onPick: pick });
  const table = createNodeTable(part("nodes"), { onHover: hover, onPick: pick });
  const matrix = createMatrix({ key: part("matrix-key"), picker: part("matrix-picker"), list: part("matrix"), more: part("matrix-more") });
  const mask = createMask(part("mask"), part("mask-text"), { onHover: hover, onPick: pick });
  const agreement = createAgreement(part, schedule);
  const search = createSearch(part, {
    onMoment: (moment) => {
      state.moment = moment;
      schedule();
    },
  });
  const drawn = { race: null, step: "", table: "", picture: "", chart: "", spokenAt: 0, heavyAt: 0 };
  let Plotly = null;
  let waiting = 0;
  let timer = 0;

  function schedule() {
    if (!waiting) waiting = requestAnimationFrame(render);
  }

  function render() {
    waiting = 0;
    if (!state.race.lanes.length) return;
    if (drawn.race !== state.race) {
      lanes.rebuild(state.race);
      times.rebuild(state.race);
      part("race-body").dataset.many = String(state.race.lanes.length > 3);
      drawn.race = state.race;
      renderHead();
    }
    lanes.render(state);
    times.render(state);
    strip.render(state);
    renderBar();
    setText(part("sentence"), state.race.verdict.sentence);
    setText(part("detail"), state.race.verdict.detail);
    heavySoon();
  }

  // Tables and charts: at once when the user acts, in their own rhythm while time runs.
  function heavySoon() {
    const moving = state.playing !== 0 || state.following;
    const rest = moving ? QUIET - (performance.now() - drawn.heavyAt) : 0;
    clearTimeout(timer);
    if (rest <= 0) renderHeavy();
    else timer = setTimeout(renderHeavy, rest);
  }

  function renderHeavy() {
    drawn.heavyAt = performance.now();
    const lane = state.race.lanes[state.lane];
    const step = lane.steps[state.step];
    if (!step) return;
    const layout = lane.layouts[state.step];
    const key = `${state.race.id}/${state.lane}/${state.step}`;
    if (drawn.step !== key) renderStep(step, layout, key);
    const shown = state.hover === null ? state.node : state.hover;
    const picture = `${key}/${state.moment}/${state.node}/${shown}/${isDark()}/${part("tree").clientWidth}`;
    if (drawn.picture !== picture) {
      drawn.picture = picture;
      renderPicture(lane, step, layout, shown);
    }
    search.render(step, lane.header, state.moment);
    setText(part("visits-key"), visitsKey(step, state.moment));
    part("tree-card").dataset.searching = String(state.moment !== null);
    agreement.render(Plotly, state.race, lane, state.step, isDark());
    drawChart();
    speak(step);
  }

  function renderPicture(lane, step, layout, shown) {
    const seen = state.moment === null ? step : searchedStep(step, state.moment, lane.header.method_settings);
    const node = seen.exists && (shown < 0 || !seen.exists[shown]) ? 0 : shown;
    renderNode(part("node"), seen, node, lane.header);
    mask.draw(step, layout, shown);
    if (drawn.table !== `${drawn.step}/${state.moment}`) table.render(seen, layout);
    drawn.table = `${drawn.step}/${state.moment}`;
    table.select(node);
    tree.show(node);
    if (Plotly) tree.draw(Plotly, seen, layout, node);
  }

  function drawChart() {
    const { race } = state;
    const key = `${race.id}/${race.lanes.map((lane) => lane.steps.length)}/${state.time}/${isDark()}/${part("chart").clientWidth}`;
    if (!Plotly || drawn.chart === key) return;
    drawn.chart = key;
    drawRaceChart(Plotly, part("chart"), state, isDark());
  }

  function renderStep(step, layout, key) {
    drawn.step = key;
    setText(part("step-title"), `${state.race.lanes[state.lane].header.label}: draft tree of step ${step.index + 1}`);
    setText(part("step-sentence"), sentence(step));
    setText(part("step-note"), step.note || "");
    setText(part("step-budget"), `${plural(step.budget.nodes, "node")} allowed (${step.budget.why}), ${step.tree.tokens.length} used.`);
    setText(part("hidden"), layout.hidden ? `${layout.hidden} of ${step.tree.tokens.length} nodes are not drawn: the least visited.` : "");
    setText(part("step-seconds"), secondsText(step.seconds));
    part("tree").style.minHeight = `${Math.min(400, tallest(state.race.lanes[state.lane]))}px`;
    renderWalk(part("walk"), step);
    matrix.render(step);
    part("search-slot").dataset.kept = String(state.race.lanes[state.lane].steps.some((other) => other.simulations.length));
    part("matrix-card").hidden = !state.race.lanes[state.lane].steps.some((other) => other.rows.length);
    part("mask-card").hidden = step.tree.tokens.length < 2;
    part("walk").closest("section").hidden = step.choices.length === 0;
  }

  function renderHead() {
    const { header } = state.race.lanes[0];
    setText(part("prompt"), header.prompt);
    part("prompt").title = header.prompt;
    part("chart-key").replaceChildren(...plainLast(state.race.lanes.map(chartKey), state.race.lanes));
    const chip = document.querySelector("[data-part='machine']");
    if (chip) setText(chip, [header.model, header.device, header.dtype].join(" · "));
    setText(part("source"), { run: "live run", recorded: "recorded", file: "from a file" }[state.race.source] || "");
    setText(part("race-title"), state.race.title);
  }

  function renderBar() {
    const lane = state.race.lanes[state.lane];
    const step = lane.steps[state.step];
    const play = part("play");
    play.dataset.on = String(state.playing > 0);
    play.setAttribute("aria-label", state.playing > 0 ? "Pause" : "Play");
    part("back").dataset.on = String(state.playing < 0);
    part("back").setAttribute("aria-label", state.playing < 0 ? "Pause" : "Play backwards");
    for (const name of ["play", "back"]) part(name).disabled = state.race.running;
    part("speed").value = String(state.speed);
    setText(part("where"), step ? `step ${state.step + 1} of ${lane.steps.length}` : "no step yet");
    setText(part("gain"), step ? gain(step) : "");
    setText(part("clock"), `${state.time.toFixed(2)} s`);
    element.firstElementChild.dataset.running = String(state.race.running);
  }

  function speak(step) {
    const now = performance.now();
    if (state.playing !== 0 || now - drawn.spokenAt < SPOKEN) return;
    const words = `Step ${step.index + 1}: ${sentence(step)}`;
    if (part("live").textContent !== words) drawn.spokenAt = now;
    setText(part("live"), words);
  }

  function save() {
    if (!state.race.lanes.length) return;
    const url = URL.createObjectURL(new Blob([toFile(state.race)], { type: "application/json" }));
    const link = el("a", { href: url, download: "race.json" });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  }

  function redraw() {
    drawn.picture = drawn.chart = "";
    schedule();
  }

  function wire() {
    part("speed").append(...SPEEDS.map((s) => el("option", { value: s, text: `${s}×` })));
    part("speed").addEventListener("change", (event) => (state.speed = Number(event.target.value)));
    part("play").addEventListener("click", () => player.play(1));
    part("back").addEventListener("click", () => player.play(-1));
    part("previous").addEventListener("click", () => player.by(-1));
    part("next").addEventListener("click", () => player.by(1));
    part("save").addEventListener("click", save);
    part("walk").addEventListener("click", (event) => {
      const row = event.target.closest("tr");
      if (row) pick(Number(row.dataset.node));
    });
    listenToKeys(player);
    new ResizeObserver(redraw).observe(element);
    new MutationObserver(redraw).observe(document.body, { attributes: true, attributeFilter: ["class"] });
  }

  const open = () => player.open(readLines(state.race, props.value));
  wire();
  watch("value", open);
  open();
  plotly(plotlyUrl).then(
    (library) => {
      Plotly = library;
      redraw();
    },
    (error) => setText(part("hidden"), `No picture: ${error.message}. The table below has every node.`),
  );
}

function chartKey(lane, index, lanes) {
  const key = el("span", { class: "ax-key" }, lineKey(laneDash(lanes, index)), lane.header.label);
  paintLane(key, lane);
  return key;
}

function visitsKey(step, moment) {
  if (moment !== null) return "size and small numbers: visits · PUCT";
  return column(step.tree, "visits").some((visits) => visits !== null) ? "size and small number: visits" : "";
}

function sentence(step) {
  const drafted = step.tree.tokens.length - 1;
  const accepted = step.origins.filter((o) => o === "draft").length;
  const own = step.origins[step.origins.length - 1] === "target";
  const end = own ? `the target wrote “${visible(step.texts[step.texts.length - 1])}”` : "the text ended";
  return drafted ? `${drafted} drafted, ${accepted} accepted, then ${end}.` : `Nothing drafted; ${end}.`;
}

function secondsText(seconds) {
  return PARTS.filter((name) => seconds[name] > 0)
    .map((name) => `${name} ${milliseconds(seconds[name])}`)
    .join(" · ");
}
