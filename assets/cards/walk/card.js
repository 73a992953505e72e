// The verification walk: every node at which the target chose a token, or every child that was tried.

import { candidatesOf, drawText, precise, prefixTests, testsOf, verificationKind } from "../../page/record/acceptance.js";
import { el, exact, setText } from "../../page/core/dom.js";
import { say } from "../../page/core/words.js";
import { offerExport, registerExport } from "../../page/export/exports.js";
import { last, namesOfStep, possible, undraftedKind } from "../../page/record/record.js";
import { shares } from "../../page/plot/shares.js";

const HEADS = {
  rejection: ["after", "tried", "bars", "p", "draft-probability", "ratio", "random", "verdict"],
  block: ["after", "tried", "bars", "p", "draft-probability", "weight", "left", "passes", "verdict"],
  typical: ["after", "tried", "entropy", "threshold", "verdict"],
  draw: ["after", "candidate", "bar", "p", "u", "least", "verdict"],
};
const OTHERWISE = ["after", "choice", "p", "in", "next"];
const COMPARED = ["rejection", "block"]; // kinds that compare p with q
const ROWS = { rejection: testRows, typical: testRows, draw: drawRows };

export function mount({ part, subscribe, pick }) {
  offerExport("walk", { group: "step", title: "walk.title", at: part("walk"), table: true });
  part("walk").addEventListener("click", (event) => {
    const row = event.target.closest("tr");
    if (row) pick(Number(row.dataset.node));
  });
  subscribe("quiet", ({ view }) => [view.recorded], ({ view }) => renderWalk(part, view.recorded, view.header));
}

export function renderWalk(part, step, header) {
  const body = part("walk");
  const kind = verificationKind(step, header);
  const names = namesOfStep(step);
  setText(part("walk-intro"), say(`walk.intro.${kind}`));
  part("walk-keys").hidden = !COMPARED.includes(kind);
  const bars = barsOf(step, kind);
  setText(part("walk-excess-name"), say(kind === "block" ? "walk.excess.weighted" : "walk.excess"));
  for (const name of ["excess", "residual"]) part(`walk-${name}`).hidden = !bars[name];
  part("walk-head").replaceChildren(...headCells(HEADS[kind] ?? OTHERWISE));
  body.replaceChildren(...(kind === "block" ? prefixRows(step, names) : step.choices.flatMap((choice, i) => ROWS[kind]?.(step, i, kind, names, header) ?? walkRow(step, choice, i, names))));
  const heads = [...part("walk-head").children].map((head) => head.textContent);
  for (const row of body.children) {
    let i = 0;
    for (const value of row.children) {
      if (i && value.textContent && !(value.colSpan > 1)) value.setAttribute("data-head", heads[i]);
      i += value.colSpan || 1;
    }
  }
  const table = kind === "block" ? prefixTable : ROWS[kind] === testRows ? testsTable : walkTable;
  registerExport("walk", { place: () => body, table: () => table(step) });
}

function headCells(names) {
  const place = el("th", {}, el("span", { class: "ax-sr", text: say("step.label") }));
  const cell = (name) => (name === "draft-probability" ? el("th", {}, el("button", { type: "button", class: "ax-term", "data-term": name, text: say("walk.q") })) : el("th", { text: say(`walk.${name}`) }));
  return [place, ...names.map(cell)];
}

// Which bars the rows have besides p and q: of what p has more than q, and of the residual probability.
function barsOf(step, kind) {
  const { choices, block } = step;
  const tests = kind === "block" ? prefixTests(step) : choices.flatMap(({ rejection }) => rejection?.trials ?? []);
  const residual = kind === "block" ? block.q.length > 0 : choices.some(({ rejection }) => rejection?.trials.length && rejection.residual_probability !== null);
  return { excess: tests.some(({ w = 1, p, q }) => w * p > q), residual };
}

// The tests of the children at a choice, and the token that was drawn if none was accepted.
function testRows(step, i, kind, names) {
  const { tree } = step;
  const choice = step.choices[i];
  const numbers = step.choices.flatMap(({ rejection, probability: p }) => (rejection ? [...rejection.trials.flatMap((trial) => [trial.p, trial.q]), rejection.residual_probability ?? 0, p] : []));
  const top = Math.max(...numbers);
  const rows = testsOf(step, choice).map((test) => testRow(tree, test, kind, top, names));
  if (!tree.parents.some((parent, node) => parent === choice.node && step.path.includes(node))) rows.push(drawnRow(tree, choice, kind, top, names));
  return placed(step, i, rows, names);
}

// Block verification: the test of every prefix, and the token that was drawn after the accepted one.
function prefixRows(step, names) {
  const { tree, block, choices, path } = step;
  const top = Math.max(block.residual_probability, last(choices).probability, ...block.tests.flatMap(({ p, q }) => [p, q]));
  const rows = prefixTests(step).map((test) => [tree.parents[test.node], testRow(tree, test, "block", top, names)]);
  const ended = tree.reason.includes("cut at the end");
  if (!ended) rows.splice(path.length, 0, [path[path.length - 1], drawnRow(tree, last(choices), "block", top, names, block.residual_probability, block.q.length > 0)]);
  for (const [i, [parent, row]] of rows.entries()) row.prepend(el("td", { class: "ax-dim", text: String(i + 1) }), el("td", {}, el("code", { text: names.get(tree.tokens[parent]) })));
  return rows.map(([, row]) => row);
}

// The correction or bonus token after the tests; `residual`: its probability in the distribution that it was drawn from, shown in place of q.
function drawnRow(tree, { node, token, probability: p, draw, rejection }, kind, top, names, residual = rejection?.residual_probability, tested = rejection?.trials.length > 0) {
  const number = (value) => el("td", { class: "ax-num", text: value });
  const known = { p: precise(p), random: precise(draw), passes: precise(draw), threshold: precise(p) };
  const drawn = tested ? { p, residual } : { p };
  const cellOf = (name) => (name === "bars" ? el("td", {}, shares(drawn, top)) : name === "draft-probability" && tested ? el("td", { class: "ax-num", colspan: 2, text: say("walk.residual", { p: precise(residual) }) }) : number(known[name] ?? ""));
  const heads = HEADS[kind].slice(2, -1).filter((_, i, all) => !tested || all[i - 1] !== "draft-probability");
  const cells = heads.map(cellOf);
  return el("tr", { "data-node": node }, el("td", {}, el("code", { text: names.get(token) })), ...cells, el("td", {}, targetWord(`chip.${undraftedKind(tree, node)}`)));
}

// Rows of one choice: its number and its node before the first one.
function placed({ tree, choices }, i, rows, names) {
  const first = [el("td", { class: "ax-dim", text: String(i + 1) }), el("td", {}, el("code", { text: names.get(tree.tokens[choices[i].node]) }))];
  for (const [k, row] of rows.entries()) row.prepend(...(k ? [el("td"), el("td")] : first));
  return rows;
}

function testRow(tree, { node, accepted, typical, passed, p, q, w, numbers }, kind, top, names) {
  const verdict = accepted ? (passed === false ? "longer" : "drafted") : typical ? "shorter" : "rejected";
  return el(
    "tr",
    { "data-node": node },
    el("td", {}, el("code", { text: names.get(tree.tokens[node]) })),
    COMPARED.includes(kind) ? el("td", {}, shares({ p, q, w }, top)) : null,
    ...numbers.map((text) => el("td", { class: "ax-num", text })),
    el("td", {}, chip(accepted, `walk.${verdict}`)),
  );
}

// The candidates of one draw from the target's distribution.
function drawRows(step, i, _, names, header) {
  const choice = step.choices[i];
  const top = Math.max(...step.choices.flatMap(({ probability: p, top_probabilities: all }) => [p, ...all]));
  const rows = candidatesOf(step, i, header).map(({ token, node, p, u, rate, drawn }) =>
    el(
      "tr",
      { "data-node": node ?? choice.node },
      el("td", {}, el("code", { text: names.get(token) })),
      el("td", {}, shares({ p }, top)),
      ...[p, u, rate].map((value) => el("td", { class: "ax-num", text: precise(value) })),
      el("td", {}, drawn ? choiceVerdict(step, i, "chip") : node === null ? el("span", { class: "ax-dim", text: say("walk.undrafted") }) : chip(false, "walk.rejected")),
    ),
  );
  return placed(step, i, rows, names);
}

function chip(accepted, key) {
  return el("span", { class: `ax-chip ax-chip-${accepted ? "accepted" : "rejected"}`, text: say(key) });
}

function targetWord(key) {
  return el("span", { class: "ax-target-word", text: say(key) });
}

// Whether the token that the target chose was drafted: accepted, cut at the end of the text, or a bonus or correction token.
function choiceVerdict({ tree, choices }, i, words) {
  const choice = choices[i];
  const cut = tree.reason.includes("cut at the end") && i === choices.length - 1 && choice.drafted;
  return choice.drafted ? chip(true, cut ? "walk.cut" : "walk.drafted") : targetWord(`${words}.${undraftedKind(tree, choice.node)}`);
}

function walkRow(step, choice, i, names) {
  const others = possible(choice).filter(({ token }) => token !== choice.token).slice(0, 2);
  const chosen = el("td", {}, el("code", { text: names.get(choice.token) }));
  if (choice.draw !== null) chosen.append(el("span", { class: "ax-dim", text: ` ${drawText(choice)}` }));
  return el(
    "tr",
    { "data-node": choice.node },
    el("td", { class: "ax-dim", text: String(i + 1) }),
    el("td", {}, el("code", { text: names.get(step.tree.tokens[choice.node]) })),
    chosen,
    el("td", { class: "ax-num", text: precise(choice.probability) }),
    el("td", {}, choiceVerdict(step, i, "walk")),
    el("td", { class: "ax-dim ax-next", text: others.map(({ token, p }) => `${names.get(token)} ${exact(p)}`).join("  ") }),
  );
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

// The prefixes that block verification tested.
export function prefixTable({ tree, block, path }) {
  const rows = block.tests.map(({ node, p, q, weight, left, uniform, passes, passed }) => [node, tree.tokens[node], tree.texts[node], p, q, weight, left, uniform, passes, String(passed), String(path.includes(node))]);
  return [["node", "token", "text", "p", "q", "weight", "left", "uniform", "passes", "passed", "accepted"], ...rows];
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
