// The guided tour: a card at each stop, the place it speaks of in a frame. Some stops wait until the learner has acted.

import { on } from "./bus.js";
import { el, reducedMotion, setText, toggleClass } from "./dom.js";
import { recall, remember } from "./memory.js";
import { onLanguage, say } from "./words.js";

// Name, place, and what the learner is asked to do there (a name that the race panel says when it was done).
export const STOPS = [
  { name: "welcome", at: ".ax-race" },
  { name: "lanes", at: "[data-part='lanes']" },
  { name: "origins", at: "[data-part='origins']" },
  { name: "strip", at: ".ax-time", task: "step" },
  { name: "play", at: ".ax-time", task: "play" },
  { name: "tree", at: "[data-part='tree-card']" },
  { name: "node", at: "[data-part='tree-card']", task: "node" },
  { name: "guess", at: "[data-part='guess-toggle']", task: "guess" },
  { name: "search", at: "[data-part='search-slot']", task: "search" },
  { name: "walk", at: "[data-part='walk-card']" },
  { name: "mask", at: "[data-part='mask-card']" },
  { name: "matrix", at: "[data-part='matrix-card']" },
];

// The stop to go on from, from what was remembered.
export function resumed(text) {
  const at = STOPS.findIndex((stop) => stop.name === text);
  return Math.max(0, at);
}

export function createTour(opener) {
  const tour = { at: -1, done: new Set(), place: null };
  const view = createCard();

  function go(at) {
    tour.at = at;
    if (at < 0) return leave();
    remember("tour", STOPS[at].name);
    view.card.hidden = false;
    render();
    reveal();
    view.card.focus({ preventScroll: true });
  }

  function leave() {
    frame(null);
    view.card.hidden = true;
    opener.focus({ preventScroll: true });
  }

  function frame(place) {
    if (tour.place) toggleClass(tour.place, "ax-toured", false);
    tour.place = place;
    if (place) toggleClass(place, "ax-toured", true);
  }

  function reveal() {
    const found = document.querySelector(STOPS[tour.at].at);
    const place = found?.offsetHeight ? found : null;
    frame(place);
    if (place) place.scrollIntoView({ block: place.offsetHeight > 0.6 * window.innerHeight ? "start" : "center", behavior: reducedMotion() ? "auto" : "smooth" });
  }

  function render() {
    if (tour.at < 0) return;
    const { name, task } = STOPS[tour.at];
    const waits = task && !tour.done.has(name);
    const last = tour.at === STOPS.length - 1;
    setText(view.count, say("tour.count", { at: tour.at + 1, of: STOPS.length }));
    setText(view.title, say(`tour.${name}`));
    setText(view.text, say(`tour.${name}.text`));
    setText(view.task, task ? `${waits ? "" : "✓ "}${say(`tour.${name}.task`)}` : "");
    view.task.dataset.done = String(!waits);
    setText(view.next, say(last ? "tour.end" : waits ? "tour.skip" : "tour.next"));
    toggleClass(view.next, "ax-quiet", Boolean(waits));
    setText(view.back, say("tour.back"));
    setText(view.again, say("tour.again"));
    setText(view.leave, say("tour.leave"));
    view.back.disabled = view.again.disabled = tour.at === 0;
  }

  view.next.addEventListener("click", () => go(tour.at + 1 < STOPS.length ? tour.at + 1 : finish()));
  view.back.addEventListener("click", () => go(tour.at - 1));
  view.again.addEventListener("click", () => go(finish() + 1));
  view.leave.addEventListener("click", () => go(-1));
  view.card.addEventListener("keydown", (event) => {
    if (event.key === "Escape") go(-1);
  });
  on("did", (what) => {
    if (tour.at < 0 || STOPS[tour.at].task !== what) return;
    tour.done.add(STOPS[tour.at].name);
    render();
  });
  onLanguage(render);
  opener.addEventListener("click", () => go(tour.at < 0 ? resumed(recall("tour")) : -1));

  // Forgets what was done; the next tour begins at the first stop.
  function finish() {
    tour.done.clear();
    remember("tour", STOPS[0].name);
    return -1;
  }
}

function createCard() {
  const button = (name) => el("button", { type: "button", class: `ax-tour-${name}`, "data-part": `tour-${name}` });
  const parts = {
    count: el("p", { class: "ax-dim" }),
    title: el("h2", { id: "ax-tour-title" }),
    text: el("p"),
    task: el("p", { class: "ax-task", "aria-live": "polite" }),
    again: button("again"),
    leave: button("leave"),
    back: button("back"),
    next: button("next"),
  };
  const { count, title, text, task, again, leave, back, next } = parts;
  const buttons = el("div", { class: "ax-tour-buttons" }, leave, again, back, next);
  const card = el("section", { class: "ax ax-tour", role: "dialog", "aria-labelledby": "ax-tour-title", tabindex: "-1", hidden: true }, count, title, text, task, buttons);
  document.body.append(card);
  return { card, ...parts };
}
