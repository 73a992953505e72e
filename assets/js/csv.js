// Tables of a race as comma-separated values (RFC 4180). Pure text.

import { PARTS, column, figures, laneName } from "./record.js";
import { slotsOf } from "./slots.js";

const FORMULA = /^[=+\-@\t\r]/; // what a spreadsheet would run

// A cell: quoted where it must be; text that a spreadsheet would run as a formula gets an apostrophe before it.
export function cell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return Number.isFinite(value) ? String(value) : "";
  const text = FORMULA.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function csv(rows) {
  return rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}

export function lanesTable({ lanes }) {
  const head = ["method", "label", "lossless", "tokens", "steps", "seconds", "tokens_per_second", "tokens_per_step", ...PARTS.map((p) => `${p}_seconds`)];
  const rows = lanes.map((lane) => {
    const now = figures(lane, lane.steps.length);
    const { method, label, lossless } = lane.header;
    return [method, label, String(lossless), now.tokens, now.passes, now.seconds, now.rate, now.perPass, ...PARTS.map((p) => now[p])];
  });
  return [head, ...rows];
}

export function stepsTable({ lanes }) {
  const head = ["method", "step", "position", "drafted", "accepted", "written", ...PARTS.map((p) => `${p}_seconds`), "text"];
  const rows = lanes.flatMap((lane, i) =>
    lane.steps.map((step) => {
      const counts = [step.index + 1, step.position, step.tree.tokens.length - 1, step.path.length - 1, step.emitted.length];
      return [laneName(lanes, i), ...counts, ...PARTS.map((p) => step.seconds[p]), step.texts.join("")];
    }),
  );
  return [head, ...rows];
}

// Every row of the matrix that a step changed, an entry a successor.
export function rowsTable({ lanes }) {
  const head = ["method", "step", "first", "second", "pair", "token", "text", "before", "after", "learned"];
  const rows = lanes.flatMap((lane, i) =>
    lane.steps.flatMap((step) =>
      step.rows.flatMap((row) =>
        row.tokens.map((token, k) => [laneName(lanes, i), step.index + 1, ...row.key, row.key_texts.join(""), token, row.texts[k], row.before[k], row.after[k], row.learned && row.learned[k]]),
      ),
    ),
  );
  return [head, ...rows];
}

export function nodesTable(step) {
  const { tree } = step;
  const columns = ["prior", "visits", "value", "score"];
  const head = ["node", "parent", "token", "text", "verdict", "reason", ...columns, "target_probability", "target_rank", "slot", "slot_after"];
  const { written, kept } = slotsOf(step);
  const after = new Map(kept.map(({ node, slot }) => [node, slot]));
  const rows = tree.tokens.map((token, i) => {
    const numbers = columns.map((name) => column(tree, name)[i]);
    return [i, tree.parents[i], token, tree.texts[i], tree.verdict[i], tree.reason[i], ...numbers, tree.probability[i], tree.rank[i], written[i].slot, after.get(i)];
  });
  return [head, ...rows];
}
