// Tables as comma-separated values (RFC 4180). Pure text.

const FORMULA = /^[=+\-@\t\r]/; // what a spreadsheet would evaluate

// A cell, quoted if necessary; text that a spreadsheet would evaluate as a formula is prefixed with an apostrophe.
export function cell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return Number.isFinite(value) ? String(value) : "";
  const text = FORMULA.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function csv(rows) {
  return rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}
