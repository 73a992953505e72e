// Numbers as text: never longer than a table cell, for any record.

import assert from "node:assert/strict";
import test from "node:test";

import { bytes, count, distinctNames, fixed, milliseconds, namesById, number, probability, rate, small, visible } from "../../assets/page/core/dom.js";

test("usual numbers have their decimals", () => {
  assert.deepEqual([small(0.1234), small(1.5), number(2.345), probability(0.5), probability(0.0001), fixed(7, 0)], ["0.123", "1.50", "2.35", "0.50", "<0.01", "7"]);
  assert.deepEqual([bytes(999), bytes(18_228_512), bytes(2.5e9), count(163718), rate(1021.4), rate(60.83)], ["999 B", "18.2 MB", "2.5 GB", "163,718", "1,021", "60.8"]);
  for (const say of [small, number, probability]) assert.deepEqual([say(null), say(undefined)], ["–", "–"]);
});

test("no finite number is longer than a cell, and infinite ones are shown as such", () => {
  for (const value of [1e308, -1e308, 5e-324, 1e21, 123456789012, -0.0004, Number.MAX_SAFE_INTEGER]) {
    for (const say of [small, number, probability, (v) => bytes(Math.abs(v)), (v) => count(Math.abs(v)), (v) => rate(Math.abs(v)), (v) => milliseconds(Math.abs(v))]) {
      assert.match(say(value), /\d/);
      assert.ok(say(value).length < 18, say(value));
    }
  }
  assert.deepEqual([fixed(Infinity, 2), fixed(-Infinity, 2)], ["∞", "−∞"]);
});

test("every space and every character without a picture is visible", () => {
  assert.deepEqual([" ", "\n", "\t", "\u00a0", "\u3000", "\u200d", "\u0301", "\ufe0f", ""].map((text) => visible(text)), ["␣", "⏎", "⇥", "⟨U+00A0⟩", "⟨U+3000⟩", "⟨U+200D⟩", "◌\u0301", "◌⟨U+FE0F⟩", "∅"]);
});

test("two tokens never have the same name", () => {
  const long = [" representation", " representative", " reproduction", "x".repeat(80), `${"x".repeat(80)}y`];
  const texts = ["<0xF0>", "<0x9F>", "a", "a", " ", "␣", "é", "e\u0301", "\n", "⏎", "a #3", "", "", ...long];
  const entries = texts.map((text, i) => ({ key: `node ${i}`, token: i, text, limit: 6 }));
  const names = [...distinctNames(entries).values()];
  assert.equal(new Set(names.map((name) => name.normalize("NFC"))).size, texts.length);
  assert.deepEqual(names.slice(0, 3), ["<0xF0>", "<0x9F>", "a #2"]);
});

test("tokens whose characters look alike have their ids", () => {
  const named = (...texts) => [...namesById(texts.map((_, i) => i), texts).values()];
  assert.deepEqual(named("сора", "copa", "x"), ["сора #0", "copa #1", "x"]);
  assert.deepEqual(named("–", "-", "—"), ["– #0", "- #1", "—"]);
  assert.deepEqual(named("ﬁ", "fi"), ["ﬁ #0", "fi #1"]);
});

test("one token has one name, however often it is there", () => {
  assert.deepEqual([...namesById([7, 8, 7], ["the", "The", "the"], 10)], [[7, "the"], [8, "The"]]);
});
