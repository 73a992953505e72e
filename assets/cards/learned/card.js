// What was learned from the step: whether the matrix is closer to the target after it, and which share of the row comes from session counts.

import { el, namesById, rowsThatFit, setText, small } from "../../page/core/dom.js";
import { say } from "../../page/core/words.js";
import { offerExport, registerExport } from "../../page/export/exports.js";
import { bigramText, learns, selectedRow, successors } from "../../page/record/bigrams.js";

const MOST = 12; // successors of the row

export function mount({ part, subscribe }) {
  offerExport("learned", { group: "matrix", title: "learned.title", at: part("learned-table"), picture: true, table: true });
  subscribe("quiet", ({ view }) => [learns(view.run), view.recorded], ({ view: { run, recorded } }) => {
    part("change-card").hidden = !learns(run);
    setText(part("change-sentence"), learns(run) ? changeText(recorded) : "");
  });
  subscribe("slow", ({ view, bigram, tab }) => [learns(view.run), view.recorded, bigram, tab, rowsThatFit(part("learned-table"))], ({ view: { run, at }, bigram }) => {
    if (learns(run)) renderLearnedShare(part, selectedRow(run.steps, at, bigram).row);
  });
}

// Whether the prediction of the matrix at the root is closer to the target after the step, or farther from it. It is the mixture over contexts of up
// to MAX_CONTEXT tokens (aded/ngram/representative.py), not the row of the bigram alone.
export function changeText({ agreement, agreement_after: after, rows }) {
  const [before, now] = [agreement, after ?? []].map((list) => list.find(({ who }) => who === "session")?.total_variation);
  if (!rows.length) return say("change.none");
  if (before === undefined || now === undefined) return say("change.unknown");
  const kind = small(before) === small(now) ? "same" : now < before ? "nearer" : "farther";
  return say(`change.${kind}`, { before: small(before), after: small(now) });
}

function renderLearnedShare(part, known) {
  const entries = known ? successors(known).filter(({ learned }) => learned !== null) : [];
  part("learned-table").hidden = !entries.length;
  setText(part("learned-key"), entries.length ? learnedSentence(known, entries) : say("learned.unknown"));
  const shown = entries.slice(0, Math.min(MOST, rowsThatFit(part("learned-table"))));
  const names = namesById(shown.map(({ token }) => token), shown.map(({ text }) => text), 14);
  part("learned-rows").replaceChildren(...shown.map((one) => learnedRow(one, Math.max(0.01, entries[0].weight), names)));
  const picture = () => [part("learned-key"), part("learned-rows").closest("table")];
  registerExport("learned", { place: () => part("learned-table"), picture, table: () => learnedTable(known, entries) });
}

function learnedTable({ row }, entries) {
  return [["bigram", "token", "text", "base", "learned"], ...entries.map(({ token, text, weight, learned }) => [row.key_texts.join(""), token, text, weight - learned, learned])];
}

// The share of the row's probability that comes from session counts.
export function learnedSentence({ row }, entries) {
  const sum = (of) => entries.reduce((total, one) => total + of(one), 0);
  const share = sum((one) => one.learned) / Math.max(1e-9, sum((one) => one.weight));
  return say("learned.sentence", { bigram: bigramText(row.key_texts), share: Math.round(100 * share) });
}

function learnedRow({ token, weight, learned }, top, names) {
  const segments = [["ax-share-learned", learned], ["ax-share-base", weight - learned]].map(([name, value]) => {
    const segment = el("i", { class: name });
    segment.style.width = `${(100 * value) / top}%`;
    segment.title = small(value);
    return segment;
  });
  const track = el("td", { class: "ax-track-cell" }, el("div", { class: "ax-split-track", "aria-hidden": "true" }, ...segments));
  const numbers = [weight - learned, learned].map((value) => el("td", { class: "ax-num", text: small(value) }));
  return el("tr", {}, el("th", { scope: "row" }, el("code", { text: names.get(token) })), track, ...numbers);
}
