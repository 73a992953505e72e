// The benchmark results as one table, with filters and sorting. The file with the rows is loaded when the table is first opened.

import { cited, el, number, setText } from "../core/dom.js";
import { emit } from "../core/events.js";
import { textOf } from "../core/files.js";
import { say, sayOr, sentences } from "../core/words.js";
import { csv } from "../export/csv.js";
import { download } from "../export/save.js";
import { createSheet } from "../learn/sheet.js";
import { engineText } from "../record/enginetext.js";
import { FILTERS, FIRST, NUMBERS, SHOWN, filtered, optionsOf, readSelection, rowsTable, sorted, unpacked, writtenSelection } from "./rows.js";

const MILLISECONDS = { draft_ms: 2, verify_ms: 2, host_ms: 2, tokens_per_second: 1 }; // decimals of numbers that differ from two
const SETTINGS = ["questions", "max_new_tokens", "budget", "temperature", "top_p", "repeat"]; // of a result set

// Returns {open(link), dialog}; `file` has the packed rows; a link may have the selected `rows` (rows.js).
export function createResults(file) {
  const chosen = { ...FIRST };
  const order = { by: null, down: true };
  let data = null; // {sets, rows}
  let view = null;
  const sheet = createSheet("tool-results", "tool.results", content);

  function content() {
    view = { filters: el("div", { class: "ax-tool-filters" }), count: el("p", { class: "ax-dim", role: "status", "data-part": "tool-count" }), table: el("table", { class: "ax-agree ax-tool-table", "data-part": "tool-table" }), how: el("div") };
    const save = el("button", { type: "button", class: "ax-pill", "data-part": "tool-csv", text: say("results.csv") });
    const reset = el("button", { type: "button", class: "ax-pill", "data-part": "tool-reset", text: say("results.reset") });
    save.addEventListener("click", () => data && download("results.csv", csv(rowsTable(shown()))));
    reset.addEventListener("click", () => {
      for (const name of FILTERS) delete chosen[name];
      Object.assign(chosen, FIRST);
      render();
    });
    view.filters.addEventListener("change", ({ target }) => choose(target));
    view.table.addEventListener("click", ({ target }) => target.closest("[data-by]") && sortBy(target.closest("[data-by]").dataset.by));
    if (data) render();
    const how = el("details", { class: "ax-tool-how" }, el("summary", { text: say("results.how") }), view.how);
    return [el("p", { class: "ax-dim", text: say("results.intro") }), view.filters, el("div", { class: "ax-tool-bar" }, view.count, reset, save), el("div", { class: "ax-wide ax-tool-scroll", tabindex: "0", role: "group", "aria-label": say("tool.results") }, view.table), how];
  }

  const shown = () => sorted(filtered(data.rows, chosen), order, (value) => textOfValue(order.by, value));

  function choose({ dataset, selectedIndex }) {
    const { name } = dataset;
    if (selectedIndex === 0) delete chosen[name];
    else chosen[name] = optionsOf(data.rows, name, chosen)[selectedIndex - 1];
    render(name);
  }

  // A column is sorted downwards first if it has numbers, then upwards, then not at all.
  function sortBy(by) {
    const first = NUMBERS.includes(by);
    if (order.by !== by) Object.assign(order, { by, down: first });
    else if (order.down === first) order.down = !first;
    else order.by = null;
    render();
    view.table.querySelector(`[data-by="${by}"]`)?.focus({ preventScroll: true });
  }

  function render(focused = null) {
    const rows = shown();
    view.filters.replaceChildren(...FILTERS.map((name) => filterOf(data.rows, name, chosen)));
    view.filters.querySelector(`[data-name="${focused}"]`)?.focus({ preventScroll: true });
    const sets = new Set(rows.map(({ set }) => set));
    const untimed = data.sets.filter(({ name, reliable_times: reliable }) => sets.has(name) && reliable === false).map(({ name }) => name);
    setText(view.count, sentences(say("results.count", { count: rows.length, of: data.rows.length }), untimed.length ? say("results.untimed", { sets: untimed.join(", ") }) : ""));
    // What all rows have in common is in the filters.
    const columns = SHOWN.filter((name) => chosen[name] === undefined);
    view.table.replaceChildren(headOf(columns, order), el("tbody", {}, ...rows.map((row) => rowOf(row, columns))));
    view.how.replaceChildren(...data.sets.filter(({ name }) => sets.has(name)).map(howOf));
    emit("tool", { tool: "results", rows: writtenSelection({ chosen, order }) });
  }

  // A link without a selection means the first one; without a link, the table is as it was left.
  async function open({ tool, rows = tool && new URLSearchParams(FIRST).toString() }) {
    sheet.open();
    emit("tool", { tool: "results" });
    try {
      if (!data) {
        const packed = JSON.parse(await textOf(file));
        data = { sets: packed.sets, rows: unpacked(packed) };
      }
    } catch {
      return setText(view.count, say("results.missing"));
    }
    if (!sheet.body.closest("dialog").open) return; // it was closed before its file had arrived
    const wrong = rows === undefined ? [] : readSelection(data.rows, rows, { chosen, order });
    render();
    if (wrong.length) setText(view.count, sentences(view.count.textContent, ...wrong.map((value) => say("results.unknown", { value: cited(value) }))));
  }
  return { open, dialog: sheet.body.closest("dialog") };
}

function filterOf(rows, name, chosen) {
  const values = optionsOf(rows, name, chosen);
  const select = el("select", { "data-name": name }, el("option", { text: say("results.any") }), ...values.map((value) => el("option", { selected: value === chosen[name], text: textOfValue(name, value) })));
  return el("label", {}, el("span", { text: say(`results.${name}`) }), select);
}

function headOf(columns, { by, down }) {
  return el("thead", {}, el("tr", {}, ...columns.map((name) => {
    const sort = name === by ? (down ? "descending" : "ascending") : null;
    const mark = el("span", { "aria-hidden": "true", class: "ax-tool-sort", text: sort ? (down ? "↓" : "↑") : "" });
    return el("th", { scope: "col", "aria-sort": sort, class: isNumber(name) ? null : "ax-left" }, el("button", { type: "button", "data-by": name }, say(`results.${name}`), mark));
  })));
}

const isNumber = (name) => NUMBERS.includes(name) || name === "questions";

function rowOf(row, columns) {
  return el("tr", {}, ...columns.map((name) => (name === "label" ? el("th", { scope: "row", text: nameOf(row) }) : cellOf(row, name))));
}

function cellOf(row, name) {
  if (!isNumber(name)) return el("td", { class: "ax-left", text: name === "model" && row.model ? `${row.model}, ${row.dtype}` : textOfValue(name, row[name]) });
  const value = row[name] ?? null;
  const text = value === null ? "–" : name === "questions" ? String(value) : `${number(value, MILLISECONDS[name] ?? 2)}${name === "speedup" ? "×" : ""}`;
  const interval = row[`${name}_interval`];
  return el("td", { class: "ax-num" }, text, interval && value !== 1 ? el("span", { class: "ax-dim ax-tool-interval", text: ` [${interval.map((end) => number(end)).join(", ")}]` }) : null);
}

// The method with its options in the user's language, from `name:option=value:option=value`; an unknown option is named by its key.
export function nameOf({ method, variant }) {
  const options = variant.split(":").slice(1).map((text) => {
    const [key, value] = text.split(/=(.*)/);
    return sayOr(`results.option.${key}.${value}`, null) ?? `${sayOr(`results.option.${key}`, key.replaceAll("_", " "))} ${value}`;
  });
  return options.length ? say("run.options", { method: textOfValue("method", method), options: options.join(say("results.comma")) }) : textOfValue("method", method);
}

// A value of a property in the user's language.
function textOfValue(name, value) {
  if (value === null || value === undefined) return name === "model" ? say("results.no-model") : "–";
  if (name === "method") return sayOr(`article.${value}`, sayOr(`results.method.${value}`, value));
  if (["decoding", "category"].includes(name)) return sayOr(`results.${name}.${value}`, value);
  return name === "device" ? engineText(value) : String(value);
}

// How a result set was measured.
export function howOf({ name, settings, command, versions, commit, date }) {
  const said = Object.entries(settings).map(([key, value]) => [key, value === "auto" ? say("results.auto") : value]);
  const facts = said.filter(([key]) => SETTINGS.includes(key)).map(([key, value]) => `${say(`results.${key}`)} ${value}`);
  const software = [...Object.entries(versions).map((one) => one.join(" ")), `${say("results.commit")} ${commit}`].join(", ");
  return el("section", {}, el("h4", { text: `${name} · ${date}` }), el("p", { class: "ax-dim", text: facts.join(" · ") }), el("p", { class: "ax-dim", text: software }), el("pre", { class: "ax-formula", text: command }));
}
