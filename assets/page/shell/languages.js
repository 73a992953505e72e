// The languages of the page. The texts of a language are loaded when it is chosen.

import { el } from "../core/dom.js";
import { emit } from "../core/events.js";
import { pageFiles, setFiles, textOf } from "../core/files.js";
import { createLatest } from "../core/latest.js";
import { readLink } from "./link.js";
import { loadItem, storeItem } from "../core/storage.js";
import { language, onLanguage, setLanguage } from "../core/words.js";

const tables = new Map();
const ask = createLatest();
let opened = null;

// Code and native name of each language.
export function languages() {
  return pageFiles().languages;
}

// Reads the list of files and begins to load the language; the script calls it once, at its end.
export function loadLanguage() {
  setFiles(JSON.parse(document.querySelector("script[data-ax-files]").textContent));
  opened = chooseLanguage(preferred());
}

// Resolves when the first language is loaded; panels are drawn afterwards.
export function ready() {
  return opened;
}

// The language of the link, of an earlier visit or of the browser, whichever the page has; else the first one.
export function preferred() {
  const codes = languages().map(({ code }) => code);
  return [readLink(window.location).lang, loadItem("language"), (navigator.language || "").slice(0, 2), codes[0]].find((code) => codes.includes(code));
}

// Switches the language when its texts are loaded, unless another one was chosen meanwhile.
export async function chooseLanguage(code) {
  const isLatest = ask();
  const table = await tableOf(code);
  if (isLatest()) setLanguage(code, table);
}

async function tableOf(code) {
  const { file, table } = languages().find((language) => language.code === code);
  if (!tables.has(code)) tables.set(code, table ?? JSON.parse(await textOf(file)));
  return tables.get(code);
}

// The selection of the language; the page's server labels its widgets in it too.
export function wireLanguage(select, trigger) {
  const show = (code) => {
    select.value = document.documentElement.lang = code;
  };
  select.append(...languages().map(({ code, name }) => el("option", { value: code, text: name })));
  select.hidden = languages().length < 2;
  show(language());
  if (select.selectedIndex) trigger("select", { language: language() }); // Gradio's widgets start in the first language
  onLanguage((code) => {
    show(code);
    trigger("select", { language: code });
  });
  select.addEventListener("change", async () => {
    storeItem("language", select.value);
    await chooseLanguage(select.value).catch(() => emit("linkErrors", [["language.missing", {}]]));
    show(language());
  });
}
