// Tables of a race as comma-separated values (RFC 4180). Pure text.

import { PARTS, column, runStats, runName, possible, rankOf } from "./record.js";
import { slotsOf } from "./slots.js";

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

export function runsTable({ runs }) {
  const head = ["method", "label", "lossless", "tokens", "steps", "seconds", "tokens_per_second", "tokens_per_step", ...PARTS.map((p) => `${p}_seconds`)];
  const rows = runs.map((run) => {
    const now = runStats(run, run.steps.length);
    const { method, label, lossless } = run.header;
    return [method, label, String(lossless), now.tokens, now.steps, now.seconds, now.rate, now.perStep, ...PARTS.map((p) => now[p])];
  });
  return [head, ...rows];
}

export function stepsTable({ runs }) {
  const head = ["method", "step", "position", "drafted", "accepted", "written", ...PARTS.map((p) => `${p}_seconds`), "text"];
  const rows = runs.flatMap((run, i) =>
    run.steps.map((step) => {
      const counts = [step.index + 1, step.position, step.tree.tokens.length - 1, step.path.length - 1, step.emitted.length];
      return [runName(runs, i), ...counts, ...PARTS.map((p) => step.seconds[p]), step.texts.join("")];
    }),
  );
  return [head, ...rows];
}

// Every row of the matrix that a step changed, one line per successor.
export function rowsTable({ runs }) {
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

// Number of tokens of each run after each of its steps.
export function curveTable({ runs }) {
  const rows = runs.flatMap((run, i) => run.ends.map((seconds, k) => [runName(runs, i), k + 1, seconds, run.counts[k]]));
  return [["method", "step", "seconds", "tokens"], ...rows];
}

// The walk of the verification, with the target's other most probable tokens at each node.
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

// The children that a verification tested, with the numbers of rejection sampling or typical acceptance.
export function testsTable({ tree, choices }) {
  const head = ["place", "after", "node", "token", "text", "p", "q", "uniform", "ratio", "entropy", "threshold", "accepted"];
  const rows = choices.flatMap(({ node: parent, rejection, typical }, i) =>
    (rejection ?? typical).trials.map(({ node, p, q, uniform, ratio, accepted }) => {
      const yes = String(accepted ?? tree.verdict[node] === "accepted");
      return [i + 1, tree.texts[parent], node, tree.tokens[node], tree.texts[node], p, q, uniform, ratio, typical?.entropy, typical?.threshold, yes];
    }),
  );
  return [head, ...rows];
}

// The nodes that each node attends to in addition to the context: its ancestors from the root on, and itself.
export function maskTable({ tree }) {
  const attended = [];
  for (const [node, parent] of tree.parents.entries()) attended.push([...(parent < 0 ? [] : attended[parent]), node]);
  return [["node", "token", "text", "attends_to"], ...attended.map((nodes, node) => [node, tree.tokens[node], tree.texts[node], nodes.join(" ")])];
}

// Two races side by side; cells of a run that only one of them has are empty.
export function compareTable(before, now) {
  const names = ["tokens", "tokens_per_second", "speedup", "tokens_per_step"];
  const numbers = (run) => (run ? [run.tokens, run.rate, run.ratio, run.perStep] : names.map(() => null));
  const labels = [...new Set([...now.runs, ...before.runs].map((run) => run.label))];
  const rows = labels.map((label) => [label, ...[before, now].flatMap((race) => numbers(race.runs.find((run) => run.label === label)))]);
  return [["run", ...["before", "now"].flatMap((race) => names.map((name) => `${race}_${name}`))], ...rows];
}

// The nodes of a step; the target's results are left out while they are hidden on screen.
export function nodesTable(step, term = "prior") {
  const { tree } = step;
  const columns = ["prior", "visits", "value", "score"];
  const head = ["node", "parent", "token", "text", "verdict", "reason", term.replace("-", "_"), ...columns.slice(1), "target_probability", "target_rank", "slot", "slot_after"];
  const { written, kept } = slotsOf(step);
  const after = new Map(kept.map(({ node, slot }) => [node, slot]));
  const verified = !step.exists;
  const rows = tree.tokens.map((token, i) => {
    const numbers = columns.map((name) => column(tree, name)[i]);
    const verdict = verified ? [tree.verdict[i], tree.reason[i]] : [tree.verdict[i], null];
    const target = verified ? [tree.probability[i], rankOf(tree, i), written[i].slot, after.get(i)] : [null, null, written[i].slot, null];
    return [i, tree.parents[i], token, tree.texts[i], ...verdict, ...numbers, ...target];
  });
  return [head, ...rows];
}
