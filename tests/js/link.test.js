// Links: what is written is read again, whatever the values hold.

import assert from "node:assert/strict";
import test from "node:test";

import { asksServer, readLink, viewOf, writeLink } from "../../assets/js/link.js";

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
  assert.deepEqual(viewOf({ lane: "aded", step: "12", node: "-1" }), { race: undefined, run: false, lane: "aded", step: 11, node: -1 });
  for (const text of ["", "x", "1.5", "1e9", "9".repeat(40)]) assert.equal(viewOf({ step: text }).step, null);
});

test("the server is asked for another race or for settings, and for nothing else", () => {
  assert.ok(!asksServer({ lane: "aded", step: "2", theme: "dark", hide: "controls", __theme: "dark" }, "A"));
  assert.ok(!asksServer({ race: "A", lang: "zh" }, "A"));
  assert.ok(asksServer({ race: "B" }, "A"));
  assert.ok(asksServer({ seed: "7" }, "A"));
});
