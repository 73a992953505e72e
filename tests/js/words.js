// The texts of the page for tests.

import { readFileSync, readdirSync } from "node:fs";

import { setTables } from "../../assets/js/words.js";

const folder = new URL("../../assets/i18n/", import.meta.url);
export const tables = Object.fromEntries(
  ["en.json", ...readdirSync(folder).filter((name) => name !== "en.json")].map((name) => [name.split(".")[0], JSON.parse(readFileSync(new URL(name, folder), "utf-8"))]),
);
setTables(tables);
