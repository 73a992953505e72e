// The history of a node over the simulations, and rejected drafts, on the bundled races.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { nodeFacts, targetFacts } from "../../assets/cards/node/card.js";
import { nodeHistory } from "../../assets/cards/node/history.js";
import { column } from "../../assets/page/record/record.js";
import { rejectedPath } from "../../assets/cards/runs/card.js";
import { canReplay, searchedStep } from "../../assets/page/record/search.js";
import "./words.js";

const race = JSON.parse(readFileSync(new URL("../../assets/traces/01-a-maths-teacher.json", import.meta.url), "utf-8"));
const { steps, header } = race.lanes.find((run) => run.header.method === "aded");
const settings = header.method_settings;
const step = steps.find((one) => canReplay(one, settings) && one.tree.tokens.length > 10);

test("the history of a node ends at the recorded visits and score, and visits never fall", () => {
  for (const node of step.tree.tokens.keys()) {
    const { visits, scores } = nodeHistory(step, node, settings);
    assert.equal(visits.length, step.simulations.length + 1);
    assert.equal(visits.at(-1), column(step.tree, "visits")[node]);
    for (const [i, count] of visits.slice(1).entries()) assert.ok(count - visits[i] === 0 || count - visits[i] === 1);
    const recorded = column(step.tree, "score")[node];
    if (node && scores.at(-1) !== null) assert.ok(Math.abs(scores.at(-1) - recorded) < 1e-4 * Math.max(1, recorded), `${scores.at(-1)} ${recorded}`);
  }
});

test("the history agrees with the replay of the search at every moment", () => {
  for (const k of [1, 3, 8]) {
    const seen = searchedStep(step, 4 * k, settings);
    for (const node of step.tree.tokens.keys()) assert.equal(nodeHistory(step, node, settings).visits[k], column(seen.tree, "visits")[node]);
  }
});

test("rejected tokens follow the last accepted node, and a step without a correction token has none", () => {
  let some = 0;
  for (const one of steps) {
    const nodes = rejectedPath(one);
    some += nodes.length > 0;
    for (const [i, node] of nodes.entries()) assert.equal(one.tree.parents[node], i ? nodes[i - 1] : one.path.at(-1));
    for (const node of nodes) assert.notEqual(one.tree.verdict[node], "accepted");
  }
  assert.ok(some > 5);
  assert.deepEqual(rejectedPath({ ...steps[0], origins: ["draft"] }), []);
});

test("the card says which numbers of the target are of the token and which of its choice after it", () => {
  const last = step.path.at(-1);
  const [[token, p], [after, entropy], ...rest] = nodeFacts({ ...step, tree: { ...step.tree, verdict: step.tree.tokens.map(() => "accepted"), reason: step.tree.tokens.map(() => "target chose it"), probability: step.tree.tokens.map(() => 0.5) } }, last, header).target;
  assert.deepEqual([token, after, rest], ["target, of this token", "target, of the choice after it", []]);
  assert.equal(p, "p 0.5000");
  assert.match(entropy, /^entropy \d\.\d\d(–\d\.\d\d)? bits( · fork)?$/);
  assert.deepEqual(targetFacts({ ...step, texts: step.emitted.map(String) }, header).target.map(([name]) => name), ["target, of this token"]);
});
