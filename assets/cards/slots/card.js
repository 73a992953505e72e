// The KV cache around the forward pass: slots of the context, slots of the draft, and what remains after KV-cache compaction.

import { count, el, setText, toggleClass, visible } from "../../page/core/dom.js";
import { offerExport, registerExport } from "../../page/export/exports.js";
import { namesOfStep, slotsOf } from "../../page/record/record.js";
import { markedNode } from "../../page/record/stepview.js";
import { say, sentences } from "../../page/core/words.js";

const MAX_SLOTS = 96; // slots of a draft that are drawn individually
const LONGEST = 14; // maximum length of a token

// The cache after the forward pass and, once verified, after compaction; `from`: the slot that an entry was moved from.
function slotsTable(step, verified) {
  const { written, kept } = slotsOf(step);
  const row = (when) => ({ node, slot: at, from = at }) => [when, at, from, node, step.tree.tokens[node], step.tree.texts[node]];
  return [["when", "slot", "from", "node", "token", "text"], ...written.map(row("before")), ...(verified ? kept.map(row("after")) : [])];
}

// The slots of a draft to draw: the first ones and all that are kept; {from, to} replaces the nodes in between.
export function folded(written, kept, most = MAX_SLOTS) {
  const always = new Set(kept.map(({ node }) => node));
  const shown = [];
  for (const entry of written) {
    if (entry.node < most || always.has(entry.node)) shown.push(entry);
    else if (shown.length && "to" in shown[shown.length - 1]) shown[shown.length - 1].to = entry.node;
    else shown.push({ from: entry.node, to: entry.node });
  }
  return shown;
}

export function mount({ part, subscribe, hover, pick }) {
  offerExport("slots", { group: "step", title: "slots.title", at: part("slots-before"), picture: true, table: true });
  const nodeOf = (event) => {
    const cell = event.target.closest("[data-node]");
    return cell ? Number(cell.dataset.node) : null;
  };
  const rows = ["slots-before", "slots-after"].map(part);
  for (const row of rows) {
    row.addEventListener("click", (event) => nodeOf(event) !== null && pick(nodeOf(event)));
    row.addEventListener("mouseover", (event) => hover(nodeOf(event)));
    row.addEventListener("mouseleave", () => hover(null));
  }

  function render(step, verified) {
    const { start, written, kept, free } = slotsOf(step);
    const names = namesOfStep(step, LONGEST);
    const text = () => slot("ax-slot-text", range(0, start), say("slots.text", { count: start }));
    const cells = folded(written, verified ? kept : []).map((entry) => ("to" in entry ? more(entry) : cell(step.tree, entry, names)));
    rows[0].replaceChildren(...(start ? [text()] : []), ...cells);
    const left = free ? [slot("ax-slot-free", range(start + kept.length, free), say("slots.free", { count: free }))] : [];
    rows[1].replaceChildren(...(verified ? [...(start ? [text()] : []), ...kept.map((entry) => cell(step.tree, entry, names)), ...left] : []));
    const picture = () => [part("slots-text"), ...rows.map((row) => row.parentElement)];
    registerExport("slots", { place: () => rows[0], picture, table: () => slotsTable(step, verified) });
    setText(part("slots-text"), slotsText(step, verified));
  }

  function select(node) {
    const holds = ({ dataset }) => node !== null && ("to" in dataset ? dataset.from <= node && node <= dataset.to : dataset.node === String(node));
    for (const each of rows.flatMap((row) => [...row.children])) toggleClass(each, "ax-picked", holds(each));
  }
  subscribe("quiet", ({ view }) => [view.step], ({ view }) => render(view.step, !view.covered));
  subscribe("quiet", (state) => [state.view.step, markedNode(state)], (state) => select(markedNode(state)));
}

// What the forward pass wrote, and what compaction keeps of it once the draft is verified.
export function slotsText(step, verified = true) {
  const { start, written, kept } = slotsOf(step);
  const moved = kept.filter(({ slot: now, from }) => now !== from).length;
  const values = { count: written.length, slots: range(start, written.length), kept: kept.length, moved };
  if (!verified) return say("slots.written", values);
  return sentences(say(moved ? "slots.moved" : "slots.stay", values), step.path.length > kept.length ? say("slots.ended") : "");
}

function cell(tree, { node, slot: number, from = number }, names) {
  const token = el("code", { text: names.get(tree.tokens[node]) });
  const where = el("small", { text: from === number ? String(number) : `${number} ← ${from}` });
  return el("li", { class: `ax-slot ax-slot-${tree.verdict[node]}`, "data-node": node, title: visible(tree.texts[node], 200) }, where, token);
}

function slot(kind, where, text) {
  return el("li", { class: `ax-slot ${kind}` }, el("small", { text: where }), el("span", { text }));
}

function more({ from, to }) {
  const left = say("slots.more", { count: to - from + 1 });
  return el("li", { class: "ax-slot ax-slot-more", "data-from": from, "data-to": to }, el("small", { text: "…" }), el("span", { text: left }));
}

function range(first, length) {
  return length === 1 ? count(first) : `${count(first)}–${count(first + length - 1)}`;
}
