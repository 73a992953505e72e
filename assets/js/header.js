// The head of the page: language, light and dark, and the address, which always describes what is on screen.

import { emit, on } from "./bus.js";
import { el, setText } from "./dom.js";
import { createLearning } from "./learn.js";
import { PLACE, asksServer, completed, faultsOf, otherPlace, readLink, sameSettings, viewOf, writeLink } from "./link.js";
import { createLinkNote } from "./linknote.js";
import { recall, remember } from "./memory.js";
import { keepMarkup } from "./panels.js";
import { keepWorded, language, languages, onLanguage, say, setLanguage } from "./words.js";

const REST = 400; // milliseconds without a change before the address is written
const ANSWER = 4000; // and in which the server is to answer a link; a file, and a page whose server is gone, have none
const SHOWN = 2500; // milliseconds that "copied" is shown
const [OF_PLACE, IN_PLACE] = [["link.file", "link.race", "link.gone"], ["link.lane", "link.step", "link.node", "link.pair"]]; // what is said of a race that was asked for, and of the one on screen

export function mountHeader(element, props, watch, trigger) {
  keepMarkup("header", element);
  const part = (name) => element.querySelector(`[data-part="${name}"]`);
  const note = createLinkNote(part);
  const address = createAddress(props, watch, trigger, note);
  wireTheme(part("theme"), address);
  wireLanguage(part("language"), address.link.lang, trigger);
  document.body.classList.toggle("ax-hide-controls", address.link.hide === "controls");
  part("copy").addEventListener("click", () => copy(part("copied"), address, note));
  createLearning(element);
  keepWorded(element);
  address.open();
}

function createAddress(props, watch, trigger, note) {
  const here = { link: readLink(window.location), view: null, first: null, settings: null, opened: false, running: null, waits: false, timer: 0 };
  // Until when an answer to the address is awaited, whether it is to be written over as it came, and whether the view to come was spoken of.
  const visit = { count: 0, awaits: 0, follows: Boolean(window.location.hash), said: false };
  const told = () => ({ settings: {}, refused: [], ...JSON.parse(props.value || "{}") });
  const text = () => {
    const theme = document.body.classList.contains("dark") ? "dark" : "light";
    const hide = here.link.hide === "controls" ? here.link.hide : null;
    const url = new URL(window.location.href);
    url.search = url.hash = "";
    return url.href + writeLink({ ...(here.settings ?? told().settings), ...here.view, theme, lang: language(), hide });
  };

  function open() {
    const wanted = completed(here.link, here.first);
    note.set(faultsOf(here.link, languages().map(({ code }) => code)));
    emit("show", { ...viewOf(wanted), again: here.opened });
    if (here.link.file && here.view?.file !== here.link.file) note.add([["link.file", { value: here.link.file, list: { say: "control.open" } }]]);
    const [asked, again] = [here.opened ? wanted : here.link, here.opened];
    here.opened = true;
    const foreign = [...new URLSearchParams(window.location.search).keys()];
    const news = again && sameSettings(told().settings, here.link) ? { race: asked.race } : asked;
    if (asksServer(news, here.view?.race) || (again && news === asked)) {
      visit.awaits = performance.now() + ANSWER;
      trigger("submit", { link: asked, again, foreign, visit: ++visit.count });
    }
    later();
  }

  // Until something was chosen, the address stays as it was typed where it is short, or names what is still to come.
  function untouched() {
    const waiting = here.link.run || here.link.file;
    return (!window.location.hash || waiting) && JSON.stringify(here.view) === JSON.stringify(here.first) && sameSettings(told().settings, here.link);
  }

  // Another race or lane, and the first change of all, is something to come back to; a step or a node is not.
  function departs() {
    const before = readLink(window.location);
    const known = PLACE.some((name) => before[name]) ? before : here.first;
    return !window.location.hash || otherPlace(known, here.view) || (known.lane ?? null) !== (here.view.lane ?? null);
  }

  function write() {
    visit.said = false;
    if (!here.view || here.waits || performance.now() < visit.awaits || untouched()) return;
    const [next, leaves] = [text(), !visit.follows && departs()];
    visit.follows = false;
    if (next !== window.location.href) window.history[leaves ? "pushState" : "replaceState"](null, "", next);
  }

  // From a run that has ended, once it can be gone back to, to what was asked for meanwhile.
  function leave() {
    here.waits = false;
    write();
    setTimeout(open, REST); // what the server still has to say of the run comes first
  }

  function later() {
    clearTimeout(here.timer);
    here.timer = setTimeout(write, REST);
  }

  // What was said of another race goes with it.
  function forget(view) {
    if (here.view && otherPlace(here.view, view)) note.drop(...OF_PLACE, ...(visit.said ? [] : IN_PLACE));
    visit.said = false;
  }

  on("view", ({ settings, ...view }) => {
    forget(view);
    Object.assign(here, { view, settings }); // of a run its own, whatever the controls say by now
    if (view.file && view.file === here.link.file) note.drop("link.file");
    if (!view.file) note.drop("link.copied.file");
    if (!view.run) note.drop("link.copied.run");
    if (here.waits && here.running === null) leave();
    else later();
    here.first ??= view;
  });
  on("refused", (sayings) => {
    visit.said = true;
    note.add(sayings);
  });
  watch("value", () => {
    visit.awaits = 0;
    note.add(told().refused);
    later();
  });
  onLanguage(later);
  window.addEventListener("popstate", () => {
    clearTimeout(here.timer);
    here.link = { ...readLink(window.location), hide: here.link.hide };
    here.waits = here.running !== null && here.link.run !== here.running;
    visit.follows = !here.waits;
    if (here.waits) note.set([["link.waits", {}]]);
    else open();
  });
  on("running", (run) => {
    here.running = run;
    note.drop("link.copied.run");
  });
  const aside = () => [
    ...(here.view?.file ? [["link.copied.file", {}]] : []),
    ...(here.settings && !sameSettings(here.settings, told().settings) ? [["link.copied.run", {}]] : []),
  ];
  return { link: here.link, text, open, later, aside };
}

function wireTheme(button, { link, later }) {
  const theme = ["light", "dark"].find((name) => name === link.theme) || (new URLSearchParams(window.location.search).get("__theme") ? null : recall("theme"));
  if (theme) document.body.classList.toggle("dark", theme === "dark");
  button.addEventListener("click", () => {
    remember("theme", document.body.classList.toggle("dark") ? "dark" : "light");
    later();
  });
}

function wireLanguage(select, asked, trigger) {
  select.append(...languages().map(({ code, name }) => el("option", { value: code, text: name })));
  onLanguage((code) => {
    select.value = document.documentElement.lang = code;
    trigger("select", { language: code });
  });
  const known = languages().map(({ code }) => code);
  const own = document.body.classList.contains("ax-file") ? document.documentElement.lang : null; // that of the page it was saved from
  setLanguage([asked, own, recall("language"), (navigator.language || "").slice(0, 2)].find((code) => known.includes(code)));
  select.value = document.documentElement.lang = language();
  select.addEventListener("change", () => {
    remember("language", select.value);
    setLanguage(select.value);
  });
}

async function copy(status, address, note) {
  const text = address.text();
  try {
    await navigator.clipboard.writeText(text);
    setText(status, say("link.copied"));
  } catch {
    window.prompt(say("link.copy"), text);
  }
  note.add(address.aside());
  setTimeout(() => setText(status, ""), SHOWN);
}
