// The race view: one store of what is on screen, the player that changes it, and the cards that draw it.

import { createScheduler } from "../core/scheduler.js";
import { createStore } from "../core/store.js";
import { cited, isDark, visible } from "../core/dom.js";
import { emit, on } from "../core/events.js";
import { localize } from "../core/words.js";
import { keepMarkup, keepValue, standalone } from "../export/standalone.js";
import { plotly } from "../plot/charts.js";
import { raceIdOf } from "../record/racehistory.js";
import { emptyRace, last, runName, stoppedLines } from "../record/record.js";
import { createStepView } from "../record/stepview.js";
import { createOpener } from "./opener.js";
import { covered, createPlayer, createState } from "./player.js";
import { mountStage } from "./stage.js";
import { TABS } from "./tabs.js";

// `cards`: the function `mount` of each card, in order; `trigger` sends an event to the server, null without one; `kept`: what cards kept in
// a saved page, by name.
export function mountRace(element, props, watch, { cards, trigger = null, kept = {} }) {
  keepMarkup("race", element);
  const part = (name) => element.querySelector(`[data-part="${name}"]`);
  const state = { ...createState(emptyRace()), dark: isDark() };
  const isMoving = () => state.playing !== 0 || state.following;
  const viewOf = createStepView();
  const store = createStore(state, createScheduler(isMoving, draw));
  const changed = () => store.set({});
  const player = createPlayer(state, changed, (what, value) => emit("linkErrors", [[`link.view.${what}`, { value: cited(value), shown: shownInstead(state, what) }]]));
  const showTab = (tab) => TABS.includes(tab) && store.set({ tab });
  const opener = createOpener(state, player, showTab);

  // The view that a page was saved with.
  function openPlace({ tab, ...place }) {
    showTab(tab);
    player.show(place);
  }

  // Groups of subscribers: "frame" with every frame, "quiet", then "told", and "slow" less often during playback; "quiet" and "slow" need a step.
  function draw(group) {
    if (!state.race.runs.length) return;
    state.view = viewOf(state, covered(state));
    if (state.view || group === "frame") store.notify(group);
    if (group === "quiet") store.notify("told");
  }

  const page = { part, element, state, subscribe: store.subscribe, set: store.set, changed, isMoving, player, showTab, ...pointing(state, store, player) };
  const savedPage = () => standalone(stoppedLines(opener.lines()));
  mountStage(page);
  for (const mount of cards) mount({ ...page, trigger, kept, open: opener.show, savedPage });
  store.subscribe("frame", () => [covered(state), state.race, state.race.running, state.replaced], markView(part("view-root")));
  const isTold = () => state.view !== null || !state.race.running; // a race that has just begun is told with its first step
  store.subscribe("told", () => (state.playing || !isTold() ? null : [state.race.running, ...Object.values(linkedView(state))]), () => emit("view", linkedView(state)));
  store.subscribe("told", () => (isTold() ? [{}] : null), ({ race, run, step }) => emit("shown", { race, run, step }));
  store.subscribe("told", () => [!state.view], () => (part("view-root").dataset.empty = String(!state.view)));

  new ResizeObserver(changed).observe(element);
  new MutationObserver(() => store.set({ dark: isDark() })).observe(document.body, { attributes: true, attributeFilter: ["class"] });
  for (const section of element.querySelectorAll("[data-section]")) section.addEventListener("toggle", changed);
  on("present", changed);
  on("tab", showTab);
  on("busy", (busy) => store.set({ replaced: busy && !state.race.running }));
  on("running", (id) => id !== null && store.set({ replaced: false }));
  on("moment", (moment) => store.set({ moment }));
  on("predict", player.predict);
  localize(element, () => {
    store.forget();
    changed();
  });
  emit("mounted", { ...page, trigger });
  opener.listen(props, watch);
  keepValue("view", () => placeOf(state));
  if (kept.view) openPlace(kept.view);
  plotly().then(
    (Plotly) => store.set({ Plotly }),
    ({ message }) => store.set({ chartError: message }),
  );
}

// What cards call when the user selects a node or points at one. The node card follows the pointer only over the tree (`peek`): over elements
// below the card, its changing height would move them.
function pointing(state, store, player) {
  const hover = (node) => state.hover !== node && store.set({ hover: node });
  const peek = (node) => {
    state.peek = node !== null;
    hover(node);
  };
  const pick = (node) => {
    player.selectNode(node);
    emit("action", "node");
  };
  return { pick, hover, peek };
}

// What is shown instead of a part of a link's view that does not exist.
function shownInstead({ race, run: at, step, node, tab }, what) {
  const run = race.runs[at];
  const { tree, texts } = run.steps[step] ?? { tree: { texts: [] }, texts: [] };
  return { method: run.label, step: step + 1, node: visible((node < 0 ? last(texts) : tree.texts[node]) ?? ""), tab: { say: `tab.${tab}` } }[what];
}

// Marks the view as running, as grown while it was on screen, as covered, and as one that is about to be replaced, for the style sheet.
function markView(root) {
  let grown = null; // the race that ran while it was on screen
  on("running", (id) => {
    grown = id ?? grown; // also of one that ends before the next frame
  });
  return (state) => {
    const { id, running } = state.race;
    Object.assign(root.dataset, { running: String(running), grew: String(grown === id), covered: String(covered(state)) });
    root.setAttribute("aria-busy", String(state.replaced));
  };
}

// The view on screen, for a saved page.
function placeOf({ race, run, step, node, bigram, tab }) {
  return { method: runName(race.runs, run), step, node, bigram, tab };
}

// The view on screen, for the address; while it follows a race that runs, and in a run without steps, without a step.
function linkedView({ race, run, step, node, bigram, tab, following, view }) {
  const place = following || !view ? { step: null, node: null, bigram: null } : { step: step + 1, node, bigram };
  return { ...raceIdOf(race), turn: race.source === "run" ? (race.runs[0].turn?.number ?? null) : null, method: runName(race.runs, run), ...place, tab: tab === TABS[0] ? null : tab, settings: race.settings };
}
