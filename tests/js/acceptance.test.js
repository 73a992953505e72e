// The verification of a step, right for each method: rejection sampling, typical acceptance, one draw per node, greedy.

import assert from "node:assert/strict";
import test from "node:test";

import { drawText, losslessText, precise, prefixTests, residualDraw, residualText, testText, testsOf, verificationKind } from "../../assets/page/record/acceptance.js";
import { nodeFacts, targetFacts } from "../../assets/cards/node/card.js";
import { nodesTable } from "../../assets/cards/nodes/card.js";
import { renderResidual } from "../../assets/cards/residual/card.js";
import { renderWalk, testsTable } from "../../assets/cards/walk/card.js";
import { keyOf, uniform } from "../../assets/page/record/random.js";
import { priorTerm } from "../../assets/page/record/record.js";
import { parts } from "./document.js";
import { speak } from "./words.js";

const header = (changes = {}) => ({ lossless: true, seed: 3, method_settings: { verification: "rejection" }, ...changes });

// The root's first child is rejected, its second accepted; the only child of that one is rejected. Three tokens: a, b, c.
const TREE = {
  tokens: [9, 0, 1, 2, 0],
  parents: [-1, 0, 0, 0, 2],
  texts: ["·", " a", " b", " c", " a"],
  columns: {},
  probability: [null, 0.2, 0.5, 0.3, 0.1],
  rank: [null, 3, 1, 2, 3],
  verdict: ["root", "rejected", "accepted", "rejected", "rejected"],
  reason: ["root", "target chose a sibling", "target chose it", "target chose a sibling", "target chose an undrafted token"],
};
const trial = (node, p, q, uniform, rejection) => ({ node, token: TREE.tokens[node], p, q, uniform, ratio: Math.min(1, p / q), accepted: uniform <= p / q, rejection, top_p: [0.2, 0.7, 0.1], top_q: [0.3, 0.1, 0.6] });
const choice = (node, token, changes) => ({ node, token, text: [" a", " b", " c"][token], probability: 0.5, rank: 1, drafted: true, top_tokens: [], top_texts: [], top_probabilities: [], draw: 0.4, rejection: null, typical: null, ...changes });
const STEP = {
  position: 7,
  tree: TREE,
  path: [0, 2],
  emitted: [1, 2],
  origins: ["draft", "target"],
  choices: [
    choice(0, 1, { rejection: { trials: [trial(1, 0.2, 0.8, 0.9, 0.6), trial(2, 0.6, 0.1, 0.7, 0.5)], tokens: [1, 2, 0], texts: [" b", " c", " a"], residual: [], residual_probability: null } }),
    choice(2, 2, { drafted: false, rejection: { trials: [trial(4, 0.1, 0.6, 0.6, 0.6)], tokens: [1, 2, 0], texts: [" b", " c", " a"], residual: [0, 1, 0], residual_probability: 1 } }),
  ],
};
const typical = (node, p, threshold = 0.3) => ({ node, p, typical: p > threshold });
const TYPICAL = {
  ...STEP,
  choices: [
    choice(0, 1, { draw: null, typical: { entropy: 1.03, threshold: 0.3, trials: [typical(1, 0.2), typical(2, 0.5), typical(3, 0.31)] } }),
    choice(2, 2, { drafted: false, typical: { entropy: 0.9, threshold: 0.3, trials: [typical(4, 0.1)] } }),
  ],
};
const without = (step) => ({ ...step, choices: step.choices.map(({ rejection, typical: _, ...rest }) => rest) });

test("the kind of verification follows the record, and a record of an older version says what it lacks", () => {
  assert.equal(verificationKind(STEP, header()), "rejection");
  assert.equal(verificationKind(TYPICAL, header({ lossless: false })), "typical");
  assert.equal(verificationKind(without(STEP), header()), "unrecorded");
  assert.equal(verificationKind(without(TYPICAL), header({ lossless: false })), "unrecorded");
  assert.equal(verificationKind(without(STEP), header({ method_settings: { verification: "coupled" } })), "draw");
  const greedy = { ...without(STEP), choices: without(STEP).choices.map((one) => ({ ...one, draw: null })) };
  assert.equal(verificationKind(greedy, header()), "greedy");
  const alone = { ...without(STEP), tree: { ...TREE, tokens: [9] } };
  assert.equal(verificationKind(alone, header()), "draw");
});

test("every test has p, q, min(1, p/q) and how u compares", () => {
  const rows = testsOf(STEP, STEP.choices[0]);
  assert.deepEqual(rows.map(({ numbers }) => numbers), [["0.2000", "0.8000", "0.2500", "0.9000 > 0.2500"], ["p′ = 0.6000", "0.1000", "1.000", "0.7000 ≤ 1.000"]]);
  assert.deepEqual(rows.map(({ accepted }) => accepted), [false, true]);
  const close = { ...STEP.choices[0], rejection: { trials: [{ ...trial(1, 0.25, 0.3, 0.83331, 0.6), accepted: true }] } };
  assert.equal(testsOf(STEP, close)[0].numbers[3], "0.83331000 ≤ 0.83333333");
  assert.deepEqual(["0.4312", "0.001234", "0.0002000", "1.517·10⁻⁷", "9999", "8.191·10⁴", "0", "∞", "–"], [0.43121, 0.0012341, 0.0002, 1.517e-7, 9999.4, 81910, 0, Infinity, null].map(precise));
});

test("typical acceptance shows the accepted child first, with entropy and threshold", () => {
  const rows = testsOf(TYPICAL, TYPICAL.choices[0]);
  assert.deepEqual(rows.map(({ node }) => node), [2, 3, 1]);
  assert.deepEqual(rows[0].numbers, ["1.030", "0.5000 > 0.3000"]);
  assert.deepEqual(rows[2].numbers, ["1.030", "0.2000 ≤ 0.3000"]);
});

test("the draw from the residual distribution has the numbers of every candidate, and a sentence", () => {
  const draw = residualDraw(STEP, header());
  assert.deepEqual(draw.rows.map(({ token, p, q, residual, drawn, rejected }) => [token, p, q, residual, drawn, rejected]), [
    [2, 0.7, 0.1, 1, true, false],
    [1, 0.2, 0.3, 0, false, false],
    [0, 0.1, 0.6, 0, false, true],
  ]);
  assert.deepEqual(draw.rows.map(({ excess }) => precise(excess)), ["0.6000", "0", "0"]);
  assert.equal(draw.rows[0].u, 0.4); // as recorded
  assert.equal(draw.rows[1].u, uniform(keyOf(3n, 9n), 1)); // from the seed and the position
  assert.equal(draw.rows[0].rate, -Math.log(0.4));
  assert.equal(draw.rows[1].rate, Infinity);
  assert.equal(residualDraw(STEP, header({ seed: 2 ** 60 })).rows[1].u, null);
  assert.match(residualText(draw), /^The drafted child was rejected.*correction token “␣c”.*probability is 1\.000\. Its random number is u = 0\.4000: .* smallest −ln\(u\)\/residual, 0\.9163\.$/);
  const [, last] = STEP.choices;
  const bonus = { ...STEP, tree: { ...TREE, parents: [-1, 0, 0, 0, 1] }, choices: [STEP.choices[0], { ...last, draw: null, rejection: { ...last.rejection, residual: [0.25, 0.75, 0], residual_probability: 0.75, trials: [] } }] };
  const drawn = residualDraw(bonus, header());
  assert.deepEqual(drawn.rows.map(({ p, q, excess }) => [p, q, excess]), [[0.75, null, null], [0.25, null, null], [0, null, null]]);
  assert.match(residualText(drawn), /candidate path was accepted\. The bonus token “␣c”.*does not contain the random number/);
  assert.equal(residualDraw({ ...STEP, choices: STEP.choices.slice(0, 1) }, header()), null);
  assert.equal(residualDraw(TYPICAL, header()), null);
});

test("the residual distribution is drawn as bars and numbers, with the token that was drawn", () => {
  const part = parts();
  renderResidual(part, STEP, header());
  assert.deepEqual(part("residual-head").children.map((cell) => cell.textContent), ["token", "probabilities", "target p", "draft q", "max(0, p − q)", "residual", "random u", "−ln(u) / residual", "verdict"]);
  const [first, , rejected, others] = part("residual-rows").children;
  assert.equal(first.attributes["data-chosen"], "true");
  assert.deepEqual(first.find("i").map(({ attributes, style }) => [attributes.class, style.width]), [["ax-share-p", "70%"], ["ax-share-q", "10%"], ["ax-share-excess", "60%"], ["ax-share-residual", "100%"]].map(([name, width]) => [name, width]));
  assert.equal(rejected.children.at(-1).textContent, "rejected ×");
  const again = parts();
  renderResidual(again, { ...STEP, choices: [STEP.choices[0], { ...STEP.choices[1], rejection: { ...STEP.choices[1].rejection, trials: [trial(1, 0.2, 0.8, 0.9, 0.6), ...STEP.choices[1].rejection.trials] } }] }, header());
  assert.deepEqual(again("residual-head").children.map((cell) => cell.textContent).slice(2, 5), ["p′", "draft q", "max(0, p′ − q)"]); // after a second rejection
  assert.equal(others.children[0].textContent, "all other tokens");
  renderResidual(part, TYPICAL, header());
  assert.equal(part("residual").hidden, true);
});

test("why the output follows p: the parts of a token's probability add up, or the drafted children do", () => {
  assert.match(losslessText(STEP, header()), /^For x = “␣c”.* = 0\.1000\nP\(reject\).* = 0\.6000\nresidual\(x\) = 0\.6000 \/ 0\.6000 = 1\.000\nP\(x\) = 0\.1000 \+ 0\.6000 · 1\.000\n.*= 0\.7000 = p\(x\)$/s);
  assert.match(losslessText({ ...STEP, choices: STEP.choices.slice(0, 1) }, header()), /^For x = “␣b”, with p′.*= 0\.6000 = p′\(x\)$/s);
  assert.equal(losslessText(TYPICAL, header({ lossless: false })), "");
  assert.equal(losslessText({ ...without(STEP), choices: without(STEP).choices.slice(0, 1) }, header({ method_settings: {} })), "P(accept after “·”) = Σ p of its 3 drafted children = 1.000");
});

test("a node says why it was accepted, rejected or not tried", () => {
  const [first] = STEP.choices;
  assert.match(testText(STEP, first, 1), /^Rejected.*u = 0\.9000 > 0\.2500 = min\(1, p\/q\)/);
  assert.match(testText(STEP, first, 2), /^Accepted.*u = 0\.7000 ≤ 1\.000/);
  assert.match(testText(STEP, first, 3), /^Not tried/);
  assert.match(testText(TYPICAL, TYPICAL.choices[0], 1), /lossy.*0\.2000 ≤ 0\.3000.*rejected/);
  assert.match(testText(TYPICAL, TYPICAL.choices[0], 3), /lossy.*0\.3100 > 0\.3000.*longer/);
  assert.equal(testText(without(STEP), without(STEP).choices[0], 1), "");
});

test("one draw per node has its random number and the smallest −ln(u)/p in separate columns", () => {
  assert.equal(drawText({ draw: 0.5 }), "random number u = 0.5000");
  const { part, rows, heads } = drawn(without(STEP), header({ method_settings: { verification: "coupled" } }));
  assert.deepEqual(heads.slice(1), ["after", "candidate", "bar of p", "target p", "random u", "−ln(u)/p", "verdict"]);
  assert.deepEqual(rows[0].cells.slice(1), ["·", "␣b", "", "0.5000", "0.4000", "1.833", "accepted ✓"]);
  assert.deepEqual(rows.slice(1, 3).map(({ node, cells }) => [node, cells[2], cells[4], cells[7]]), [[3, "␣c", "0.3000", "rejected ×"], [1, "␣a", "0.2000", "rejected ×"]]);
  assert.deepEqual(part("walk").children[0].find("i").map(({ style }) => style.width), ["100%"]);
  assert.equal(part("walk-keys").hidden, true);
});

function drawn(step, head = header()) {
  const part = parts();
  renderWalk(part, step, head);
  const rows = part("walk").children.map((row) => ({ node: row.attributes["data-node"], cells: row.children.map((cell) => cell.textContent) }));
  return { part, rows, heads: part("walk-head").children.map((cell) => cell.textContent) };
}

test("the walk of rejection sampling has a row per child tried and one for the drawn token", () => {
  const { part, rows, heads } = drawn(STEP);
  assert.deepEqual(heads.slice(1), ["after", "drafted child", "p and q", "target p", "draft q", "min(1, p/q)", "random u", "verdict"]);
  assert.deepEqual(rows.map(({ node, cells }) => [node, cells[0], cells[2], cells.at(-1)]), [
    [1, "1", "␣a", "rejected ×"],
    [2, "", "␣b", "accepted ✓"],
    [4, "2", "␣a", "rejected ×"],
    [2, "", "␣c", "correction token ◆"],
  ]);
  assert.deepEqual(rows.map(({ cells }) => heads.length - cells.length), [0, 0, 0, 1]); // the residual probability is in two columns
  assert.deepEqual(part("walk").children[0].find("i").map(({ style }) => style.width), ["20%", "80%"]);
  assert.deepEqual(rows.at(-1).cells.slice(3, 7), ["", precise(STEP.choices[1].probability), "residual 1.000", "0.4000"]);
  assert.notEqual(STEP.choices[1].probability, 1);
});

test("the walk of typical acceptance is called lossy; that of a greedy run names the arg max", () => {
  const { part, rows, heads } = drawn(TYPICAL, header({ lossless: false }));
  assert.match(part("walk-intro").textContent, /lossy/);
  assert.deepEqual(rows.map(({ cells }) => cells.length), rows.map(() => heads.length));
  assert.deepEqual(rows.map(({ cells }) => cells.at(-1)), ["accepted ✓", "passes, but not on the accepted path ×", "rejected ×", "rejected ×", "correction token ◆"]);
  const greedy = drawn({ ...without(STEP), choices: without(STEP).choices.map((one) => ({ ...one, draw: null })) });
  assert.match(greedy.part("walk-intro").textContent, /arg max/);
  assert.deepEqual(greedy.rows.map(({ cells }) => cells.at(4)), ["accepted ✓", "no: correction token ◆"]);
  assert.equal(greedy.part("walk-keys").hidden, true);
});

test("the legend of the walk has only the bars that its rows have", () => {
  const legend = (step, own) => ["walk-excess", "walk-residual"].map((name) => drawn(step, own).part(name).hidden);
  assert.deepEqual(legend(STEP), [false, false]);
  const accepted = { ...STEP.choices[0], rejection: { trials: [{ ...trial(1, 0.25, 0.5, 0.3, 0.6), accepted: true }], residual_probability: null } };
  assert.deepEqual(legend({ ...STEP, choices: [accepted], path: [0, 1], emitted: [1], origins: ["draft"] }), [true, true]);
});

test("the reason of a node in the table is that of its card", () => {
  const rows = nodesTable(STEP).slice(1);
  for (const node of [1, 2, 4]) assert.equal(rows[node][5], nodeFacts(STEP, node, header()).why);
  assert.match(rows[1][5], /^Rejected by rejection sampling: u = 0\.9000 > 0\.2500/);
});

test("the walk can be drawn in Chinese", () => {
  speak("zh");
  const { rows } = drawn(STEP);
  assert.equal(rows[0].cells.at(-1), "拒绝 ×");
  assert.match(residualText(residualDraw(STEP, header())), /残差分布/);
  speak("en");
});

test("the tests are exported with all their numbers", () => {
  const [head, ...rows] = testsTable(STEP);
  assert.deepEqual(rows.map((row) => row[head.indexOf("ratio")]), [0.25, 1, 0.1 / 0.6]);
  assert.deepEqual(testsTable(TYPICAL).slice(1).map((row) => row[head.indexOf("accepted")]), ["false", "true", "false", "false"]);
});

test("only a tree search has a prior P; other methods have a draft probability q", () => {
  assert.equal(priorTerm({ method_settings: { search: "mcts" } }), "prior");
  assert.equal(priorTerm({ method_settings: { draft_models: ["x"] } }), "draft-probability");
});

// A chain of three: the first prefix fails, the second passes, the whole chain fails.
const CHAIN = {
  ...STEP,
  tree: { ...TREE, tokens: [9, 0, 1, 2], parents: [-1, 0, 1, 2], texts: ["·", " a", " b", " c"], verdict: ["root", "accepted", "accepted", "rejected"], reason: ["root", "target chose it", "target chose it", "target chose an undrafted token"] },
  path: [0, 1, 2],
  emitted: [0, 1, 0],
  choices: [choice(0, 0, {}), choice(1, 1, {}), choice(2, 0, { drafted: false })],
  block: {
    tests: [
      { node: 1, p: 0.2, q: 0.5, weight: 0.4, left: 0.2, passes: 0.25, uniform: 0.6, passed: false },
      { node: 2, p: 0.9, q: 0.6, weight: 0.6, left: 0.4, passes: 0.5, uniform: 0.3, passed: true },
      { node: 3, p: 0.1, q: 0.5, weight: 0.12, left: null, passes: 0.12, uniform: 0.7, passed: false },
    ],
    weight: 0.6,
    left: 0.3,
    tokens: [0, 2],
    texts: [" a", " c"],
    p: [0.9, 0.1],
    q: [0.24, 0.5],
    residual: [1, 0],
    residual_probability: 1,
  },
};

test("block verification shows a test per prefix, a token accepted with a longer prefix, and the weighted residual distribution", () => {
  const own = header({ method_settings: { verification: "block" } });
  assert.equal(verificationKind(CHAIN, own), "block");
  const { rows, heads } = drawn(CHAIN, own);
  assert.deepEqual(heads.slice(1), ["after", "drafted child", "p and q", "target p", "draft q", "weight w", "S", "u and P(pass)", "verdict"]);
  assert.deepEqual(rows.map(({ cells }) => [cells[0], cells[1], cells[2], cells.at(-1)]), [
    ["1", "·", "␣a", "accepted with a longer prefix ✓"],
    ["2", "␣a", "␣b", "accepted ✓"],
    ["3", "␣b", "␣c", "rejected ×"],
    ["4", "␣b", "␣a", "correction token ◆"],
  ]);
  assert.deepEqual(rows.map(({ cells }) => heads.length - cells.length), [0, 0, 0, 1]);
  assert.deepEqual(rows.at(-1).cells.slice(4, 8), [precise(CHAIN.choices.at(-1).probability), "residual 1.000", "", precise(CHAIN.choices.at(-1).draw)]);
  assert.deepEqual(prefixTests(CHAIN).map(({ w }) => w), [1, 0.4, 0.6]);
  assert.match(testText(CHAIN, CHAIN.choices[0], 1), /did not pass, u = 0.6000 > 0.2500, but a longer one did/);
  assert.match(testText(CHAIN, CHAIN.choices[2], 3), /neither the prefix.*0.7000 > 0.1200/);
  const draw = residualDraw(CHAIN, own);
  assert.equal(draw.weight, 0.6);
  assert.deepEqual(draw.rows.map(({ token, p, excess, residual, drawn, rejected }) => [token, precise(p), precise(excess), residual, drawn, rejected]), [[0, "0.5400", "0.3000", 1, true, false], [2, "0.06000", "0", 0, false, true]]);
});

test("the target's token says how it was drawn, or why it was added", () => {
  assert.match(targetFacts(STEP, header()).why, /correction token “␣c” was drawn from the residual distribution/);
  assert.match(targetFacts(CHAIN, header({ method_settings: { verification: "block" } })).why, /correction token “␣a”/);
  const greedy = { ...without(STEP), choices: without(STEP).choices.map((one) => ({ ...one, draw: null })) };
  assert.equal(targetFacts(greedy, header()).verdict, "correction");
  assert.doesNotMatch(targetFacts(greedy, header()).why, /residual/);
});
