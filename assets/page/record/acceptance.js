// How the tokens of a step were accepted, as text: by rejection sampling, by typical acceptance, by one draw per node, or greedily.
// Draws nothing.

import { fixed, visible } from "../core/dom.js";
import { undraftedKind } from "./record.js";
import { say } from "../core/words.js";

const LISTED = 3; // most probable tokens in a sentence
const TESTED = 5; // most probable children of a node that typical acceptance tested

// Three decimals; fewer digits in scientific notation for smaller numbers.
export function precise(value) {
  return value > 0 && value < 0.0005 ? value.toExponential(1) : fixed(value, 3);
}

// "rejection", "typical", "draw" or "greedy"; "unrecorded" for a test of every child that a record of an older version lacks.
export function verificationKind({ tree, choices }, { lossless, method_settings: settings }) {
  if (choices.some(({ rejection }) => rejection)) return "rejection";
  if (choices.some(({ typical }) => typical)) return "typical";
  const drawn = choices.some(({ draw }) => draw !== null);
  const tested = !lossless || (drawn && settings.verification === "rejection");
  return tested && tree.tokens.length > 1 ? "unrecorded" : drawn ? "draw" : "greedy";
}

// The tests at a choice, a row per child: {node, accepted, p, q, numbers}; `numbers` are texts, in the order of the columns.
export function testsOf({ tree }, { rejection, typical }) {
  if (rejection) return rejection.trials.map((trial) => ({ ...trial, numbers: [...[trial.p, trial.q, trial.ratio].map(precise), comparison(trial.uniform, trial.accepted, trial.ratio)] }));
  const tests = typical.trials.map((trial) => ({ ...trial, accepted: tree.verdict[trial.node] === "accepted", numbers: [precise(typical.entropy), comparison(trial.p, !trial.typical, typical.threshold)] }));
  return tests.sort((a, b) => b.accepted - a.accepted || b.p - a.p).slice(0, TESTED);
}

// Two numbers and how they compare: "0.431 ≤ 0.520"; with more decimals if three do not tell them apart.
function comparison(value, below, limit) {
  const text = precise(value) === precise(limit) ? (number) => fixed(number, 6) : precise;
  return `${text(value)} ${below ? "≤" : ">"} ${text(limit)}`;
}

// Why a child of an accepted node was accepted or rejected; empty if the children were not tested one by one.
export function testText({ tree }, choice, node) {
  const record = choice?.rejection || choice?.typical;
  if (!record || tree.reason[node] === "cut at the end") return "";
  const trial = record.trials.find((one) => one.node === node);
  if (!trial) return say("why.untried");
  if (choice.typical) return say(`why.typical.${trial.typical ? tree.verdict[node] : "below"}`, { comparison: comparison(trial.p, !trial.typical, choice.typical.threshold) });
  return say(`why.rejection.${trial.accepted ? "accepted" : "rejected"}`, { comparison: comparison(trial.uniform, trial.accepted, trial.ratio), p: precise(trial.p), q: precise(trial.q) });
}

// The draw of the correction or bonus token from the residual distribution, in one sentence; empty if the step has none.
export function residualText({ tree, choices }) {
  const choice = choices.find(({ rejection }) => rejection && rejection.residual_probability !== null);
  if (!choice) return "";
  const { tokens, texts, residual, residual_probability: p, trials } = choice.rejection;
  const order = tokens.map((_, k) => k).sort((a, b) => residual[b] - residual[a]).slice(0, LISTED);
  const top = order.map((k) => `${visible(texts[k])} ${precise(residual[k])}`).join(", ");
  return say(`walk.residual.${undraftedKind(tree, choice.node)}`, { token: visible(choice.text), p: precise(p), top, count: trials.length });
}

// Why rejection sampling is lossless, with the numbers of the last child tried; empty without one.
export function losslessText({ tree, choices }) {
  const trials = choices.flatMap(({ rejection }) => rejection?.trials ?? []);
  const trial = trials[trials.length - 1];
  if (!trial) return "";
  const { p, q, ratio, rejection } = trial;
  const residual = rejection > 0 ? Math.max(0, p - q) / rejection : 0;
  const [share, rejected, part, sum] = [q * ratio, rejection, residual, p].map(precise);
  return say("walk.lossless", { token: visible(tree.texts[trial.node]), share, rejected, part, sum });
}

// The random number of a choice.
export function drawText({ draw }) {
  return say("walk.uniform", { draw: precise(draw) });
}
