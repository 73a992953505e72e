// The panel of a lesson beside the stage, on small screens a sheet at the bottom: one part at a time.

import { el, reducedMotion, setText, toggleClass } from "../core/dom.js";
import { emit, on } from "../core/events.js";
import { onLanguage, say } from "../core/words.js";
import { viewOf } from "../shell/link.js";
import { offerAblation } from "./ablation.js";
import { createExercise } from "./exercise.js";
import { createFigure } from "./figure.js";
import { shownBy } from "./format.js";
import { paragraphOf, spoken } from "./markup.js";
import { note, progressOf } from "./progress.js";
import { shownValue, resolved } from "./values.js";

const OPEN = "ax-with-lesson"; // class of the body while a lesson is open
const SHEET = "(max-width: 1080px)"; // as in the style sheet
const ASKS = "ax-lesson-asks"; // and while an exercise hides the verification

const onSheet = () => window.matchMedia(SHEET).matches;

// `openList` opens the list of lessons. Returns {open, close, isOpen}.
export function createPanel(openList) {
  const view = createView();
  // race: that of the part, once it was on screen; seen: the race on screen, screen: its view
  const now = { lesson: null, own: false, part: 0, shown: {}, asked: {}, race: null, seen: null, screen: null, arriving: false, answered: new Set(), framed: null, parts: [] };

  // Shows a part of a lesson; `own`: it is from a file; `apply`: whether the page shows what the part is about, `view`: fields of a link, as text, that
  // replace what the part shows.
  function open(lesson, part, { own = false, apply = true, view: asked = {} } = {}) {
    if (now.lesson !== lesson) Object.assign(now, { lesson, own, race: null, answered: new Set() });
    now.part = Math.max(0, Math.min(lesson.parts.length - 1, part));
    now.shown = shownBy(lesson)[now.part];
    now.asked = asked;
    if (now.race && !isShownRace(now.race)) now.race = null;
    view.panel.hidden = false;
    document.body.classList.add(OPEN);
    if (!own) note(lesson.name, "at", now.part);
    emit("lesson", own ? { lesson: null, part: null } : { lesson: lesson.name, part: now.part + 1 });
    uncover();
    frame(null);
    now.arriving = true;
    if (apply) showView();
    render();
    arrive();
    view.title.focus({ preventScroll: true });
  }

  function close() {
    if (!now.lesson) return;
    uncover();
    frame(null);
    Object.assign(now, { lesson: null, race: null });
    view.panel.hidden = true;
    document.body.classList.remove(OPEN);
    emit("lesson", { lesson: null, part: null });
    openList.focus();
  }

  const isShownRace = ({ source, title }) => (now.shown.race ? source === "recorded" && title === now.shown.race : source === "file" && title === now.shown.file);

  // Whether the page shows what the part is about.
  function isThere() {
    const { race, file, method, step } = now.shown;
    const on = now.screen;
    return Boolean(on) && (on.race ?? null) === (race ?? null) && (on.file ?? null) === (file ?? null) && (!method || on.method === method) && (!step || on.step === step);
  }

  function showView() {
    const { race, file, method, step, node, tab } = now.shown;
    const text = (value) => ((value ?? null) === null ? undefined : String(value));
    now.arriving = true;
    if (race && now.screen?.race !== race) emit("fill", race);
    emit("openView", { ...viewOf({ race: text(race), file: text(file), method: text(method), step: text(step), node: text(node), tab: tab ?? "draft", ...now.asked }), again: true });
  }

  // The view of the part is on screen: a moment of its search, what the part is about, and what is still to be predicted.
  function arrive() {
    if (!now.arriving || !now.lesson || !isThere() || !now.race || now.race !== now.seen) return;
    now.arriving = false;
    const { moment, panel, node } = now.shown;
    const selects = (now.asked.node ?? node ?? null) !== null;
    document.querySelector("[data-part='node-card']").dataset.open = String(selects);
    if (hides() && !now.answered.has(now.part)) {
      if (cover() && selects) showView(); // covering a step selects its root
    } else if ((moment ?? null) !== null) emit("moment", moment);
    if (panel) reveal(panel);
    else if (onSheet()) document.querySelector("[data-part='stage']").scrollIntoView({ block: "start" });
  }

  const hides = () => {
    const { exercise } = now.lesson.parts[now.part];
    return Boolean(exercise) && (exercise.kind === "path" || exercise.cover);
  };

  const asks = () => document.body.classList.contains(ASKS);

  // Returns whether the verification was not hidden before.
  function cover() {
    if (asks()) return false;
    document.body.classList.add(ASKS);
    emit("predict", true);
    return true;
  }

  function uncover() {
    if (!asks()) return;
    document.body.classList.remove(ASKS);
    emit("predict", false);
  }

  // The player has shown the verification, because the race is played or another one is on screen: it is hidden again when the step is back.
  function leave() {
    if (!asks()) return;
    document.body.classList.remove(ASKS);
    now.arriving = true;
  }

  function frame(place) {
    if (now.framed) toggleClass(now.framed, "ax-toured", false);
    now.framed = place;
    if (place) toggleClass(place, "ax-toured", true);
  }

  function reveal(name) {
    const place = document.querySelector(`[data-part="${CSS.escape(name)}"]`);
    if (!place) return;
    const section = place.closest("details");
    if (section) section.open = true;
    frame(place);
    if (!place.closest(onSheet() ? ".ax-dock" : "[data-part='stage'], .ax-dock")) place.scrollIntoView({ block: "start", behavior: reducedMotion() ? "auto" : "smooth" });
  }

  const context = () => ({ race: now.race, facts: now.lesson.facts, shown: now.shown });
  const fact = (name) => shownValue(resolved(name, context()), now.lesson.facts[name]);

  function onVerdict(right, over) {
    if (over || right) now.answered.add(now.part);
    if (right && !now.own) note(now.lesson.name, "solved", now.part);
    if (over || right) {
      uncover();
      done();
    }
    renderFoot();
  }

  function done() {
    if (!now.own) note(now.lesson.name, "done", now.part);
  }

  function render() {
    if (!now.lesson) return;
    const { lesson, part } = now;
    const { title, text, exercise, figure, ablation, reading } = lesson.parts[part];
    setText(view.name, spoken(lesson.title));
    setText(view.title, spoken(title));
    setText(view.count, say("lesson.count", { at: part + 1, of: lesson.parts.length }));
    const solved = !now.own && progressOf(lesson.name).solved.includes(part);
    now.parts = [exercise ? createExercise(exercise, { context, fact, onVerdict, node: () => now.screen?.node ?? null, there: isThere }, { solved, answered: now.answered.has(part) }) : null, figure ? createFigure(figure, context) : null].filter(Boolean);
    const words = el("div", { class: "ax-lesson-text" }, ...text.map((paragraph) => paragraphOf(paragraph, fact)));
    view.body.replaceChildren(words, view.away, ...now.parts.map(({ element }) => element), ...(ablation ? [offerAblation(onSheet)] : []), ...(reading.length ? [readingList(reading)] : []));
    view.body.scrollTop = 0;
    setText(view.back, say("lesson.back"));
    setText(view.list, say("lessons.open"));
    for (const button of [view.close, view.fold]) button.title = say(button.dataset.title);
    view.close.setAttribute("aria-label", say("lesson.close"));
    renderFold();
    renderFoot();
    refresh();
  }

  function renderFoot() {
    const { lesson, part } = now;
    const last = part === lesson.parts.length - 1;
    const open = lesson.parts[part].exercise && !now.answered.has(part);
    setText(view.next, say(last ? "lesson.end" : open ? "lesson.skip" : "lesson.next"));
    toggleClass(view.next, "ax-quiet", Boolean(open));
    view.back.disabled = part === 0;
    view.bar.style.width = `${(100 * (part + 1)) / lesson.parts.length}%`;
  }

  function renderFold() {
    const folded = view.panel.dataset.folded === "true";
    view.fold.setAttribute("aria-expanded", String(!folded));
    view.fold.setAttribute("aria-label", say("lesson.fold"));
  }

  // After another race, step or node is on screen.
  function refresh() {
    const away = !isThere() || !now.race;
    view.away.hidden = !away;
    const waits = now.shown.file && now.screen?.file !== now.shown.file;
    setText(view.awayText, waits ? say("lesson.file", { name: now.shown.file, open: { say: "control.open" } }) : say("lesson.away"));
    setText(view.show, say("lesson.show"));
    view.show.hidden = Boolean(waits);
    for (const part of now.parts) part.refresh();
  }

  view.next.addEventListener("click", () => {
    if (!now.lesson.parts[now.part].exercise || now.answered.has(now.part)) done();
    if (now.part < now.lesson.parts.length - 1) return open(now.lesson, now.part + 1, { own: now.own });
    close();
    return openList.open();
  });
  view.back.addEventListener("click", () => open(now.lesson, now.part - 1, { own: now.own }));
  view.list.addEventListener("click", openList.open);
  view.close.addEventListener("click", close);
  view.show.addEventListener("click", () => {
    now.asked = {};
    showView();
    arrive();
  });
  view.fold.addEventListener("click", () => {
    view.panel.dataset.folded = String(view.panel.dataset.folded !== "true");
    renderFold();
  });
  on("shown", ({ race }) => {
    if (race !== now.seen) leave();
    now.seen = race;
    if (!now.lesson || race === now.race || race.running || !isShownRace(race)) return;
    now.race = race;
    render();
    arrive();
  });
  on("view", (screen) => {
    const known = now.screen;
    now.screen = screen;
    if (!now.lesson || JSON.stringify({ ...known, settings: null }) === JSON.stringify({ ...screen, settings: null })) return;
    refresh();
    arrive();
  });
  on("action", (what) => what === "play" && leave());
  onLanguage(render);
  new MutationObserver(() => now.lesson && refresh()).observe(document.body, { attributes: true, attributeFilter: ["class"] }); // colours of the figure
  return { open, close, isOpen: () => now.lesson !== null };
}

function readingList(reading) {
  const entry = ({ title, arxiv, at }) => el("li", {}, title, el("span", { class: "ax-dim", text: [arxiv ? `arXiv ${arxiv}` : "", spoken(at)].filter(Boolean).join(" · ") }));
  return el("section", { class: "ax-lesson-reading" }, el("h4", { text: say("lesson.reading") }), el("ul", {}, ...reading.map(entry)));
}

function createView() {
  const button = (name, attributes = {}) => el("button", { type: "button", "data-part": `lesson-${name}`, ...attributes });
  const parts = {
    name: el("p", { class: "ax-lesson-name" }),
    count: el("span", { class: "ax-dim ax-num" }),
    title: el("h3", { id: "ax-lesson-title", tabindex: "-1" }),
    body: el("div", { class: "ax-lesson-body", tabindex: "0", role: "region", "aria-labelledby": "ax-lesson-title" }),
    fold: button("fold", { class: "ax-lesson-icon ax-lesson-fold", "data-title": "lesson.fold", text: "⌄" }),
    close: button("close", { class: "ax-lesson-icon", "data-title": "lesson.close", text: "✕" }),
    awayText: el("span"),
    show: button("show", { class: "ax-pill ax-small-pill" }),
    list: button("list", { class: "ax-lesson-quiet" }),
    back: button("back"),
    next: button("next", { class: "ax-lesson-next" }),
    bar: el("i"),
  };
  const away = el("p", { class: "ax-lesson-away", hidden: true }, parts.awayText, " ", parts.show);
  const head = el("div", { class: "ax-lesson-head" }, parts.name, parts.count, parts.fold, parts.close);
  const foot = el("div", { class: "ax-lesson-foot" }, parts.list, parts.back, parts.next);
  const progress = el("div", { class: "ax-lesson-progress", "aria-hidden": "true" }, parts.bar);
  const panel = el("aside", { class: "ax ax-lesson", "data-part": "lesson", "aria-labelledby": "ax-lesson-title", hidden: true }, head, progress, parts.title, parts.body, foot);
  document.body.append(panel);
  return { panel, away, ...parts };
}
