// The words: every language says everything, with the same values, and nothing on the page lacks words.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";

import { languages, onLanguage, say, sentences, setLanguage, wordsOf } from "../../assets/js/words.js";
import { tables } from "./words.js";

const read = (folder) => {
  const at = new URL(`../../${folder}/`, import.meta.url);
  return readdirSync(at, { recursive: true }).filter((name) => /\.(js|html|py)$/.test(name)).map((name) => readFileSync(new URL(name, at), "utf-8"));
};
const forms = (entry) => (typeof entry === "string" ? [entry] : Object.values(entry));
const values = (entry) => [...new Set(forms(entry).flatMap((form) => form.match(/\{\w+\}/g) || []))].sort();

test("every language has the same keys, each with values that the first one has too", () => {
  for (const [code, table] of Object.entries(tables)) {
    assert.deepEqual(Object.keys(table), Object.keys(tables.en), code);
    for (const [key, entry] of Object.entries(table)) {
      for (const value of values(entry)) assert.ok(values(tables.en[key]).includes(value), `${code} ${key} ${value}`);
      for (const form of forms(entry)) assert.ok(form.trim(), `${code} ${key}`);
      if (typeof entry !== "string") assert.ok(entry.other, `${code} ${key}`);
    }
  }
});

test("everything that the markup and the scripts say has words, and every word is said", () => {
  const [markup, scripts, python] = [read("assets/html"), read("assets/js"), read("ui")].map((texts) => texts.join("\n"));
  const named = [...markup.matchAll(/data-say(?:-label|-title)?="([^"]+)"/g)].map((found) => found[1]);
  const said = [...`${scripts}\n${python}`.matchAll(/\bsay\("([^"]+)"/g)].map((found) => found[1]);
  assert.ok(named.length > 60 && said.length > 60);
  for (const key of [...named, ...said]) assert.ok(key in tables.en, key);
  const families = [...`${scripts}\n${python}`.matchAll(/(?:`|f")([a-z]+\.)[^`"]*?\{/g)].map((found) => found[1]);
  const listed = [...scripts.matchAll(/wordsOf\("(\w+)"\)/g)].map((found) => `${found[1]}.`);
  for (const key of Object.keys(tables.en)) {
    const literal = [...named, ...said].includes(key) || `${scripts}${python}`.includes(`"${key}"`);
    assert.ok(literal || key === "language.name" || [...families, ...listed].some((family) => key.startsWith(family)), `${key} is never said`);
  }
  const terms = [...markup.matchAll(/data-term="([^"]+)"/g)].map((found) => found[1]);
  for (const term of terms) assert.ok(`term.${term}` in tables.en && `term.${term}.text` in tables.en, term);
});

test("values are put in once and stay text, whatever they hold", () => {
  assert.equal(say("quoted", { text: "{text} $& ${1}" }), "“{text} $& ${1}”");
  assert.equal(say("no.such.key"), "no.such.key");
});

test("a count chooses its form", () => {
  assert.equal(say("search.count", { count: 1 }), "1 simulation");
  assert.equal(say("search.count", { count: 2 }), "2 simulations");
  assert.equal(say("verdict.identical", { count: 3 }), "all three texts are identical");
  assert.equal(say("verdict.identical", { count: 9 }), "all 9 texts are identical");
});

test("another language is spoken from then on, an unknown one never", () => {
  const heard = [];
  onLanguage((code) => heard.push(code));
  setLanguage("xx");
  setLanguage("zh");
  assert.equal(say("time.play"), tables.zh["time.play"]);
  setLanguage("en");
  assert.deepEqual(heard, ["zh", "en"]);
  assert.deepEqual(languages()[0], { code: "en", name: "English" });
});

test("every method has an article with its paper, every term a meaning", () => {
  assert.ok(wordsOf("article").length >= 12 && wordsOf("term").length >= 18);
  for (const name of wordsOf("article")) for (const what of [".text", ".paper"]) assert.notEqual(say(`article.${name}${what}`), `article.${name}${what}`);
});

test("a blank parts Chinese from what is not Chinese, and from nothing else", () => {
  setLanguage("zh");
  const slower = (name) => say("verdict.slower.more", { name, ratio: "0.50" });
  assert.equal(slower("ADED"), "ADED 并不更快：0.50 倍");
  assert.equal(slower("提示查找"), "提示查找并不更快：0.50 倍");
  assert.equal(say("verdict.differs", { name: "提示查找", at: 3 }), "提示查找的文本从第 3 个词元起不同");
  assert.match(say("tour.moved", { step: 2, name: "提示查找" }), /的是提示查找的第 2 步/);
  setLanguage("en");
  assert.equal(slower("提示查找"), "提示查找 is not faster: 0.50 times");
});

test("sentences stand with a blank between, Chinese ones without, and empty ones nowhere", () => {
  assert.equal(sentences("One.", "", "Two."), "One. Two.");
  assert.equal(sentences("", "第一句。", "第二句。"), "第一句。第二句。");
  assert.equal(sentences(), "");
});

test("one is said as one", () => {
  for (const key of ["notice.methods", "notice.capped", "search.over"]) assert.doesNotMatch(say(key, { count: 1 }), /\b1 (new )?\w+s\b/, key);
  assert.match(say("notice.methods", { count: 7 }), /^7 methods are/);
});
