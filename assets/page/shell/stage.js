// The stage: the step on screen in tabs, as high as the first screen allows.

import { language } from "../core/words.js";
import { covered } from "./player.js";
import { createTabs } from "./tabs.js";

const STABLE = ".ax-matrix-grid > .ax-card, [data-stable]"; // elements whose height changes from step to step
const ABOVE = ["#ax-bar", "#ax-header", "#ax-notice", "#ax-controls", "#ax-site", "#ax-race .ax-race"]; // what is above the stage
const MIN_STAGE = { plain: 300, predicting: 220 }; // minimum height of the stage in pixels; less beside a question about it
const GAP = 12; // pixels between the stage and the bar at the bottom
const ACTED = 700; // milliseconds after user input in which a change counts as made by the user

export function mountStage({ part, element, state, isMoving, showTab, subscribe }) {
  const holdHeights = createStableHeights([...element.querySelectorAll(STABLE)]);
  const fit = fitStage(part("stage"), part("dock"), document.querySelectorAll(ABOVE.join(", ")));
  const tabs = createTabs(part, showTab);
  const reveal = ({ target }) => target.open && target.scrollIntoView({ block: "nearest" });
  part("stage").addEventListener("toggle", reveal, true); // a card below the tree that was opened
  subscribe(
    "quiet",
    () => [{}],
    ({ race, run, step, tab }) => {
      holdHeights(isMoving(), [race.id, run, step, covered(state), language()].join("/"));
      tabs.render(tab);
      fit();
    },
  );
}

// `elements` do not shrink during playback, so that nothing below them moves; when the user selects another step, each gets its natural
// height again.
function createStableHeights(elements) {
  const sizes = new Map(elements.map((element) => [element, { width: 0, height: 0 }]));
  let holding = false;
  let shown = "";
  let acted = -ACTED;
  for (const name of ["pointerdown", "keydown", "input"]) window.addEventListener(name, () => (acted = performance.now()), true);
  const observer = new ResizeObserver((entries) => entries.forEach(note));
  for (const element of elements) {
    observer.observe(element, { box: "border-box" });
    element.addEventListener("toggle", () => free(element), true);
  }

  // An element of another width is laid out again; a hidden one keeps its height.
  function note({ target, borderBoxSize: [{ inlineSize: width, blockSize: height }] }) {
    if (!width) return;
    const size = sizes.get(target);
    if (size.width !== width) free(target);
    size.width = width;
    if (holding) keep(target, height);
  }

  function keep(element, height) {
    const size = sizes.get(element);
    if (height <= size.height) return;
    size.height = height;
    element.style.minHeight = `${height}px`;
  }

  function free(element) {
    sizes.get(element).height = 0;
    element.style.minHeight = "";
  }

  // `moving`: whether the race is playing or running; `step`: identifies the step on screen.
  return function update(moving, step) {
    if (moving && !holding) for (const element of elements) keep(element, element.offsetHeight);
    else if (!moving && step !== shown && performance.now() - acted < ACTED) elements.forEach(free);
    holding = moving || (holding && step === shown);
    shown = step;
  };
}

// `above`: elements whose height moves the stage; `dock`: the bar at the bottom of the window. Returns a function that fits it again.
function fitStage(stage, dock, above) {
  function fit() {
    const top = stage.getBoundingClientRect().top + window.scrollY;
    const { height: docked } = dock.getBoundingClientRect();
    document.body.style.setProperty("--ax-dock", `${Math.round(docked)}px`);
    const free = Math.max(MIN_STAGE[dock.querySelector("[data-part='prediction']:not([hidden])") ? "predicting" : "plain"], window.innerHeight - top - docked - GAP);
    const height = `${Math.floor(free / (stage.currentCSSZoom ?? 1))}px`; // presenting enlarges the page
    stage.style.setProperty("--ax-stage", height);
  }
  const observer = new ResizeObserver(fit);
  for (const element of [...above, dock]) observer.observe(element);
  window.addEventListener("resize", fit);
  fit();
  return fit;
}
