// The message below the buttons: beside which race it is shown, and when it is closed.

import assert from "node:assert/strict";
import test from "node:test";

import "./document.js";
import "./words.js";
import { mountNotice } from "../../assets/page/controls/notice.js";
import { emit, on } from "../../assets/page/core/events.js";

const part = () => Object.assign(document.createElement("div"), { dataset: {}, hidden: true, classList: { contains: () => false, toggle() {} }, firstElementChild: { style: {} } });
const [box, text, meter, button] = Array.from({ length: 4 }, part);
const parts = { ".ax-notice": box, "[data-part='text']": text, "[data-part='meter']": meter, "[data-part='close']": button };
const props = { value: "" };
let changed = null; // called when the server sends another value
mountNotice({ querySelector: (selector) => parts[selector], querySelectorAll: () => [] }, props, (_, listener) => (changed = listener), true);

function send(kind, messages, race = null) {
  props.value = JSON.stringify({ kind, messages, fraction: null, race });
  changed();
}

const show = (id) => emit("shown", { race: { id } });

test("the end of a race is said beside this race only", () => {
  show("first");
  send("info", [["notice.stopped", {}]], "first");
  assert.equal(box.hidden, false);
  show("second");
  assert.equal(box.hidden, true);
  show("first");
  assert.equal(box.hidden, false);
  send("info", [["notice.forgotten", {}]]);
  show("second");
  assert.equal(box.hidden, false);
});

test("an error is closed when what it asks for was done, and shown again when it happens again", () => {
  send("error", [["notice.methods", { count: 0 }]]);
  emit("corrected", ["notice.prompt"]);
  assert.equal(box.hidden, false);
  emit("corrected", ["notice.methods", "notice.few"]);
  assert.equal(box.hidden, true);
  send("busy", [["notice.waiting", {}]]);
  send("error", [["notice.methods", { count: 0 }]]);
  assert.equal(box.hidden, false);
});

test("large numbers are written as at the prompt", () => {
  send("error", [["notice.long", { count: 25_000, maximum: 20_000 }]]);
  assert.match(text.textContent, /has 25,000 characters, the maximum is 20,000;/);
  send("error", [["turn.long", { count: 952, maximum: 500 }]]);
  assert.match(text.textContent, /952 characters, the maximum is 500;/);
});

test("the page is told when the server begins and ends to be busy", () => {
  const told = [];
  on("busy", (busy) => told.push(busy));
  told.length = 0;
  send("busy", [["notice.waiting", {}]]);
  send("busy", [["notice.reading", {}]]);
  send("error", [["notice.prompt", {}]]);
  send("busy", [["notice.waiting", {}]]);
  emit("cut");
  assert.deepEqual(told, [true, false, true, false]);
});
