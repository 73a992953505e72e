// Checks what assets/cards/whatif/sampling.js computes against a race and distributions that Python wrote: node resample.js <race> <cases>.
// Run by tests/ui/test_resampling.py.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

import { draw, recordedSettings, resample } from "../../assets/cards/whatif/sampling.js";
import { keyOf, uniform } from "../../assets/page/record/random.js";

const CLOSE = 1e-3; // relative: logits are recorded with five significant digits
const [race, cases] = process.argv.slice(2).map((path) => JSON.parse(readFileSync(path, "utf-8")));
const close = (value, expected, what, absolute = 1e-5) => assert.ok(Math.abs(value - expected) <= CLOSE * Math.abs(expected) + absolute, `${what}: ${value} and not ${expected}`);

for (const { seed, position, token, key, u } of cases.numbers) {
  assert.equal(keyOf(BigInt(seed), BigInt(position)), BigInt(key));
  assert.equal(uniform(BigInt(key), token), u);
}

// With the settings and the seed of the run, every number and every token is that of the record.
function checkRecorded(header, step, i, where) {
  const choice = step.choices[i];
  const made = resample(step, i, header, recordedSettings(header), BigInt(header.seed));
  assert.equal(made.token, choice.token, where);
  assert.ok(made.exact, where);
  assert.equal(made.accepted, step.path.length > i + 1 || (choice.rejection ? choice.rejection.residual_probability === null : choice.drafted), where);
  if (header.settings.temperature === 0) return;
  const p = (token) => made.items.find((item) => item.token === token)?.p;
  assert.equal(p(choice.token), choice.probability, `${where}: probability`);
  choice.top_tokens.forEach((token, k) => {
    assert.equal(p(token), choice.top_probabilities[k], `${where}: top ${k}`);
  });
  if (!choice.rejection) {
    assert.equal(uniform(keyOf(BigInt(header.seed), BigInt(step.position + 1 + i)), choice.token), choice.draw);
    return;
  }
  const { trials, tokens, residual } = choice.rejection;
  assert.deepEqual(made.tests.map(({ node, token, uniform: u, accepted }) => [node, token, u, accepted]), trials.map(({ node, token, uniform: u, accepted }) => [node, token, u, accepted]), where);
  trials.forEach((trial, k) => {
    const rounding = k ? 1e-4 : 1e-5; // p is a difference after a rejection
    for (const [name, unit] of [["p", 1], ["q", 1], ["ratio", trial.q]]) close(made.tests[k][name], trial[name], `${where}: ${name} of trial ${k}`, rounding / unit);
  });
  made.residual.forEach((item) => {
    if (tokens.includes(item.token)) close(item.p, residual[tokens.indexOf(item.token)], `${where}: residual of ${item.token}`, 1e-4);
  });
}

race.lanes.forEach(({ header, steps }, run) => {
  for (const step of steps) step.choices.forEach((_, i) => {
    checkRecorded(header, step, i, `run ${run}, step ${step.index}, choice ${i}`);
  });
});

// With other settings, the distribution is that of the engine, or bounds it.
let bounded = 0;
for (const { run, step: index, choice: i, settings, seed, probabilities, drawn } of cases.distributions) {
  const { header, steps } = race.lanes[run];
  const step = { ...steps[index], choices: steps[index].choices.map((one) => ({ ...one, rejection: null })) };
  const where = `run ${run}, step ${index}, choice ${i}, ${JSON.stringify(settings)}`;
  const made = resample(step, i, header, settings, BigInt(seed));
  const known = new Set(made.items.map(({ token }) => token));
  const rest = probabilities.reduce((sum, p, token) => sum + (known.has(token) ? 0 : p), 0);
  for (const { token, p } of made.items) {
    if (made.exact) close(p, probabilities[token], `${where}: p of ${token}`);
    else assert.ok(p <= probabilities[token] * (1 + CLOSE) + 1e-5, `${where}: lower bound of p of ${token}: ${p} and not ${probabilities[token]}`);
  }
  if (made.exact) close(made.others, rest, `${where}: others`);
  else assert.ok(made.others >= rest - CLOSE, `${where}: upper bound of others: ${made.others} and not ${rest}`);
  if (known.has(drawn)) assert.equal(made.token, drawn, where);
  else assert.ok(made.missed > 0, where);
  bounded += made.exact ? 0 : 1;
  assert.equal(draw(made.items.filter(({ p }) => p === 0), 1n), null);
}
assert.ok(bounded > 0 && bounded < cases.distributions.length, "exact and bounded distributions");
