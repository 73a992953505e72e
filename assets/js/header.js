// The head of the page: language, light and dark, and the address, which always describes what is on screen.

import { emit, on } from "./bus.js";
import { el, setText } from "./dom.js";
import { createLearning } from "./learn.js";
import { PLACE, asksServer, faultsOf, readLink, sameSettings, viewOf, writeLink } from "./link.js";
import { createLinkNote } from "./linknote.js";
import { recall, remember } from "./memory.js";
import { keepMarkup } from "./panels.js";
import { keepWorded, language, languages, onLanguage, say, setLanguage } from "./words.js";

const REST = 400; // milliseconds without a change before the address is written
const SHOWN = 2500; // milliseconds that "copied" is shown

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
  const told = () => ({ settings: {}, refused: [], ...JSON.parse(props.value || "{}") });
  const text = () => {
    const theme = document.body.classList.contains("dark") ? "dark" : "light";
    const hide = here.link.hide === "controls" ? here.link.hide : null;
    const url = new URL(window.location.href);
    url.search = url.hash = "";
    return url.href + writeLink({ ...(here.settings ?? told().settings), ...here.view, theme, lang: language(), hide });
  };

  // A link that names no race is one of the race that the page began with.
  function open() {
    const wanted = PLACE.some((name) => here.link[name]) ? here.link : { ...here.first, ...here.link };
    note.set(faultsOf(here.link, languages().map(({ code }) => code)));
    emit("show", { ...viewOf(wanted), again: here.opened });
    if (here.link.file && here.view?.file !== here.link.file) note.add([["link.file", { value: here.link.file, list: { say: "control.open" } }]]);
    const [asked, again] = [here.opened ? wanted : here.link, here.opened];
    here.opened = true;
    const foreign = [...new URLSearchParams(window.location.search).keys()];
    const news = again && sameSettings(told().settings, here.link) ? { race: asked.race } : asked;
    if (asksServer(news, here.view?.race) || (again && news === asked)) trigger("submit", { link: asked, again, foreign });
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
    return !window.location.hash || [...PLACE, "lane"].some((name) => (known[name] ?? null) !== (here.view[name] ?? null));
  }

  function write() {
    const next = text();
    if (!here.view || here.waits || untouched() || next === window.location.href) return;
    window.history[departs() ? "pushState" : "replaceState"](null, "", next);
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

  on("view", ({ settings, ...view }) => {
    Object.assign(here, { view, settings }); // of a run its own, whatever the controls say by now
    if (view.file && view.file === here.link.file) note.drop("link.file");
    if (!view.file) note.drop("link.copied.file");
    if (!view.run) note.drop("link.copied.run");
    if (here.waits && here.running === null) leave();
    else if (here.first) later();
    else here.first = view;
  });
  on("refused", note.add);
  watch("value", () => {
    note.add(told().refused);
    later();
  });
  onLanguage(later);
  window.addEventListener("popstate", () => {
    clearTimeout(here.timer);
    here.link = { ...readLink(window.location), hide: here.link.hide };
    here.waits = here.running !== null && here.link.run !== here.running;
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
