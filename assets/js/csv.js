// Tables of a race as comma-separated values (RFC 4180). Pure text.

import { PARTS, column, figures, laneName, possible, rankOf } from "./record.js";
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
        row.tokens.map((token, k) => [laneName(lanes, i), step.index + 1, ...row.key, row.key_texts.join(""), token, row.texts[k], row.before[k], row.after[k], row.learned?.[k]]),
      ),
    ),
  );
  return [head, ...rows];
}

// How many tokens each lane had written at the end of each of its steps.
export function curveTable({ lanes }) {
  const rows = lanes.flatMap((lane, i) => lane.ends.map((seconds, k) => [laneName(lanes, i), k + 1, seconds, lane.counts[k]]));
  return [["method", "step", "seconds", "tokens"], ...rows];
}

// The verification walk, with the most probable of what else the target held possible at each node.
export function walkTable({ tree, choices }) {
  const others = Math.max(0, ...choices.map((choice) => possible(choice).length));
  const head = ["place", "node", "after", "token", "text", "probability", "rank", "draw", "drafted"];
  for (let k = 1; k <= others; k++) head.push(`top_${k}_token`, `top_${k}_text`, `top_${k}_probability`);
  const rows = choices.map((choice, i) => {
    const { node, token, text, probability, rank, draw, drafted } = choice;
    const top = possible(choice).flatMap((other) => [other.token, other.text, other.p]);
    const none = new Array(3 * others - top.length).fill(null);
    return [i + 1, node, tree.texts[node], token, text, probability, rank, draw, String(Boolean(drafted)), ...top, ...none];
  });
  return [head, ...rows];
}

// What each node attends to beside the text: itself and its ancestors, the farthest first.
export function maskTable({ tree }) {
  const sees = [];
  for (const [node, parent] of tree.parents.entries()) sees.push([...(parent < 0 ? [] : sees[parent]), node]);
  return [["node", "token", "text", "sees"], ...sees.map((nodes, node) => [node, tree.tokens[node], tree.texts[node], nodes.join(" ")])];
}

// Two runs side by side; a lane that is in one alone has nothing of the other.
export function compareTable(before, now) {
  const names = ["tokens", "tokens_per_second", "times_plain", "tokens_per_step"];
  const numbers = (lane) => (lane ? [lane.tokens, lane.rate, lane.ratio, lane.perPass] : names.map(() => null));
  const labels = [...new Set([...now.lanes, ...before.lanes].map((lane) => lane.label))];
  const rows = labels.map((label) => [label, ...[before, now].flatMap((run) => numbers(run.lanes.find((lane) => lane.label === label)))]);
  return [["lane", ...["before", "now"].flatMap((run) => names.map((name) => `${run}_${name}`))], ...rows];
}

// A step's nodes; of one that the target has not judged, on screen, nothing that it says.
export function nodesTable(step) {
  const { tree } = step;
  const columns = ["prior", "visits", "value", "score"];
  const head = ["node", "parent", "token", "text", "verdict", "reason", ...columns, "target_probability", "target_rank", "slot", "slot_after"];
  const { written, kept } = slotsOf(step);
  const after = new Map(kept.map(({ node, slot }) => [node, slot]));
  const judged = !step.exists;
  const rows = tree.tokens.map((token, i) => {
    const numbers = columns.map((name) => column(tree, name)[i]);
    const verdict = judged ? [tree.verdict[i], tree.reason[i]] : [tree.verdict[i], null];
    const target = judged ? [tree.probability[i], rankOf(tree, i), written[i].slot, after.get(i)] : [null, null, written[i].slot, null];
    return [i, tree.parents[i], token, tree.texts[i], ...verdict, ...numbers, ...target];
  });
  return [head, ...rows];
}
