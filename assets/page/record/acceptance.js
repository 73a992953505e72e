// How the tokens of a step were accepted, as text: by rejection sampling, by block verification, by typical acceptance, by one draw per node, or greedily.
// Draws nothing.

import { scientific, visible } from "../core/dom.js";
import { uniformAt } from "./random.js";
import { possible, undraftedKind } from "./record.js";
import { say, sentences } from "../core/words.js";

const LISTED = 6; // tokens of a residual distribution
const RIVALS = 2; // tokens that a draw is compared with
const TESTED = 5; // most probable children of a node that typical acceptance tested

// Four significant digits; very small and large numbers in scientific notation.
export function precise(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  if (!Number.isFinite(value)) return "∞";
  return value < 1e-6 || value >= 9999.5 ? scientific(value, 3) : value.toPrecision(4);
}

// "block", "rejection", "typical", "draw" or "greedy"; "unrecorded" for a test of every child that a record of an older version lacks.
export function verificationKind({ tree, choices, block }, { lossless, method_settings: settings }) {
  if (block) return "block";
  if (choices.some(({ rejection }) => rejection)) return "rejection";
  if (choices.some(({ typical }) => typical)) return "typical";
  const drawn = choices.some(({ draw }) => draw !== null);
  const tested = !lossless || (drawn && settings.verification === "rejection");
  return tested && tree.tokens.length > 1 ? "unrecorded" : drawn ? "draw" : "greedy";
}

// The tests of the prefixes of a chain, a row per drafted token: {node, p, q, w, numbers, accepted, passed}; `accepted`: whether the token is
// part of the text, perhaps because a longer prefix passed; w: the weight of the prefix before it.
export function prefixTests({ block, path }) {
  return block.tests.map((one, i) => ({ ...one, w: i ? block.tests[i - 1].weight : 1, accepted: path.includes(one.node), numbers: [one.p, one.q, one.weight, one.left].map(precise).concat(comparison(one.uniform, one.passed, one.passes)) }));
}

// The tests at a choice, a row per child: {node, accepted, p, q, numbers}; `numbers` are texts, in the order of the columns.
export function testsOf({ tree }, { rejection, typical }) {
  if (rejection) return rejection.trials.map((trial, k) => ({ ...trial, numbers: [k ? `p′ = ${precise(trial.p)}` : precise(trial.p), ...[trial.q, trial.ratio].map(precise), comparison(trial.uniform, trial.accepted, trial.ratio)] }));
  const tests = typical.trials.map((trial) => ({ ...trial, accepted: tree.verdict[trial.node] === "accepted", numbers: [precise(typical.entropy), comparison(trial.p, !trial.typical, typical.threshold)] }));
  return tests.sort((a, b) => b.accepted - a.accepted || b.p - a.p).slice(0, TESTED);
}

// Two numbers and how they compare: "0.4312 ≤ 0.5200"; with more digits if four do not tell them apart.
function comparison(value, below, limit) {
  const text = precise(value) === precise(limit) ? (number) => number.toPrecision(8) : precise;
  return `${text(value)} ${below ? "≤" : ">"} ${text(limit)}`;
}

// Why a child of an accepted node was accepted or rejected; empty if the children were not tested one by one.
export function testText({ tree, block, path }, choice, node) {
  if (block && node > 0 && tree.reason[node] !== "cut at the end") return prefixText(block, path, node);
  const record = choice?.rejection || choice?.typical;
  if (!record || tree.reason[node] === "cut at the end") return "";
  const trial = record.trials.find((one) => one.node === node);
  if (!trial) return say("why.untried");
  if (choice.typical) return say(`why.typical.${trial.typical ? tree.verdict[node] : "below"}`, { comparison: comparison(trial.p, !trial.typical, choice.typical.threshold) });
  return say(`why.rejection.${trial.accepted ? "accepted" : "rejected"}`, { comparison: comparison(trial.uniform, trial.accepted, trial.ratio), p: precise(trial.p), q: precise(trial.q) });
}

// Why a node was accepted or rejected, or that it is not verified yet; `step.exists`: the nodes of a moment of the search.
export function reasonText(step, node) {
  const { tree } = step;
  if (step.exists) return say("why.before");
  const parent = node ? visible(tree.texts[tree.parents[node]]) : "";
  const choice = step.choices.find((one) => one.node === tree.parents[node]);
  const chosen = choice ? say("quoted", { text: visible(choice.text) }) : say("why.another");
  return testText(step, choice, node) || say(`why.${tree.reason[node]}`, { parent, chosen });
}

function prefixText({ tests }, path, node) {
  const test = tests.find((one) => one.node === node);
  const kind = !path.includes(node) ? "rejected" : test.passed ? "accepted" : "longer";
  return say(`why.block.${kind}`, { comparison: comparison(test.uniform, test.passed, test.passes), weight: precise(test.weight) });
}

// −ln(u)/p, which the drawn token has smallest; null if the random number is unknown.
function waiting(u, p) {
  return u === null ? null : -Math.log(u) / p;
}

// The candidates of a draw from the target's distribution p, the drawn one first, then the most probable ones:
// {token, text, node (null if it was not drafted), p, u, rate: −ln(u)/p, drawn}.
export function candidatesOf(step, i, header) {
  const { tree, choices } = step;
  const choice = choices[i];
  const known = new Map(possible(choice).map((one) => [one.token, one]));
  tree.parents.forEach((parent, node) => {
    if (parent === choice.node) known.set(tree.tokens[node], { token: tree.tokens[node], text: tree.texts[node], p: tree.probability[node], node });
  });
  const drawn = { node: null, ...known.get(choice.token), token: choice.token, text: choice.text, p: choice.probability, u: choice.draw, drawn: true };
  const others = [...known.values()].filter(({ token, p }) => token !== choice.token && p > 0).sort((a, b) => b.p - a.p);
  const rivals = others.slice(0, RIVALS).map((one) => ({ node: null, ...one, u: uniformAt(header, step, i, one.token), drawn: false }));
  return [drawn, ...rivals].map((one) => ({ ...one, rate: waiting(one.u, one.p) }));
}

// The draw of the correction or bonus token from the residual distribution; null if the step has none.
//   kind: see `undraftedKind`; choice; tried: number of rejected children; u: the random number of the draw, null if it is not recorded;
//   weight: factor of p, 1 unless a chain was verified as a block
//   rows: {token, text, p, q, excess: max(0, p − q), residual, u, rate: −ln(u)/residual, drawn, rejected}; p and q are those of the last
//   test; without a test q and excess are null, and the residual distribution is p
//   others: p, q, excess and residual of all other tokens together
export function residualDraw(step, header) {
  if (step.block) return blockDraw(step, header);
  const i = step.choices.findIndex(({ rejection }) => rejection && rejection.residual_probability !== null);
  if (i < 0) return null;
  const choice = step.choices[i];
  const { trials } = choice.rejection;
  const test = trials[trials.length - 1] ?? null;
  const compared = { p: test?.top_p ?? choice.rejection.residual, q: test?.top_q ?? null, rejected: test?.token, whole: 1, left: test?.rejection };
  return { ...drawAmong(step, i, header, choice.rejection, compared), tried: trials.length, weight: 1 };
}

// The draw after block verification: of the correction token, p is multiplied by the weight of the accepted prefix.
function blockDraw(step, header) {
  const { block, tree, choices } = step;
  const i = choices.length - 1;
  const accepted = step.path.length - 1;
  if (tree.reason.includes("cut at the end")) return null;
  const corrects = block.q.length > 0;
  const compared = { p: block.p.map((p) => block.weight * p), q: corrects ? block.q : null, rejected: tree.tokens[accepted + 1], whole: block.weight, left: block.left };
  return { ...drawAmong(step, i, header, block, compared), tried: corrects ? 1 : 0, weight: block.weight };
}

function drawAmong(step, i, header, { tokens, texts, residual, residual_probability: chance }, { p, q, rejected, whole, left }) {
  const choice = step.choices[i];
  const all = tokens.map((token, k) => {
    const drawn = token === choice.token;
    const one = { p: p[k], q: q ? q[k] : null, residual: drawn ? chance : residual[k], u: drawn ? choice.draw : uniformAt(header, step, i, token) };
    return { token, text: texts[k], ...one, excess: q ? Math.max(0, one.p - one.q) : null, rate: waiting(one.u, one.residual), drawn, rejected: token === rejected };
  });
  const order = [...all].sort((a, b) => b.residual - a.residual || b.p - a.p);
  const rows = order.filter((row, k) => k < LISTED || row.drawn || row.rejected);
  const rest = (name, sum) => (rows[0][name] === null ? null : Math.max(0, rows.reduce((kept, row) => kept - row[name], sum)));
  const others = { p: rest("p", whole), q: rest("q", 1), excess: rest("excess", left), residual: rest("residual", 1) };
  return { kind: undraftedKind(step.tree, choice.node), choice, u: choice.draw, rows, others };
}

// That draw in one sentence; `draw`: of `residualDraw`.
export function residualText({ kind, choice, tried, u, rows }) {
  const { residual, rate } = rows.find(({ drawn }) => drawn);
  const number = u === null ? say("walk.residual.unrecorded") : say(tried ? "walk.residual.drawn" : "walk.residual.drawn.p", { u: precise(u), rate: precise(rate) });
  return sentences(say(`walk.residual.${kind}`, { token: visible(choice.text), p: precise(residual), count: tried }), number);
}

// Why the output follows p, with the numbers of the step; empty if there is nothing to add up. For rejection sampling the sum of the drawn
// token, or of the last child tried; for one draw per node the sum over the drafted children.
export function losslessText(step, header) {
  const kind = verificationKind(step, header);
  return kind === "rejection" ? rejectionSum(step) : kind === "draw" && !header.method_settings.verification ? childrenSum(step) : "";
}

function rejectionSum({ tree, choices }) {
  const choice = choices.findLast(({ rejection }) => rejection?.trials.length);
  if (!choice) return "";
  const { trials, tokens, residual_probability: drawn } = choice.rejection;
  const trial = trials[trials.length - 1];
  const k = tokens.indexOf(choice.token);
  const [p, q, text] = drawn === null ? [trial.p, trial.q, tree.texts[trial.node]] : [trial.top_p[k], trial.top_q[k], choice.text];
  const [share, excess] = [Math.min(p, q), Math.max(0, p - q)];
  const residual = trial.rejection > 0 ? excess / trial.rejection : 0;
  const values = { share, excess, rejected: trial.rejection, part: residual, sum: share + trial.rejection * residual };
  return say(trials.length > 1 ? "walk.lossless.left" : "walk.lossless", { token: visible(text), ...Object.fromEntries(Object.entries(values).map(([name, value]) => [name, precise(value)])) });
}

function childrenSum({ tree, choices }) {
  const choice = choices.findLast(({ node }) => tree.parents.includes(node));
  if (!choice) return "";
  const drafted = tree.probability.filter((_, node) => tree.parents[node] === choice.node);
  const sum = drafted.reduce((total, p) => total + (p ?? 0), 0);
  return say("walk.lossless.draw", { token: visible(tree.texts[choice.node]), count: drafted.length, sum: precise(sum) });
}

// The random number of a choice.
export function drawText({ draw }) {
  return say("walk.uniform", { draw: precise(draw) });
}
