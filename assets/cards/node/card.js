// Details of a node: its numbers, the PUCT formula with its values, and why it was accepted or rejected.

import { precise, reasonText, residualDraw, residualText } from "../../page/record/acceptance.js";
import { entropyBounds, isFork } from "../../page/record/entropy.js";
import { el, exact, fixed, number, onKey, small, visible } from "../../page/core/dom.js";
import { historyFigure } from "./history.js";
import { column, cumulativeProbability, namesOfStep, priorTerm, rankOf, targetToken, targetTokenKind, TARGET } from "../../page/record/record.js";
import { puctOf, scoreText } from "../../page/record/search.js";
import { markedNode, nodeIn } from "../../page/record/stepview.js";
import { on } from "../../page/core/events.js";
import { offerExport } from "../../page/export/exports.js";
import { say } from "../../page/core/words.js";

export function mount({ part, changed, subscribe }) {
  offerExport("history", { group: "step", title: "save.history", at: part("node"), picture: true, table: true });
  const card = part("node-card");
  const close = () => {
    card.dataset.open = "false";
    changed(); // the tree has more space
  };
  part("node-close").addEventListener("click", close);
  // Over the tree, Escape closes the card before anything else.
  onKey(document, (event) => {
    if (event.key !== "Escape" || card.dataset.open !== "true" || !part("node-close").offsetHeight) return;
    event.preventDefault();
    event.stopPropagation();
    close();
  }, true);
  const isSheet = () => getComputedStyle(card).position === "fixed";
  // Beside the sheet no definition of a term and no menu is open; the label of the pointer is hidden (card.css).
  document.addEventListener("toggle", ({ target }) => target.matches(":popover-open, .ax-menu[open]") && isSheet() && close(), true);
  on("action", (what) => {
    if (what !== "node") return;
    card.dataset.open = "true";
    document.querySelector(":popover-open")?.hidePopover();
    if (isSheet()) part("tree").scrollIntoView({ block: "start" }); // what the sheet leaves of the window is for the tree
  });
  const shown = (state) => (state.peek ? markedNode(state) : nodeIn(state.view.searched, state.node));
  subscribe("quiet", (state) => [state.view.searched, state.view.step, shown(state), state.moment], (state) => {
    const { searched, step, header } = state.view;
    renderNode(part("node"), searched, shown(state), header, step, state.moment);
  });
}

// `recorded`: the step, without verdicts while they are hidden; `moment`: the moment of the search that is shown, null after its end.
function renderNode(root, step, node, header, recorded, moment) {
  const facts = node === TARGET ? targetFacts(step, header) : nodeFacts(step, node, header);
  const list = el("dl", { class: "ax-facts" });
  const append = (rows, attributes = {}) => list.append(...rows.map(([name, value]) => el("div", attributes, el("dt", { text: name }), el("dd", { text: value }))));
  append(facts.rows.filter(isKnown));
  append([...facts.wide.filter(isKnown), ...facts.target], { class: "ax-fact-wide" });
  const head = el(
    "p",
    { class: "ax-node-head" },
    el("span", { class: `ax-chip ax-chip-${facts.verdict}`, text: say(`chip.${facts.verdict}`) }),
    el("code", { text: namesOfStep(recorded, 40).get(facts.token) }),
  );
  const score = node > 0 ? puct(step.tree, node, header.method_settings) : null;
  root.replaceChildren(...[head, list, score, historyFigure(recorded, node, header.method_settings, moment), el("p", { class: "ax-why", text: facts.why })].filter(Boolean));
}

const isKnown = ([, value]) => value !== "–";

// `wide`: what takes a row alone, of the draft; `target`: such rows, of the target.
export function nodeFacts(step, node, header) {
  const { tree } = step;
  const rank = rankOf(tree, node);
  const choice = step.exists ? null : step.choices.find((one) => one.node === node);
  const rows = [
    [say("fact.visits"), number(column(tree, "visits")[node], 0)],
    [say("fact.value"), small(column(tree, "value")[node])],
    [say(priorTerm(header) === "prior" ? "fact.prior" : "fact.q"), precise(column(tree, "prior")[node])],
    ["PUCT", scoreText(column(tree, "score")[node])],
  ];
  const wide = priorTerm(header) === "prior" ? [] : [[say("fact.cumulative"), precise(cumulativeProbability(tree, node))]];
  const known = !step.exists && tree.probability[node] !== null;
  return { rows, wide, target: [...(known ? [ofToken(tree.probability[node], rank)] : []), ...(choice?.logits ? [[say("node.after"), entropyText(choice)]] : [])], verdict: tree.verdict[node], token: tree.tokens[node], why: reasonText(step, node) };
}

// What the target says of the token itself; its choice after the token is another one.
const ofToken = (p, rank) => [say("node.token"), rank ? say("node.ranked", { p: precise(p), rank }) : `p ${precise(p)}`];

// In bits, as a range if the record does not decide two decimals.
function entropyText(choice) {
  const bits = [...new Set(entropyBounds(choice.logits).map((value) => number(value)))].join("–");
  return say(isFork(choice) ? "node.entropy.fork" : "node.entropy", { bits });
}

export function targetFacts(step, header) {
  const choice = step.choices[step.choices.length - 1];
  const { token } = targetToken(step);
  const after = visible(step.tree.texts[step.path[step.path.length - 1]]);
  const kind = targetTokenKind(step);
  const draw = residualDraw(step, header);
  return { rows: [], wide: [], target: choice ? [ofToken(choice.probability, choice.rank)] : [], verdict: kind, token, why: draw ? residualText(draw) : say(`why.${kind}`, { after }) };
}

function puct(tree, node, settings) {
  const recorded = column(tree, "score")[node];
  if (recorded === Infinity) return formula(say("formula.infinite"));
  const f = puctOf(tree, node, settings);
  const fits = f && (recorded === null || Math.abs(recorded - f.score) < 0.005 * Math.max(1, Math.abs(f.score)));
  if (!fits) return plainScore(tree, node, recorded);
  const parentVisits = () => ["N", el("sub", { text: "p" })];
  const lines = [
    el("p", {}, "U = (c₁+ln((", ...parentVisits(), "+c₂+1)/c₂))·P·√", ...parentVisits(), "/(1+N)"),
    el("p", {}, `c₁ = ${f.c1}, c₂ = ${f.c2}, `, ...parentVisits(), ` = ${fixed(f.parent, 0)}`),
    el("p", { text: `U = (${f.c1}+${fixed(f.log, 4)}) · ${precise(f.p)} · √${fixed(f.parent, 0)}/${fixed(1 + f.n, 0)}` }),
    el("p", { class: "ax-sum", text: `PUCT = Q + U = ${exact(f.q)} + ${exact(f.explore)} = ${exact(f.score)}` }),
  ];
  return el("div", { class: "ax-formula", title: say("formula.parent") }, ...lines);
}

function plainScore(tree, node, recorded) {
  const explore = column(tree, "exploration")[node];
  if (recorded === null) return null;
  const text = explore === null ? `${say("formula.score")} ${small(recorded)}` : `${say("formula.score")} = Q + U = ${small(column(tree, "value")[node])} + ${small(explore)} = ${small(recorded)}`;
  return formula(text);
}

function formula(text) {
  return el("div", { class: "ax-formula" }, el("p", { class: "ax-sum", text }));
}
