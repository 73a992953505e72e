// The rows of the benchmark results: unpacked, filtered, sorted, and as a table to save. Draws nothing.

// The properties of a row that can be filtered, in the order of the filters.
export const FILTERS = ["set", "method", "model", "device", "decoding", "category"];
export const NUMBERS = ["tokens_per_step", "speedup", "tokens_per_second", "draft_ms", "verify_ms", "host_ms"];
export const SHOWN = ["label", "set", ...NUMBERS, "category", "questions", "decoding", "model", "device"]; // columns on the page
export const COLUMNS = [...SHOWN, "versions", "commit", "date"]; // columns of the saved table
export const FIRST = { category: "all" }; // what is chosen at first: the rows over all questions
const INTERVALS = ["tokens_per_step", "speedup"]; // numbers with a confidence interval
const UNTIMED = Object.fromEntries(["speedup", "speedup_interval", "tokens_per_second", "draft_ms", "verify_ms", "host_ms"].map((name) => [name, null])); // what times give

// All rows of assets/results.json (ui/bench_results.py), each with what its result set says: {set, label, method: without options, model, dtype,
// device, decoding: "greedy", "sampled" or "replayed", versions: text, commit, date, category, questions, numbers, intervals}. Times that mean
// nothing, because other work ran on the machine, are null (`reliable_times` false).
export function unpacked({ fields, sets }) {
  return sets.flatMap(({ name, rows, kind, settings, versions, ...about }) => {
    const decoding = kind === "recorded" ? "replayed" : settings.temperature ? "sampled" : "greedy";
    const software = Object.entries(versions).map((one) => one.join(" ")).join(", ");
    return rows.map((row) => {
      const found = Object.fromEntries(fields.map((field, i) => [field, row[i]]));
      return { ...found, ...(about.reliable_times === false ? UNTIMED : {}), ...about, set: name, decoding, versions: software, method: found.method.split(":")[0], variant: found.method };
    });
  });
}

// The values of a property that a row may have with the other filters as they are, in the order of their first row; null is a value too.
export function optionsOf(rows, name, chosen) {
  return [...new Set(filtered(rows, { ...chosen, [name]: undefined }).map((row) => row[name]))];
}

// The rows with all chosen values; a property that is not chosen is undefined.
export function filtered(rows, chosen) {
  const names = FILTERS.filter((name) => chosen[name] !== undefined);
  return rows.filter((row) => names.every((name) => row[name] === chosen[name]));
}

// The rows by a column; `down`: largest first. Rows without a value are last; equal ones keep their order. `text`: the shown text of a value.
export function sorted(rows, { by, down }, text = String) {
  if (!by) return rows;
  const sign = down ? -1 : 1;
  const compare = (a, b) => (typeof a === "number" ? a - b : text(a).localeCompare(text(b)));
  return [...rows].sort((one, other) => {
    const [a, b] = [one[by] ?? null, other[by] ?? null];
    return a === null || b === null ? (a === null) - (b === null) : sign * compare(a, b);
  });
}

// Filters and order as text for a link, null if they are those at first; a value that is null is empty.
export function writtenSelection({ chosen, order: { by, down } }) {
  const named = FILTERS.filter((name) => chosen[name] !== undefined).map((name) => [name, chosen[name] ?? ""]);
  const text = new URLSearchParams([...named, ...(by ? [[down ? "falling" : "rising", by]] : [])]).toString();
  return text === new URLSearchParams(FIRST).toString() ? null : text;
}

// Reads such a text into `chosen` and `order`, and returns the values that no row and no column has.
export function readSelection(rows, text, { chosen, order }) {
  const wrong = [];
  for (const name of FILTERS) delete chosen[name];
  order.by = null;
  for (const [name, value] of new URLSearchParams(text)) {
    const found = FILTERS.includes(name) ? rows.find((row) => (row[name] ?? "") === value) : null;
    if (found) chosen[name] = found[name];
    else if (["falling", "rising"].includes(name) && SHOWN.includes(value)) Object.assign(order, { by: value, down: name === "falling" });
    else wrong.push(value);
  }
  return wrong;
}

// The rows as a table, the header first.
export function rowsTable(rows) {
  const names = COLUMNS.flatMap((name) => (name === "label" ? ["method", "label"] : name === "model" ? ["model", "dtype"] : INTERVALS.includes(name) ? [name, `${name}_low`, `${name}_high`] : [name]));
  const cellOf = (row, name) => {
    const [, figure, end] = /^(.*)_(low|high)$/.exec(name) ?? [];
    if (figure) return row[`${figure}_interval`]?.[end === "low" ? 0 : 1] ?? null;
    return name === "method" ? row.variant : row[name];
  };
  return [names, ...rows.map((row) => names.map((name) => cellOf(row, name)))];
}
