// The matrix row of the selected bigram: its successors before and after the step.

import { el, fixed, namesById, rowsThatFit, setText, small } from "../../page/core/dom.js";
import { keysOf, say, sentences } from "../../page/core/words.js";
import { offerExport, registerExport } from "../../page/export/exports.js";
import { bigramText, changeCell, learns, nameOf, selectedRow, successors } from "../../page/record/bigrams.js";
import { runName } from "../../page/record/record.js";

const MOST = 16; // successors of the selected row

export function mount({ part, player, subscribe }) {
  offerExport("rows", { group: "matrix", title: "save.rows", at: part("matrix-card"), table: true });
  offerExport("matrix", { group: "matrix", title: "matrix.row", at: part("matrix"), picture: true, table: true });
  part("matrix-picker").addEventListener("change", (event) => player.selectBigram(event.target.value));
  part("bigram-clear").addEventListener("click", () => player.selectBigram(null));
  subscribe("quiet", ({ view }) => [learns(view.run), view.recorded], ({ view: { run, recorded } }) => {
    part("learn-none").hidden = learns(run);
    setText(part("learn-method"), learns(run) ? "" : learnedWithout(run, recorded));
  });
  subscribe("slow", ({ view, bigram, tab }) => [learns(view.run), view.recorded, bigram, tab, rowsThatFit(part("matrix-box"))], ({ race, view: { run, recorded, at }, bigram }) => {
    part("matrix-card").hidden = !learns(run);
    if (!learns(run)) return;
    const { row } = selectedRow(run.steps, at, bigram);
    part("bigram-clear").hidden = !bigram;
    renderPicker(part("matrix-picker"), recorded.rows, row);
    renderRow(part, row, recorded.rows.length);
    registerExport("rows", { place: () => part("matrix-card"), table: () => rowsTable(race) });
  });
}

// What a method without changed rows learns from a step, and what it updates.
export function learnedWithout({ label, header: { method } }, { emitted, budget }) {
  const values = { name: label, count: emitted.length };
  const known = keysOf("learns").includes(method);
  return sentences(say(known ? `learns.${method}` : "learns.none", values), budget.why.startsWith("automatic") && !budget.why.includes("sampled") ? say("learns.budget") : "");
}

// The rows that this step changed, and the selected one if it is another.
function renderPicker(picker, changed, known) {
  const rows = known && !known.now ? [known.row, ...changed] : changed;
  picker.replaceChildren(...rows.map((row) => el("option", { value: nameOf(row.key), text: bigramText(row.key_texts) })));
  picker.hidden = rows.length < 2;
  if (known) picker.value = known.name;
}

function renderRow(part, known, changed) {
  const all = known ? successors(known) : [];
  const top = Math.max(0.01, ...all.flatMap(({ weight, change }) => [weight, weight - change]));
  setText(part("matrix-key"), known ? say(known.now ? "matrix.after" : "matrix.still", { bigram: bigramText(known.row.key_texts) }) : say("matrix.unchanged"));
  const shown = all.slice(0, Math.min(MOST, rowsThatFit(part("matrix-box"))));
  const names = namesById(shown.map(({ token }) => token), shown.map(({ text }) => text), 14);
  part("matrix").replaceChildren(...shown.map((one) => successorRow(one, top, names)));
  const hidden = all.length - shown.length;
  setText(part("matrix-more"), sentences(hidden ? say("matrix.hidden", { count: hidden }) : "", changed > 1 ? say("matrix.rows", { count: changed }) : ""));
  const picture = () => [part("matrix-key"), part("matrix")];
  registerExport("matrix", { place: () => known && part("matrix"), picture, table: () => successorsTable(known) });
}

// All successors of a bigram, before and after the step; equal if the step did not change the row.
function successorsTable({ row, now }) {
  const rows = row.tokens.map((token, k) => [row.key_texts.join(""), token, row.texts[k], (now ? row.before : row.after)[k], row.after[k], row.learned?.[k]]);
  return [["bigram", "token", "text", "before", "after", "learned"], ...rows];
}

function successorRow({ token, weight, change }, top, names) {
  const [bar, mark] = [el("i", { class: "ax-before" }), el("i", { class: "ax-after" })];
  const before = weight - change;
  bar.style.width = `${(100 * before) / top}%`;
  mark.style.left = `${(100 * weight) / top}%`;
  const spoken = el("span", { class: "ax-sr", text: say("matrix.spoken", { before: small(before) }) });
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, el("code", { text: names.get(token) })),
    el("td", { class: "ax-track-cell" }, el("div", { class: "ax-track", "aria-hidden": "true" }, bar, mark)),
    el("td", { class: "ax-num" }, spoken, fixed(weight, 2)),
    changeCell(change),
  );
}

// Every row of the matrix that a step changed, one line per successor.
function rowsTable({ runs }) {
  const head = ["method", "step", "first", "second", "bigram", "token", "text", "before", "after", "learned"];
  const rows = runs.flatMap((run, i) =>
    run.steps.flatMap((step) =>
      step.rows.flatMap((row) =>
        row.tokens.map((token, k) => [runName(runs, i), step.index + 1, ...row.key, row.key_texts.join(""), token, row.texts[k], row.before[k], row.after[k], row.learned?.[k]]),
      ),
    ),
  );
  return [head, ...rows];
}
