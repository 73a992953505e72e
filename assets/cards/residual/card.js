// The draw of the correction or bonus token from the residual distribution, with all its numbers.

import { precise, residualDraw, residualText } from "../../page/record/acceptance.js";
import { el, setText, visible } from "../../page/core/dom.js";
import { say } from "../../page/core/words.js";
import { registerExport } from "../../page/export/exports.js";
import { shares } from "../../page/plot/shares.js";

const TESTED = ["p", "q", "excess", "residual", "u", "rate"]; // columns after a test
const UNTESTED = ["p", "u", "rate"]; // the residual distribution is p

export function mount({ part, subscribe }) {
  subscribe("quiet", ({ view }) => [view.recorded], ({ view }) => renderResidual(part, view.recorded, view.header));
}

export function renderResidual(part, step, header) {
  const draw = residualDraw(step, header);
  part("residual").hidden = !draw;
  registerExport("residual", { group: "step", title: "residual.title", place: () => draw && part("residual-rows"), table: () => residualTable(draw) });
  if (!draw) return;
  const tested = draw.tried > 0;
  const columns = tested ? TESTED : UNTESTED;
  const top = Math.max(...draw.rows.flatMap(({ p, q, residual }) => [p, q ?? 0, residual]));
  setText(part("residual-title"), say(tested ? "residual.title" : "residual.title.bonus"));
  setText(part("residual-sentence"), residualText(draw));
  part("residual-keys").hidden = !tested;
  part("residual-head").replaceChildren(...["token", "bars", ...columns, "what"].map((name) => el("th", { text: say(name === "rate" && !tested ? "residual.rate.p" : `residual.${name}`) })));
  const others = { ...draw.others, text: null, u: null, rate: null };
  part("residual-rows").replaceChildren(...[...draw.rows, others].map((row) => rowOf(row, columns, top, tested, draw.kind)));
}

function rowOf(row, columns, top, tested, kind) {
  const { text, p, q, residual, drawn, rejected } = row;
  const what = drawn ? el("span", { class: "ax-target-word", text: say(`chip.${kind}`) }) : rejected ? el("span", { class: "ax-chip ax-chip-rejected", text: say("chip.rejected") }) : null;
  return el(
    "tr",
    { "data-chosen": drawn && "true" },
    el("td", {}, text === null ? say("residual.others") : el("code", { text: visible(text) })),
    el("td", {}, shares(tested ? { p, q, residual } : { p }, top)),
    ...columns.map((name) => el("td", { class: "ax-num", text: precise(row[name]) })),
    el("td", {}, what),
  );
}

function residualTable({ rows, others }) {
  const all = [...rows, { ...others, token: null, text: null, u: null, rate: null }];
  return [["token", "text", ...TESTED, "drawn"], ...all.map((row) => [row.token, row.text, ...TESTED.map((name) => row[name]), String(Boolean(row.drawn))])];
}
