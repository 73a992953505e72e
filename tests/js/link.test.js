// Links: values of any kind are written and read back.

import assert from "node:assert/strict";
import test from "node:test";

import { asksServer, completed, extraFaults, faultsOf, otherRace, readLink, sameSettings, settingsOf, turnNote, viewOf, writeLink } from "../../assets/page/shell/link.js";

const HOSTILE = ["<img src=x onerror=alert(1)>", "a&b=c#d", "%00%zz", "漢 🙂", "${1+1}", "__proto__"];

test("a link is read back as it was written", () => {
  for (const value of HOSTILE) {
    const link = { race: value, method: "aded", step: "3", node: "0", theme: "dark", prompt: value };
    const text = writeLink(link);
    assert.doesNotMatch(text, /[<>"' ]/);
    assert.deepEqual(readLink({ search: "", hash: text }), link);
  }
  assert.equal(writeLink({ race: null, method: "", step: undefined }), "");
});

test("the hash overrides the query; both are read", () => {
  assert.deepEqual(readLink({ search: "?hide=controls&method=plain", hash: "#method=aded" }), { hide: "controls", method: "aded" });
});

test("a view counts steps from 0, and has null for invalid numbers", () => {
  assert.deepEqual(viewOf({ method: "aded", step: "12", node: "-1" }), { race: undefined, run: null, file: undefined, turn: null, method: "aded", step: 11, node: -1, bigram: null, tab: null, wrong: {} });
  assert.deepEqual(viewOf({ step: "x", node: "1.5", bigram: "a", tab: "other", method: "any" }).wrong, { step: "x", node: "1.5", bigram: "a", tab: "other" });
  assert.equal(viewOf({ tab: "verify" }).tab, "verify");
  assert.equal(viewOf({ tab: "other" }).tab, null);
  for (const text of ["", "x", "1.5", "1e9", "9".repeat(40)]) assert.equal(viewOf({ step: text }).step, null);
});

test("a link to a later turn says that its settings are those of the first", () => {
  const link = readLink({ search: "", hash: writeLink({ run: "0123456789abcdef", turn: 3, prompt: "a" }) });
  assert.deepEqual(turnNote(viewOf(link)), [["link.turn", { number: 3 }]]);
  assert.deepEqual(settingsOf(link), { prompt: "a" });
  for (const turn of ["1", "x", "-2", undefined]) assert.deepEqual(turnNote(viewOf({ turn })), []);
});

test("a bigram is two token ids, or null", () => {
  assert.equal(viewOf(readLink({ search: "", hash: writeLink({ bigram: "282 896" }) })).bigram, "282 896");
  for (const text of ["282", "282  896", "1 2 3", "-1 2", "a b", `1 ${"9".repeat(9)}`, "<b> 1"]) assert.equal(viewOf({ bigram: text }).bigram, null);
  assert.ok(!asksServer({ method: "aded", bigram: "282 896" }, "A"));
});

test("a link needs the server for another race or for settings, and for nothing else", () => {
  assert.ok(!asksServer({ method: "aded", step: "2", theme: "dark", hide: "controls", __theme: "dark" }, "A"));
  assert.ok(!asksServer({ race: "A", lang: "zh" }, "A"));
  assert.ok(asksServer({ race: "B" }, "A"));
  assert.ok(asksServer({ seed: "7" }, "A"));
  assert.ok(asksServer({ run: "0badcafe0badcafe" }, "A"));
  assert.ok(!asksServer({ run: "<b>" }, "A"));
});

test("missing parts of a link's view come from the first view, down to the first part that the link names", () => {
  const first = { race: "A", run: null, file: null, method: "aded", step: 24, node: 22, bigram: null };
  assert.deepEqual(completed({}, first), first);
  assert.deepEqual(completed({ seed: "7" }, first), { ...first, seed: "7" });
  assert.deepEqual(completed({ method: "plain" }, first), { race: "A", run: null, file: null, method: "plain" });
  assert.deepEqual(completed({ node: "3" }, first), { race: "A", run: null, file: null, method: "aded", step: 24, node: "3" });
  for (const link of [{ race: "B" }, { run: "1", step: "2" }, { file: "x.json" }]) assert.deepEqual(completed(link, first), link);
  assert.deepEqual(completed({ step: "2" }, null), { step: "2" });
});

test("two views are of different races only if a name of the race differs", () => {
  assert.ok(otherRace({ race: "A" }, { race: null, file: "A" }));
  assert.ok(otherRace({ run: "1" }, { run: "2" }));
  assert.ok(!otherRace({ race: "A", method: "plain" }, { race: "A", run: null, method: "aded" }));
});

test("settings are the parameters that belong neither to the view nor to the page nor to Gradio, in any order", () => {
  assert.deepEqual(settingsOf({ race: "A", file: "f", bigram: "1 2", lang: "zh", __theme: "dark", seed: "7", keep: "1" }), { seed: "7", keep: "1" });
  assert.ok(sameSettings({ a: "1", b: "2", step: "3" }, { b: "2", a: "1" }));
  assert.ok(!sameSettings({ a: "1" }, {}));
});

test("the ablation of a link is not one of its settings", () => {
  assert.ok(sameSettings({ seed: "5", ablation: "depth" }, { seed: "5" }));
  assert.ok(!sameSettings({ seed: "5", ablation: "depth" }, { seed: "6", ablation: "depth" }));
});

test("invalid values are reported one by one, and no others", () => {
  const wrong = { theme: "blue", lang: "xx", hide: "all", run: "<b>" };
  const named = faultsOf({ ...wrong, race: "A", method: "any", seed: "x" }, ["en", "zh"]);
  assert.deepEqual(named.map(([key, { value }]) => [key, value]), Object.entries(wrong).map(([name, value]) => [`link.${name}`, value]));
  assert.deepEqual(faultsOf({ theme: "dark", lang: "zh", hide: "controls", run: "1", step: "3", node: "-1", bigram: "1 2" }, ["en", "zh"]), []);
  assert.equal(faultsOf({ run: "x".repeat(1000) }, [])[0][1].value.length, 60);
  assert.deepEqual(faultsOf({ run: "deadbeef" }, [], false), [["link.run.alone", { value: "deadbeef" }]], "a page without a server has no button that starts a race");
});

test("a parameter that is there twice is reported, and without a server every setting", () => {
  const location = { search: "?utm=1&utm=2", hash: "#race=A&race=B&seed=5&foo=1" };
  assert.equal(readLink(location).race, "B");
  assert.deepEqual(extraFaults(location, true), [["link.twice", { value: "race" }]]);
  assert.deepEqual(extraFaults(location, false), [["link.twice", { value: "race" }], ["link.unused", { value: "seed, foo" }]]);
});
