// The language of the page: which one is chosen first, and when its texts are loaded.

import assert from "node:assert/strict";
import test from "node:test";

import { setFiles } from "../../assets/page/core/files.js";
import { chooseLanguage, preferred } from "../../assets/page/shell/languages.js";
import { language, say } from "../../assets/page/core/words.js";

const asked = [];
const answers = new Map();
const page = { location: { search: "", hash: "" }, localStorage: { getItem: () => null } };

globalThis.window = page;
globalThis.fetch = (file) => {
  asked.push(file);
  return new Promise((resolve) => answers.set(file, (words) => resolve({ ok: words !== null, status: 404, text: async () => JSON.stringify(words) })));
};
Object.defineProperty(globalThis, "navigator", { value: { language: "zh-CN" } });
setFiles({ languages: ["en", "zh", "fr"].map((code) => ({ code, name: code, file: `${code}.json` })) });

test("the language of the link comes before that of an earlier visit, and this before the browser's", () => {
  assert.equal(preferred(), "zh");
  page.localStorage.getItem = (name) => (name === "aded-language" ? "fr" : null);
  assert.equal(preferred(), "fr");
  page.location.hash = "#lang=en";
  assert.equal(preferred(), "en");
  page.location.hash = "#lang=xx";
  assert.equal(preferred(), "fr");
});

test("texts are loaded once, when their language is chosen, and the last choice is kept", async () => {
  const [first, second] = [chooseLanguage("zh"), chooseLanguage("en")];
  answers.get("en.json")({ hello: "Hello" });
  await second;
  answers.get("zh.json")({ hello: "你好" });
  await first;
  assert.deepEqual([language(), say("hello")], ["en", "Hello"]);
  await chooseLanguage("zh");
  assert.deepEqual([language(), say("hello")], ["zh", "你好"]);
  assert.deepEqual(asked, ["zh.json", "en.json"]);
});

test("a language that cannot be loaded changes nothing and can be chosen again", async () => {
  const choice = chooseLanguage("fr");
  answers.get("fr.json")(null);
  await assert.rejects(choice);
  assert.equal(language(), "zh");
  const again = chooseLanguage("fr");
  answers.get("fr.json")({ hello: "Bonjour" });
  await again;
  assert.equal(say("hello"), "Bonjour");
});

test("a page can contain the texts of its language", async () => {
  setFiles({ languages: [{ code: "eo", name: "Esperanto", table: { hello: "Saluton" } }] });
  assert.equal(preferred(), "eo");
  await chooseLanguage("eo");
  assert.equal(say("hello"), "Saluton");
});
