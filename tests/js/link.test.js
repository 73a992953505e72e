// Links: what is written is read again, whatever the values hold.

import assert from "node:assert/strict";
import test from "node:test";

import { asksServer, completed, faultsOf, otherPlace, readLink, sameSettings, settingsOf, viewOf, writeLink } from "../../assets/js/link.js";

const HOSTILE = ["<img src=x onerror=alert(1)>", "a&b=c#d", "%00%zz", "漢 🙂", "${1+1}", "__proto__"];

test("a link is read as it was written", () => {
  for (const value of HOSTILE) {
    const link = { race: value, lane: "aded", step: "3", node: "0", theme: "dark", prompt: value };
    const text = writeLink(link);
    assert.doesNotMatch(text, /[<>"' ]/);
    assert.deepEqual(readLink({ search: "", hash: text }), link);
  }
  assert.equal(writeLink({ race: null, lane: "", step: undefined }), "");
});

test("the hash goes before the query, both are read", () => {
  assert.deepEqual(readLink({ search: "?hide=controls&lane=plain", hash: "#lane=aded" }), { hide: "controls", lane: "aded" });
});

test("a view has steps from 0, and nulls where there is no whole number", () => {
  assert.deepEqual(viewOf({ lane: "aded", step: "12", node: "-1" }), { race: undefined, run: null, file: undefined, lane: "aded", step: 11, node: -1, pair: null });
  for (const text of ["", "x", "1.5", "1e9", "9".repeat(40)]) assert.equal(viewOf({ step: text }).step, null);
});

test("a pair is two ids of tokens, or none", () => {
  assert.equal(viewOf(readLink({ search: "", hash: writeLink({ pair: "282 896" }) })).pair, "282 896");
  for (const text of ["282", "282  896", "1 2 3", "-1 2", "a b", `1 ${"9".repeat(9)}`, "<b> 1"]) assert.equal(viewOf({ pair: text }).pair, null);
  assert.ok(!asksServer({ lane: "aded", pair: "282 896" }, "A"));
});

test("the server is asked for another race or for settings, and for nothing else", () => {
  assert.ok(!asksServer({ lane: "aded", step: "2", theme: "dark", hide: "controls", __theme: "dark" }, "A"));
  assert.ok(!asksServer({ race: "A", lang: "zh" }, "A"));
  assert.ok(asksServer({ race: "B" }, "A"));
  assert.ok(asksServer({ seed: "7" }, "A"));
  assert.ok(asksServer({ run: "0badcafe" }, "A"));
  assert.ok(!asksServer({ run: "<b>" }, "A"));
});

test("what a link leaves open is as the page began, down to the first thing that the link names", () => {
  const first = { race: "A", run: null, file: null, lane: "aded", step: 24, node: 22, pair: null };
  assert.deepEqual(completed({}, first), first);
  assert.deepEqual(completed({ seed: "7" }, first), { ...first, seed: "7" });
  assert.deepEqual(completed({ lane: "plain" }, first), { race: "A", run: null, file: null, lane: "plain" });
  assert.deepEqual(completed({ node: "3" }, first), { race: "A", run: null, file: null, lane: "aded", step: 24, node: "3" });
  for (const link of [{ race: "B" }, { run: "1", step: "2" }, { file: "x.json" }]) assert.deepEqual(completed(link, first), link);
  assert.deepEqual(completed({ step: "2" }, null), { step: "2" });
});

test("views are of different races where any name of a place differs, and nowhere else", () => {
  assert.ok(otherPlace({ race: "A" }, { race: null, file: "A" }));
  assert.ok(otherPlace({ run: "1" }, { run: "2" }));
  assert.ok(!otherPlace({ race: "A", lane: "plain" }, { race: "A", run: null, lane: "aded" }));
});

test("settings are what is neither of the view nor of the page nor Gradio's, in any order", () => {
  assert.deepEqual(settingsOf({ race: "A", file: "f", pair: "1 2", lang: "zh", __theme: "dark", seed: "7", keep: "1" }), { seed: "7", keep: "1" });
  assert.ok(sameSettings({ a: "1", b: "2", step: "3" }, { b: "2", a: "1" }));
  assert.ok(!sameSettings({ a: "1" }, {}));
});

test("which setting an ablation varies makes no other settings", () => {
  assert.ok(sameSettings({ seed: "5", ablation: "depth" }, { seed: "5" }));
  assert.ok(!sameSettings({ seed: "5", ablation: "depth" }, { seed: "6", ablation: "depth" }));
});

test("what the page cannot mean is named, value by value, and nothing else is", () => {
  const wrong = { theme: "blue", lang: "xx", hide: "all", run: "<b>", step: "x", node: "1.5", pair: "a" };
  const named = faultsOf({ ...wrong, race: "A", lane: "any", seed: "x" }, ["en", "zh"]);
  assert.deepEqual(named, Object.entries(wrong).map(([name, value]) => [`link.${name}`, { value }]));
  assert.deepEqual(faultsOf({ theme: "dark", lang: "zh", hide: "controls", run: "1", step: "3", node: "-1", pair: "1 2" }, ["en", "zh"]), []);
  assert.equal(faultsOf({ step: "x".repeat(1000) }, [])[0][1].value.length, 60);
});
