// The texts of the page for tests.

import { readFileSync, readdirSync } from "node:fs";

import { setLabels } from "../../assets/page/record/enginetext.js";
import { setLanguage } from "../../assets/page/core/words.js";

const assets = new URL("../../assets/", import.meta.url);

// The texts of the files of the page and its cards whose names match, by path.
export function sources(pattern) {
  const names = ["page", "cards"].flatMap((part) => readdirSync(new URL(part, assets), { recursive: true }).map((name) => `${part}/${name}`));
  return new Map(names.filter((name) => pattern.test(name)).map((name) => [name, readFileSync(new URL(name, assets), "utf-8")]));
}

const tableOf = (code) => Object.assign({}, ...[...sources(new RegExp(`/${code}\\.json$`)).values()].map((text) => JSON.parse(text)));

export const tables = Object.fromEntries(["en", "zh"].map((code) => [code, tableOf(code)]));

export function speak(code) {
  setLanguage(code, tables[code]);
}

setLabels(Object.fromEntries(Object.entries(tables.en).flatMap(([key, text]) => (/^article\.[\w-]+$/.test(key) ? [[key.replace("article.", ""), text]] : []))));
speak("en");
