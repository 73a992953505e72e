// The page header: recorded races, language, theme, and the address, which always describes the view on screen.

import { createDrawer } from "../controls/drawer.js";
import { createEmbedCode, createEmbedded, isEmbedded } from "./embed.js";
import { emit, on } from "../core/events.js";
import { el, presenting, reducedMotion } from "../core/dom.js";
import { pageFiles } from "../core/files.js";
import { languages, wireLanguage } from "./languages.js";
import { createLearning } from "../learn/articles.js";
import { RACE, asksServer, completed, extraFaults, faultsOf, otherRace, readLink, sameSettings, turnNote, viewOf, writeLink } from "./link.js";
import { findRace, placeOnServer } from "../record/racehistory.js";
import { createLessons, followLesson } from "./lessons.js";
import { copyLink, createCopied, createLinkNote } from "./linknote.js";
import { closeMenu, closeMenusOutside } from "./menus.js";
import { loadItem, storeItem } from "../core/storage.js";
import { keepMarkup } from "../export/standalone.js";
import { createOtherRaces, createPresent } from "./present.js";
import { localize, language, onLanguage, sayOr } from "../core/words.js";

const REST = 400; // milliseconds without a change before the address is written
const ANSWER = 4000; // milliseconds to wait for the server's answer to a link; pages without a server never get one
const [OF_RACE, IN_RACE] = [["link.file", "link.race", "link.race.embed", "link.missing", "link.missing.embed", "link.gone", "link.turn"], ["link.partial", "link.view.method", "link.view.step", "link.view.node", "link.view.bigram", "link.view.tab"]]; // messages about the race that a link asks for, and about the view within it

const LIVE = ["link.copied.run", "link.copied.running", "link.copied.memory", "link.copied.none"]; // messages about the link of a live race that was copied

export function mountHeader(element, props, watch, trigger) {
  keepMarkup("header", element);
  const part = (name) => element.querySelector(`[data-part="${name}"]`);
  const note = createLinkNote(part);
  const sayCopied = createCopied(part("copied"));
  const address = createAddress(props, watch, trigger, note);
  wireTheme(part("theme"), address);
  wireLanguage(part("language"), trigger);
  createPresent(part("present"), address.link.hide === "controls", address.later);
  createOtherRaces(part("chips"), part("race-back"), part("race-next"));
  createChips(part, (pageFiles().races ?? []).filter(({ hidden }) => !hidden).map(({ title }) => title));
  if (isEmbedded(window.location, address.link)) createEmbedded(address.text, note.box);
  const controls = document.getElementById("ax-controls");
  if (controls) createDrawer(controls);
  closeMenu(part("more"));
  closeMenusOutside();
  for (const entry of element.querySelectorAll("[data-opens]")) entry.addEventListener("click", () => part(entry.dataset.opens).click());
  part("copy").addEventListener("click", () => copyLink(address, sayCopied, note));
  on("embedCode", (button) => createEmbedCode(button, address.text, withServer, { copied: () => sayCopied("embed.copied"), byHand: note.showLink }));
  createLearning(element);
  createLessons(part("lessons"), element.querySelectorAll("[data-opens='lessons'], [data-tool]"));
  localize(element);
  address.open();
}

function createAddress(props, watch, trigger, note) {
  const here = { link: readLink(window.location), view: null, first: null, settings: null, filled: null, opened: false, running: null, loading: false, waiting: false, following: 0, lesson: null, tool: null, timer: 0 };
  // count: of opened links; awaits: until when an answer is expected; replaces: the next address replaces the current one, unless the race of the current one was `shown`; said: a message about the next view was shown.
  const visit = { count: 0, awaits: 0, replaces: Boolean(window.location.hash), shown: false, said: false };
  const answer = () => ({ settings: {}, messages: [], ...JSON.parse(props.value || "{}") });
  const text = () => {
    const theme = document.body.classList.contains("dark") ? "dark" : "light";
    const hide = presenting() ? "controls" : null;
    const url = new URL(window.location.href);
    url.search = url.hash = "";
    url.pathname = url.pathname.replace(/\/embed$/, "/");
    return url.href + writeLink({ ...(here.settings ?? ownSettings()), ...here.view, theme, lang: language(), hide, ...here.lesson, ...here.tool });
  };

  // The settings of the controls, without those that a recorded race or a file has filled in.
  function ownSettings() {
    const { settings } = answer();
    return here.filled?.race === (here.view?.race ?? here.view?.file) && sameSettings(settings, here.filled.settings) ? {} : settings;
  }

  async function open() {
    const { link } = here;
    const wanted = completed(link, here.first);
    const { run } = viewOf(wanted);
    note.set([...faultsOf(here.link, languages().map(({ code }) => code), withServer()), ...extraFaults(window.location, withServer())]);
    const kept = run && !here.opened && withServer() ? await findRace(run) : null;
    if (here.link !== link) return; // another one was opened meanwhile
    emit("openView", { ...viewOf(wanted), text: kept?.lines, again: here.opened });
    visit.shown ||= kept !== null; // also if no run that drafts has a step yet, of which there is no view
    if (kept && kept.partial !== null) note.add([["link.partial", { count: kept.partial }], ...turnNote(viewOf(wanted))]);
    if (here.link.file && here.view?.file !== here.link.file) note.add([["link.file", { value: here.link.file, list: { say: "control.open" } }]]);
    if (run && run !== "1" && !here.opened && withServer() && kept === null) note.add([["link.gone", {}], ...turnNote(viewOf(wanted))]);
    const [asked, again] = [here.opened ? wanted : here.link, here.opened || kept !== null];
    here.opened = true;
    if (!isEmbedded(window.location, here.link)) follow(here.link);
    const foreign = [...new URLSearchParams(window.location.search).keys()];
    const request = again && sameSettings(answer().settings, here.link) ? { race: asked.race } : asked;
    if (asksServer(request, here.view?.race) || (again && request === asked)) {
      visit.awaits = performance.now() + ANSWER;
      trigger("submit", { link: asked, again, foreign, visit: ++visit.count });
    }
    later();
  }

  // The address is not written before the lesson of the link is open: it would name the lesson before.
  async function follow(link) {
    here.following += 1;
    await followLesson(link).finally(() => (here.following -= 1));
    later();
  }

  // Whether another race is on screen after that of the link.
  const left = () => visit.shown && otherRace(here.link, here.view);

  // Until the user selects something, a short address stays as it was typed, and so does one that asks for a live race or a file.
  function untouched() {
    const pending = here.link.run || here.link.file;
    return !left() && !here.lesson && !here.tool && (!window.location.hash || pending) && JSON.stringify(here.view) === JSON.stringify(here.first) && sameSettings(ownSettings(), here.link);
  }

  // Another race, run, part of a lesson or tool, and the first change of all, adds a history entry; another step or node replaces it.
  function addsHistory() {
    const address = readLink(window.location);
    const before = RACE.some((name) => address[name]) ? address : here.first;
    const turned = here.lesson && ["lesson", "part"].some((name) => (address[name] ?? null) !== (here.lesson[name] === null ? null : String(here.lesson[name])));
    return !window.location.hash || turned || (address.tool ?? null) !== (here.tool?.tool ?? null) || otherRace(before, here.view) || (before.method ?? null) !== (here.view.method ?? null);
  }

  function write() {
    visit.said = false;
    if (!here.view || here.waiting || here.loading || here.following || performance.now() < visit.awaits || untouched()) return;
    const [next, adds] = [text(), (!visit.replaces || left()) && addsHistory()];
    visit.replaces = false;
    if (isEmbedded(window.location, here.link)) return;
    if (next !== window.location.href) window.history[adds ? "pushState" : "replaceState"](null, "", next);
  }

  // After a live race that the user navigated away from has ended: keep it in the history, then open the link.
  function leave() {
    here.waiting = false;
    write();
    setTimeout(open, REST); // the server's last message about the race comes first
  }

  function later() {
    clearTimeout(here.timer);
    here.timer = setTimeout(write, REST);
  }

  // Messages about a race are removed when another race is shown.
  function forget(view) {
    if (here.view && otherRace(here.view, view)) note.drop(...OF_RACE, ...LIVE, "link.copied.file", ...(visit.said ? [] : IN_RACE));
    visit.said = false;
  }

  on("view", ({ settings, ...view }) => {
    forget(view);
    visit.shown ||= !otherRace(here.link, view);
    Object.assign(here, { view, settings }); // settings of the race on screen, not of the controls
    if (view.file && view.file === here.link.file) note.drop("link.file");
    if (here.waiting && here.running === null) leave();
    else later();
    here.first ??= view;
  });
  on("linkErrors", (messages) => {
    visit.said = true;
    note.add(messages);
  });
  watch("value", () => {
    visit.awaits = 0;
    const { filled, settings, messages } = answer();
    if (filled) here.filled = { race: filled, settings };
    note.add(messages);
    later();
  });
  on("lesson", (lesson) => {
    if (visit.replaces) write(); // the address that was opened, so that the next part is an entry of its own
    here.lesson = lesson;
    later();
  });
  on("tool", (tool) => {
    here.tool = tool;
    later();
  });
  on("loading", (title) => {
    here.loading = title !== null;
    if (here.loading) note.drop("link.missing", "link.missing.embed");
    later();
  });
  onLanguage(() => {
    note.drop("language.missing");
    later();
  });
  window.addEventListener("popstate", () => {
    clearTimeout(here.timer);
    here.link = { ...readLink(window.location), hide: here.link.hide };
    here.waiting = here.running !== null && here.link.run !== here.running;
    Object.assign(visit, { replaces: !here.waiting, shown: false });
    if (here.waiting) note.set([["link.waits", {}]]);
    else open();
  });
  on("running", (id) => {
    here.running = id;
    note.drop(...LIVE);
  });
  const warnings = () => [
    ...(here.view?.file ? [["link.copied.file", {}]] : []),
    ...(here.settings && !sameSettings(here.settings, answer().settings) ? [["link.copied.run", {}]] : []),
  ];
  // Messages on how long the link of a live race opens it.
  async function lasting() {
    const { run } = here.view ?? {};
    if (!run || !withServer()) return [];
    const place = here.running === run ? "running" : await placeOnServer(run);
    return place === null || place === "disk" ? [] : [[`link.copied.${place}`, {}], ...turnNote(here.view)];
  }
  // Returns a function that tells whether the race that is now on screen still is.
  function race() {
    const view = here.view ?? {};
    return () => !otherRace(view, here.view ?? {});
  }
  return { link: here.link, text, race, open, later, warnings, lasting };
}

// Whether this page has a server: a static site and a saved page have no controls.
const withServer = () => document.getElementById("ax-controls") !== null;

// The recorded races as chips; the one on screen is marked.
function createChips(part, titles) {
  const root = part("chips");
  const chips = titles.map((title) => el("button", { type: "button", class: "ax-pill", "data-race": title }));
  root.replaceChildren(...chips);
  root.hidden = !titles.length;
  const showEdges = createEdges(root, part("chips-back"), part("chips-more"));
  root.addEventListener("click", (event) => {
    const chip = event.target.closest("[data-race]");
    if (chip && chip.getAttribute("aria-disabled") !== "true") emit("raceChosen", chip.dataset.race);
  });
  const word = () => {
    for (const chip of chips) chip.textContent = sayOr(`title.${chip.dataset.race}`, chip.dataset.race);
    showEdges();
  };
  on("shown", ({ race }) => {
    for (const chip of chips) {
      const [was, is] = [chip.getAttribute("aria-pressed") === "true", race.source === "recorded" && race.title === chip.dataset.race];
      chip.setAttribute("aria-pressed", String(is));
      if (is && !was) reveal(root, chip);
    }
  });
  on("running", (id) => {
    for (const chip of chips) chip.setAttribute("aria-disabled", String(id !== null)); // the race in progress would replace the view again
  });
  localize(root, word);
  word();
}

const EDGE = 56; // pixels at the ends of the chips that may be below an arrow

// Scrolls the chips, never the page.
function reveal(root, chip) {
  const [box, own] = [root.getBoundingClientRect(), chip.getBoundingClientRect()];
  if (own.left < box.left + EDGE) root.scrollLeft += own.left - box.left - EDGE;
  else if (own.right > box.right - EDGE) root.scrollLeft += own.right - box.right + EDGE;
}

// The arrows over the ends of a row that is wider than its box. The returned function shows those that lead somewhere.
function createEdges(root, back, more) {
  const show = () => {
    back.hidden = root.scrollLeft < 2;
    more.hidden = root.scrollLeft + root.clientWidth > root.scrollWidth - 2;
  };
  for (const [button, direction] of [[back, -1], [more, 1]]) {
    button.addEventListener("click", () => root.scrollBy({ left: direction * 0.7 * root.clientWidth, behavior: reducedMotion() ? "auto" : "smooth" }));
  }
  root.addEventListener("scroll", show, { passive: true });
  new ResizeObserver(show).observe(root);
  return show;
}

function wireTheme(button, { link, later }) {
  const theme = ["light", "dark"].find((name) => name === link.theme) || (new URLSearchParams(window.location.search).get("__theme") ? null : loadItem("theme"));
  if (theme) document.body.classList.toggle("dark", theme === "dark");
  button.addEventListener("click", () => {
    storeItem("theme", document.body.classList.toggle("dark") ? "dark" : "light");
    later();
  });
}
