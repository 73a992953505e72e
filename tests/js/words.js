// The texts of the page for tests.

import { readFileSync, readdirSync } from "node:fs";

import { setLabels } from "../../assets/js/enginetext.js";
import { setLanguage } from "../../assets/js/words.js";

const folder = new URL("../../assets/i18n/", import.meta.url);
export const tables = Object.fromEntries(
  ["en.json", ...readdirSync(folder).filter((name) => name !== "en.json")].map((name) => [name.split(".")[0], JSON.parse(readFileSync(new URL(name, folder), "utf-8"))]),
);

export function speak(code) {
  setLanguage(code, tables[code]);
}

setLabels(Object.fromEntries(Object.entries(tables.en).flatMap(([key, text]) => (/^article\.[\w-]+$/.test(key) ? [[key.replace("article.", ""), text]] : []))));
speak("en");
