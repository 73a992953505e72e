// The head of the page: language, light and dark, and the address, which always describes what is on screen.

import { emit, on } from "./bus.js";
import { el, setText } from "./dom.js";
import { createLearning } from "./learn.js";
import { asksServer, readLink, viewOf, writeLink } from "./link.js";
import { recall, remember } from "./memory.js";
import { keepMarkup } from "./panels.js";
import { keepWorded, language, languages, onLanguage, say, setLanguage } from "./words.js";

const REST = 400; // milliseconds without a change before the address is written
const SHOWN = 2500; // milliseconds that "copied" is shown

export function mountHeader(element, props, watch, trigger) {
  keepMarkup("header", element);
  const part = (name) => element.querySelector(`[data-part="${name}"]`);
  const address = createAddress(props, watch, trigger);
  wireTheme(part("theme"), address);
  wireLanguage(part("language"), address.link.lang, trigger);
  document.body.classList.toggle("ax-hide-controls", address.link.hide === "controls");
  part("copy").addEventListener("click", () => copy(part("copy"), part("copied"), address.text()));
  createLearning(element);
  keepWorded(element);
  address.open();
}

function createAddress(props, watch, trigger) {
  const here = { link: readLink(window.location), view: null, first: null, timer: 0 };
  const settings = () => JSON.parse(props.value || "{}");
  const text = () => {
    const theme = document.body.classList.contains("dark") ? "dark" : "light";
    const url = new URL(window.location.href);
    url.search = url.hash = "";
    return url.href + writeLink({ ...settings(), ...here.view, theme, lang: language(), hide: here.link.hide });
  };

  function open() {
    const wanted = { ...here.first, ...here.link };
    emit("show", viewOf(wanted));
    if (asksServer(here.first ? wanted : here.link, here.view && here.view.race)) trigger("submit", { link: wanted });
  }

  // Until something was chosen, the address stays as short as it was typed.
  const untouched = () => !window.location.hash && JSON.stringify(here.view) === JSON.stringify(here.first) && !Object.keys(settings()).length;

  function write() {
    const next = text();
    if (untouched() || next === window.location.href) return;
    const before = readLink(window.location);
    const another = here.view && ["race", "run", "lane"].some((name) => before[name] && before[name] !== here.view[name]);
    window.history[another ? "pushState" : "replaceState"](null, "", next);
  }

  function later() {
    clearTimeout(here.timer);
    here.timer = setTimeout(write, REST);
  }

  on("view", (view) => {
    here.view = view;
    if (here.first) later();
    else here.first = view;
  });
  watch("value", later);
  onLanguage(later);
  window.addEventListener("popstate", () => {
    clearTimeout(here.timer);
    here.link = { ...readLink(window.location), hide: here.link.hide };
    open();
  });
  return { link: here.link, text, open, later };
}

function wireTheme(button, { link, later }) {
  const theme = link.theme || (new URLSearchParams(window.location.search).get("__theme") ? null : recall("theme"));
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
  setLanguage([asked, recall("language"), (navigator.language || "").slice(0, 2)].find((code) => known.includes(code)));
  select.value = document.documentElement.lang = language();
  select.addEventListener("change", () => {
    remember("language", select.value);
    setLanguage(select.value);
  });
}

async function copy(button, status, text) {
  try {
    await navigator.clipboard.writeText(text);
    setText(status, say("link.copied"));
  } catch {
    window.prompt(say("link.copy"), text);
  }
  setTimeout(() => setText(status, ""), SHOWN);
}
