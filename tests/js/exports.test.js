// Exports: tables of the page, and pictures of what is completely on screen.

import assert from "node:assert/strict";
import test from "node:test";

import { fileName } from "../../assets/page/export/save.js";
import { exportsOf, offerExport, pictureOf, registerExport, tableOf } from "../../assets/page/export/exports.js";

const element = (display, rects, role = null) => ({ isConnected: true, display, getClientRects: () => rects, getAttribute: () => role, parentElement: null });
const seen = element("block", [1]);
const hidden = element("none", []);
const inTab = { ...element("block", []), parentElement: element("none", [], "tabpanel") };
globalThis.getComputedStyle = ({ display, visibility }) => ({ display, visibility });
globalThis.document = { body: null };
const at = { ...seen, closest: () => null };
const inClosedTab = { ...inTab, closest: (what) => (what.includes("tabpanel") ? { hidden: true, dataset: { panel: "draft" } } : null) };
const inClosedSection = { ...seen, closest: (what) => (what.includes("section") ? { open: false, dataset: { section: "measure" } } : null) };
const entries = () => ["race", "step"].flatMap(exportsOf).map(({ name, picture, table, hint }) => [name, picture, table, hint]);
const table = () => [["head"], [1]];

test("the menu always has all entries; those that cannot be saved now have a reason", () => {
  offerExport("both", { group: "race", title: "a", at, picture: true, table: true });
  offerExport("closed", { group: "race", title: "b", at: inClosedSection, table: true });
  offerExport("undrawn", { group: "step", title: "d", at, picture: true, table: true });
  offerExport("unseen", { group: "step", title: "e", at, picture: true });
  offerExport("tab", { group: "step", title: "f", at: inClosedTab, picture: true, table: true });
  offerExport("gone", { group: "step", title: "f", at, table: true });
  offerExport("invisible", { group: "step", title: "f", at, table: true });
  offerExport("absent", { group: "step", title: "g", at: { ...inClosedTab, display: "none" }, table: true });
  registerExport("both", { place: () => seen, picture: () => [hidden, seen], table });
  registerExport("undrawn", { place: () => seen, picture: () => [seen, null], table });
  registerExport("unseen", { place: () => seen, picture: () => [hidden] });
  registerExport("tab", { place: () => inTab, picture: () => [inTab], table });
  registerExport("gone", { place: () => ({ ...seen, isConnected: false }), table }); // of another node
  registerExport("invisible", { place: () => ({ ...seen, visibility: "hidden" }), table }); // of a run with steps
  assert.deepEqual(entries(), [
    ["both", true, true, ""],
    ["closed", null, false, "save.why.section"],
    ["undrawn", false, true, "save.why.none"],
    ["unseen", false, null, "save.why.none"],
    ["tab", false, true, "save.why.tab"],
    ["gone", null, false, "save.why.none"],
    ["invisible", null, false, "save.why.none"],
    ["absent", null, false, "save.why.none"], // its card is not in this step, so opening the tab would not help
  ]);
  assert.deepEqual(tableOf("both"), [["head"], [1]]);
  assert.deepEqual(pictureOf("both"), { title: "a", parts: [hidden, seen] });
});

test("the file of a race has its title in its name, or the methods of a live race", () => {
  const runs = ["plain", "aded"].map((method) => ({ header: { method } }));
  const named = (title, file = "race.json") => fileName(file, { title, runs });
  assert.deepEqual(["A maths teacher", "", "race.json", "race-short-facts.json", "比赛 1", "../…"].map((title) => named(title)), ["race-a-maths-teacher.json", "race-plain-aded.json", "race-plain-aded.json", "race-short-facts.json", "race-比赛-1.json", "race.json"]);
  assert.equal(named("Counting", "race.html"), "race-counting.html");
  assert.equal(named("Counting", "race.csv"), "race.csv");
});

test("an export replaces an earlier one of the same name", () => {
  registerExport("both", { place: () => hidden, table: () => [] });
  assert.deepEqual(entries()[0], ["both", false, false, "save.why.none"]);
});
