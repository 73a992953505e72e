// The cache of keys and values around the pass: the text's slots, the draft's behind them, and what compaction leaves of these.

import { count, el, setText, toggleClass, visible } from "./dom.js";
import { offer } from "./offers.js";
import { say } from "./words.js";

export const MOST = 96; // slots of a draft that are drawn one by one
const LONGEST = 14; // letters of a token

// Where each node lies. The pass writes node i behind the text, at slot position + i; the kept ones are then moved together.
export function slotsOf(step) {
  const start = step.position;
  const written = step.tree.tokens.map((_, node) => ({ node, slot: start + node }));
  const kept = step.path.slice(0, step.emitted.length).map((node, i) => ({ node, slot: start + i, from: start + node }));
  return { start, written, kept, free: written.length - kept.length };
}

// The cache as the pass left it and, once judged, as compaction did; `from` is the slot that an entry was moved from.
function slotsTable(step, judged) {
  const { written, kept } = slotsOf(step);
  const row = (when) => ({ node, slot: at, from = at }) => [when, at, from, node, step.tree.tokens[node], step.tree.texts[node]];
  return [["when", "slot", "from", "node", "token", "text"], ...written.map(row("before")), ...(judged ? kept.map(row("after")) : [])];
}

// The slots of a draft to be drawn: the first ones and all that are kept; {from, to} stands for the nodes that are left out there.
export function folded(written, kept, most = MOST) {
  const always = new Set(kept.map(({ node }) => node));
  const shown = [];
  for (const entry of written) {
    if (entry.node < most || always.has(entry.node)) shown.push(entry);
    else if (shown.length && "to" in shown[shown.length - 1]) shown[shown.length - 1].to = entry.node;
    else shown.push({ from: entry.node, to: entry.node });
  }
  return shown;
}

export function createSlots(part, { onHover, onPick }) {
  const nodeOf = (event) => {
    const cell = event.target.closest("[data-node]");
    return cell ? Number(cell.dataset.node) : null;
  };
  const rows = ["slots-before", "slots-after"].map(part);
  for (const row of rows) {
    row.addEventListener("click", (event) => nodeOf(event) !== null && onPick(nodeOf(event)));
    row.addEventListener("mouseover", (event) => onHover(nodeOf(event)));
    row.addEventListener("mouseleave", () => onHover(null));
  }

  function render(step, judged) {
    const { start, written, kept, free } = slotsOf(step);
    const text = () => slot("ax-slot-text", range(0, start), say("slots.text", { count: start }));
    const cells = folded(written, judged ? kept : []).map((entry) => ("to" in entry ? more(entry) : cell(step.tree, entry)));
    rows[0].replaceChildren(...(start ? [text()] : []), ...cells);
    const left = free ? [slot("ax-slot-free", range(start + kept.length, free), say("slots.free", { count: free }))] : [];
    rows[1].replaceChildren(...(judged ? [...(start ? [text()] : []), ...kept.map((entry) => cell(step.tree, entry)), ...left] : []));
    const moved = kept.filter(({ slot: now, from }) => now !== from).length;
    const values = { count: written.length, slots: range(start, written.length), kept: kept.length, moved };
    const picture = () => [part("slots-text"), ...rows.map((row) => row.parentElement)];
    offer("slots", { group: "step", title: "slots.title", place: () => rows[0], picture, table: () => slotsTable(step, judged) });
    setText(part("slots-text"), judged ? say(moved ? "slots.moved" : "slots.stay", values) : say("slots.written", values));
  }

  function select(node) {
    const holds = ({ dataset }) => node !== null && ("to" in dataset ? dataset.from <= node && node <= dataset.to : dataset.node === String(node));
    for (const each of rows.flatMap((row) => [...row.children])) toggleClass(each, "ax-picked", holds(each));
  }
  return { render, select };
}

function cell(tree, { node, slot: number, from = number }) {
  const token = el("code", { text: visible(tree.texts[node], LONGEST) });
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
