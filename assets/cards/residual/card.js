// The draw of the correction or bonus token from the residual distribution, with all its numbers.

import { precise, residualDraw, residualText } from "../../page/record/acceptance.js";
import { el, namesById, setText } from "../../page/core/dom.js";
import { say } from "../../page/core/words.js";
import { offerExport, registerExport } from "../../page/export/exports.js";
import { shares } from "../../page/plot/shares.js";

const TESTED = ["p", "q", "excess", "residual", "u", "rate"]; // columns after a test
const CHANGED = ["p", "excess"]; // columns that contain the weight of the accepted prefix, or what earlier rejections have left of p
const UNTESTED = ["p", "u", "rate"]; // the residual distribution is p

export function mount({ part, subscribe }) {
  offerExport("residual", { group: "step", title: "residual.title", at: part("residual"), table: true });
  const views = part("verify-views");
  const show = (name) => {
    views.parentElement.dataset.shows = name;
    for (const button of views.children) button.setAttribute("aria-pressed", String(button.dataset.shows === name));
  };
  views.addEventListener("click", ({ target }) => target.dataset.shows && show(target.dataset.shows));
  show("walk");
  subscribe("quiet", ({ view }) => [view.recorded], ({ view }) => renderResidual(part, view.recorded, view.header));
}

export function renderResidual(part, step, header) {
  const draw = residualDraw(step, header);
  part("residual").hidden = part("verify-views").hidden = !draw;
  registerExport("residual", { place: () => draw && part("residual-rows"), table: () => residualTable(draw) });
  if (!draw) return;
  const tested = draw.tried > 0;
  const columns = tested ? TESTED : UNTESTED;
  const top = Math.max(...draw.rows.flatMap(({ p, q, residual }) => [p, q ?? 0, residual]));
  const kind = draw.weight !== 1 ? ".weighted" : draw.tried > 1 ? ".left" : "";
  const headOf = (name) => say(name === "rate" && !tested ? "residual.rate.p" : `residual.${name}${CHANGED.includes(name) ? kind : ""}`);
  setText(part("residual-title"), say(tested ? `residual.title${kind}` : "residual.title.bonus", { weight: precise(draw.weight) }));
  setText(part("residual-sentence"), residualText(draw));
  part("residual-keys").hidden = !tested;
  part("residual-head").replaceChildren(...["token", "bars", ...columns, "what"].map((name) => el("th", { text: headOf(name) })));
  const names = namesById(draw.rows.map(({ token }) => token), draw.rows.map(({ text }) => text));
  const others = { ...draw.others, token: null, u: null, rate: null };
  const rows = [...draw.rows, others].sort((a, b) => Boolean(b.drawn) - Boolean(a.drawn)); // the drawn token first
  part("residual-rows").replaceChildren(...rows.map((row) => rowOf(row, columns, top, tested, draw.kind, names)));
}

function rowOf(row, columns, top, tested, kind, names) {
  const { token, p, q, residual, drawn, rejected } = row;
  const what = drawn ? el("span", { class: "ax-target-word", text: say(`chip.${kind}`) }) : rejected ? el("span", { class: "ax-chip ax-chip-rejected", text: say("chip.rejected") }) : null;
  return el(
    "tr",
    { "data-chosen": drawn && "true" },
    el("td", {}, token === null ? say("residual.others") : el("code", { text: names.get(token) })),
    el("td", {}, token === null ? null : shares(tested ? { p, q, residual } : { p }, top)),
    ...columns.map((name) => el("td", { class: "ax-num", text: precise(row[name]) })),
    el("td", {}, what),
  );
}

function residualTable({ rows, others }) {
  const all = [...rows, { ...others, token: null, text: null, u: null, rate: null }];
  return [["token", "text", ...TESTED, "drawn"], ...all.map((row) => [row.token, row.text, ...TESTED.map((name) => row[name]), String(Boolean(row.drawn))])];
}
