// What the theory of speculative decoding predicts, and what the runs of a race measured. Draws nothing.

import { speedUp } from "../lessons/values.js";
import { MAX_DEPTH, depthOf, expectedTokens, measured, throughputTable } from "../record/estimate.js";
import { plainRun, runStats } from "../record/record.js";

// The values of the calculator, as fields (page/controls/number.js) with the step of the slider and the value at first:
//   alpha: acceptance rate; gamma: draft length in tokens; c: draft time per token; v: time of a step without drafting, that is of verifying gamma + 1
//   tokens; both times relative to a step of plain decoding
export const FIELDS = [
  { name: "alpha", minimum: 0, maximum: 1, step: 0.01, first: 0.8, integer: false, blank: null },
  { name: "gamma", minimum: 1, maximum: MAX_DEPTH, step: 1, first: 5, integer: true, blank: null },
  { name: "c", minimum: 0, maximum: 1, step: 0.01, first: 0.05, integer: false, blank: null },
  { name: "v", minimum: 0.5, maximum: 5, step: 0.05, first: 1, integer: false, blank: null },
];

// One row per draft length from 0 to MAX_DEPTH: {depth, tokens, seconds, ratio}: expected tokens per step, the time of the step relative to one of
// plain decoding, and the speed-up. With v = 1 this is theorem 3.8 of Leviathan et al. (arXiv 2211.17192): (1 − α^(γ+1)) / ((1 − α)(cγ + 1)).
export function predictions({ alpha, c, v }) {
  return throughputTable({ alpha, nodesPerDepth: 1, overhead: v - 1, perDepth: c }, () => 1);
}

// The drafting runs of a race: {run, alpha, gamma, c, v, tokens, speed, theory: {tokens, speed}}. Gamma is the mean over all steps, also those
// without a draft, so that c · gamma + v is the mean time of a step. Without plain decoding in the race, c, v and the speed-ups are null.
export function measuredRuns(race) {
  const plain = plainRun(race);
  const step = plain ? runStats(plain, plain.steps.length).seconds / plain.steps.length : null;
  return race.runs.flatMap((run) => {
    const found = measured(run);
    return found ? [withTheory({ run, alpha: found.alpha, speed: speedUp({ race, run }), ...costs(run, step) })] : [];
  });
}

function costs(run, step) {
  const { steps, draft, verify, commit, update, perStep } = runStats(run, run.steps.length);
  const drafted = run.steps.reduce((sum, { tree }) => sum + depthOf(tree), 0);
  return { gamma: drafted / steps, tokens: perStep, c: step && draft / drafted / step, v: step && (verify + commit + update) / steps / step };
}

function withTheory(found) {
  const { alpha, gamma, c, v } = found;
  const tokens = expectedTokens(alpha, gamma);
  return { ...found, theory: { tokens, speed: c === null ? null : tokens / (c * gamma + v) } };
}
