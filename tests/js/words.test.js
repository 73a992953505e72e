// The texts: every language has all keys with the same values, and all keys of the page exist.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";

import { onLanguage, say, sayOr, sentences, keysOf, table } from "../../assets/page/core/words.js";
import { sources, speak, tables } from "./words.js";

const UI = new URL("../../ui/", import.meta.url);
// Terms of speculative decoding and tree search that the glossary must explain.
const FIELD = ["draft", "verif", "accept", "reject", "bonus token", "correction token", "acceptance rate", "mean acceptance length", "block efficiency", "residual distribution", "rejection sampling", "draft model", "target model", "tree attention", "candidate path", "kv cache", "prefill", "decode", "greedy", "temperature", "top-p", "lossless", "wall-clock speed-up", "puct", "prior", "visit count", "simulation", "selection", "expansion", "backpropagation", "llm representative"];
const forms = (entry) => (typeof entry === "string" ? [entry] : Object.values(entry));
const values = (entry) => [...new Set(forms(entry).flatMap((form) => form.match(/\{\w+\}/g) || []))].sort();

test("every language has the same keys, with values that English has too", () => {
  for (const [code, table] of Object.entries(tables)) {
    assert.deepEqual(Object.keys(table), Object.keys(tables.en), code);
    for (const [key, entry] of Object.entries(table)) {
      for (const value of values(entry)) assert.ok(values(tables.en[key]).includes(value), `${code} ${key} ${value}`);
      for (const form of forms(entry)) assert.ok(form.trim(), `${code} ${key}`);
      if (typeof entry !== "string") assert.ok(entry.other, `${code} ${key}`);
    }
  }
});

test("all keys in markup and scripts exist, and every key is used", () => {
  const [markup, scripts] = [/\.html$/, /\.js$/].map((kind) => [...sources(kind).values()].join("\n"));
  const python = readdirSync(UI, { recursive: true }).filter((name) => name.endsWith(".py")).map((name) => readFileSync(new URL(name, UI), "utf-8")).join("\n");
  const named = [...markup.matchAll(/data-say(?:-label|-title)?="([^"]+)"/g)].map((found) => found[1]);
  const said = [...`${scripts}\n${python}`.matchAll(/\bsay\("([^"]+)"/g)].map((found) => found[1]);
  assert.ok(named.length > 60 && said.length > 60);
  for (const key of [...named, ...said]) assert.ok(key in tables.en, key);
  const families = [...`${scripts}\n${python}`.matchAll(/(?:`|f")([a-z]+\.)[^`"]*?\{/g)].map((found) => found[1]);
  const listed = [...scripts.matchAll(/keysOf\("(\w+)"\)/g)].map((found) => `${found[1]}.`);
  for (const key of Object.keys(tables.en)) {
    const literal = [...named, ...said].includes(key) || `${scripts}${python}`.includes(`"${key}"`);
    assert.ok(literal || key === "language.name" || [...families, ...listed].some((family) => key.startsWith(family)), `${key} is never used`);
  }
  const terms = [...markup.matchAll(/data-term="([^"]+)"/g)].map((found) => found[1]);
  for (const term of terms) assert.ok(`term.${term}` in tables.en && `term.${term}.text` in tables.en, term);
});

test("values are inserted once and stay text", () => {
  assert.equal(say("quoted", { text: "{text} $& ${1}" }), "“{text} $& ${1}”");
  assert.equal(say("no.such.key"), "no.such.key");
});

test("a count selects its form", () => {
  assert.equal(say("search.count", { count: 1 }), "1 simulation");
  assert.equal(say("search.count", { count: 2 }), "2 simulations");
  assert.equal(say("verdict.identical", { count: 3 }), "all three texts are identical");
  assert.equal(say("verdict.identical", { count: 9 }), "all 9 texts are identical");
});

test("the language can be changed; only its table is used", () => {
  const heard = [];
  onLanguage((code) => heard.push(code));
  speak("zh");
  assert.equal(say("time.play"), tables.zh["time.play"]);
  assert.equal(table(), tables.zh);
  assert.equal(sayOr("no.such.key", "as it is"), "as it is");
  speak("en");
  assert.deepEqual(heard, ["zh", "en"]);
});

test("every method has an article with its paper, and the glossary has the field's terms", () => {
  assert.ok(keysOf("article").length >= 12 && keysOf("term").length >= 18);
  const terms = keysOf("term").map((name) => `${say(`term.${name}`)}. ${say(`term.${name}.text`)}`).join(" ").toLowerCase();
  for (const term of FIELD) assert.ok(terms.includes(term), term);
  for (const name of keysOf("article")) for (const what of [".text", ".paper"]) assert.notEqual(say(`article.${name}${what}`), `article.${name}${what}`);
});

test("there is a space between Chinese and other text, and nowhere else", () => {
  speak("zh");
  const needed = (name) => say("verdict.passes.more", { name, steps: 7 });
  assert.equal(needed("ADED"), "ADED 用了 7 次");
  assert.equal(needed("提示词查找"), "提示词查找用了 7 次");
  assert.equal(say("verdict.differs", { name: "提示词查找", at: 3 }), "提示词查找的文本从第 3 个词元起不同");
  assert.match(say("tour.moved", { step: 2, name: "提示词查找" }), /的是提示词查找的第 2 步/);
  speak("en");
  assert.equal(needed("提示词查找"), "提示词查找 needed 7");
});

test("sentences are joined by a space, Chinese ones without, and empty ones are dropped", () => {
  assert.equal(sentences("One.", "", "Two."), "One. Two.");
  assert.equal(sentences("", "第一句。", "第二句。"), "第一句。第二句。");
  assert.equal(sentences(), "");
});

test("the singular is used for one", () => {
  for (const key of ["notice.methods", "notice.capped", "search.over"]) assert.doesNotMatch(say(key, { count: 1 }), /\b1 (new )?\w+s\b/, key);
  assert.match(say("notice.methods", { count: 7 }), /^7 methods are/);
});
