// The guided tour: a card per tour step, and a frame around the element that it explains. Some tour steps wait for an action of the user.

import { emit, on } from "../core/events.js";
import { el, onKey, reducedMotion, setText, toggleClass } from "../core/dom.js";
import { loadItem, storeItem } from "../core/storage.js";
import { TOUR_STEPS, findStep, resumeIndex } from "./toursteps.js";
import { onLanguage, say, sayOr } from "../core/words.js";

const TOURING = "ax-touring";
const RENDERED = 150; // milliseconds until a requested step is on screen
const PHONE = "(max-width: 640px)"; // as in the style sheets
const KEYS = "(hover: hover)"; // what is used with a pointer probably has keys too

export function createTour(opener) {
  const tour = { at: -1, done: new Set(), place: null, seen: null, moved: null };
  const view = createCard();

  function go(at) {
    tour.at = at;
    if (at < 0) return leave();
    storeItem("tour", TOUR_STEPS[at].name);
    view.card.hidden = false;
    view.card.dataset.name = TOUR_STEPS[at].name;
    document.body.classList.add(TOURING);
    showStep(TOUR_STEPS[at]);
    render();
    view.card.focus({ preventScroll: true });
  }

  // Shows a race step that the tour step can explain.
  function showStep(step) {
    const { seen } = tour;
    const place = seen && findStep(step, seen);
    tour.moved = place && (place.run !== seen.run || place.step !== seen.step) ? place : null;
    emit("tab", step.tab);
    reveal();
    if (tour.moved) emit("goto", place);
    setTimeout(() => tour.at >= 0 && reveal(), RENDERED);
  }

  // The tour steps that the race on screen can illustrate: all of them before there is a race.
  const open = () => [...TOUR_STEPS.keys()].filter((at) => !(TOUR_STEPS[at].wide && onPhone()) && (!tour.seen || findStep(TOUR_STEPS[at], tour.seen)));
  const after = (at) => open().find((other) => other > at) ?? -1;
  const before = (at) => open().findLast((other) => other < at) ?? -1;

  function leave() {
    frame(null);
    view.card.hidden = true;
    document.body.classList.remove(TOURING);
    opener.closest("details").querySelector("summary").focus({ preventScroll: true });
  }

  function frame(place) {
    if (tour.place) toggleClass(tour.place, "ax-toured", false);
    tour.place = place;
    if (place) toggleClass(place, "ax-toured", true);
  }

  function reveal() {
    const found = document.querySelector(TOUR_STEPS[tour.at].at);
    const place = found?.offsetHeight ? found : null;
    frame(place);
    const scrolled = place && withTabs(place, view.card);
    if (place && !place.closest(".ax-dock")) scrolled.scrollIntoView({ block: blockOf(scrolled, view.card), behavior: reducedMotion() ? "auto" : "smooth" });
  }

  function render() {
    if (tour.at < 0) return;
    const { name, task } = TOUR_STEPS[tour.at];
    const waits = task && !tour.done.has(name);
    const steps = open();
    const last = after(tour.at) < 0;
    setText(view.count, say("tour.count", { at: steps.indexOf(tour.at) + 1, of: steps.length }));
    setText(view.title, say(`tour.${name}`));
    setText(view.text, (onPhone() && sayOr(`tour.${name}.phone`, null)) || say(`tour.${name}.text`));
    setText(view.farewell, last ? say(canRun() ? "tour.end.run" : "tour.end.alone") : "");
    setText(view.moved, tour.moved ? say("tour.moved", { step: tour.moved.step + 1, name: tour.seen.race.runs[tour.moved.run].label }) : "");
    setText(view.task, task ? `${waits ? "" : "✓ "}${taskText(name)}` : "");
    view.task.dataset.done = String(!waits);
    setText(view.next, say(last ? "tour.end" : waits ? "tour.skip" : "tour.next"));
    toggleClass(view.next, "ax-quiet", Boolean(waits));
    setText(view.back, say("tour.back"));
    setText(view.again, say("tour.again"));
    setText(view.leave, say("tour.leave"));
    view.back.disabled = view.again.disabled = before(tour.at) < 0;
  }

  view.next.addEventListener("click", () => go(after(tour.at) >= 0 ? after(tour.at) : finish()));
  view.back.addEventListener("click", () => go(before(tour.at)));
  view.again.addEventListener("click", () => go(finish() + 1));
  view.leave.addEventListener("click", () => go(-1));
  onKey(view.card, (event) => event.key === "Escape" && go(-1));
  on("action", (what) => {
    if (tour.at < 0 || TOUR_STEPS[tour.at].task !== what) return;
    tour.done.add(TOUR_STEPS[tour.at].name);
    render();
  });
  on("shown", (seen) => {
    const other = seen.race !== tour.seen?.race;
    tour.seen = seen;
    if (other && tour.at >= 0) go(nearest(tour.at));
  });
  onLanguage(render);
  opener.addEventListener("click", () => go(tour.at < 0 ? nearest(resumeIndex(loadItem("tour"))) : -1));

  // The tour step, or the next one if the race cannot illustrate it.
  function nearest(at) {
    return Math.max(0, after(at - 1));
  }

  // Resets the tour to its first step.
  function finish() {
    tour.done.clear();
    storeItem("tour", TOUR_STEPS[0].name);
    return -1;
  }
}

// The stage with its tabs, if the card at the bottom of the window leaves space for it down to the place, else the place.
function withTabs(place, card) {
  const [stage, { top }] = [place.closest("[data-part='stage']"), card.getBoundingClientRect()];
  if (!stage || top < window.innerHeight / 4) return stage ?? place;
  const bar = parseFloat(getComputedStyle(stage).scrollMarginTop);
  return place.getBoundingClientRect().bottom - stage.getBoundingClientRect().top <= top - bar ? stage : place;
}

// Where the page is scrolled to: the card of the tour is at the top or at the bottom of the window, and must not cover what it explains.
function blockOf(place, card) {
  if (card.getBoundingClientRect().top < window.innerHeight / 4) return "end";
  return place.getBoundingClientRect().height > window.innerHeight / 4 ? "start" : "center";
}

function taskText(name) {
  const touch = window.matchMedia(KEYS).matches ? null : sayOr(`tour.${name}.task.touch`, null);
  return touch ?? say(`tour.${name}.task`);
}

function onPhone() {
  return window.matchMedia(PHONE).matches;
}

// Whether this page can run a race: saved pages have no such button, and it is hidden while the page is presented.
function canRun() {
  return Boolean(document.querySelector("#ax-run")?.offsetHeight);
}

function createCard() {
  const button = (name) => el("button", { type: "button", class: `ax-tour-${name}`, "data-part": `tour-${name}` });
  const parts = {
    count: el("p", { class: "ax-dim" }),
    title: el("h2", { id: "ax-tour-title" }),
    text: el("p"),
    farewell: el("p"),
    moved: el("p", { class: "ax-tour-moved" }),
    task: el("p", { class: "ax-task", "aria-live": "polite" }),
    again: button("again"),
    leave: button("leave"),
    back: button("back"),
    next: button("next"),
  };
  const { count, title, text, farewell, moved, task, again, leave, back, next } = parts;
  const buttons = el("div", { class: "ax-tour-buttons" }, leave, again, back, next);
  const words = el("div", { class: "ax-tour-words" }, count, title, text, farewell, moved, task);
  const card = el("section", { class: "ax ax-tour", role: "dialog", "aria-labelledby": "ax-tour-title", tabindex: "-1", hidden: true }, words, buttons);
  document.body.append(card);
  return { card, ...parts };
}
