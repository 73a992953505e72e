// One node in full: its numbers, the formula that chose it with the numbers in place, and why it stands or fell.

import { el, number, probability, small, visible } from "./dom.js";
import { column } from "./record.js";
import { puctOf, scoreText } from "./search.js";
import { OWN } from "./tree.js";

export const VERDICTS = {
  root: "root",
  accepted: "accepted ✓",
  rejected: "rejected ×",
  unreached: "not reached",
  own: "the target's own ■",
  searched: "visited",
  opened: "not visited yet",
};

export function renderNode(root, step, node, header) {
  const facts = node === OWN ? ownFacts(step) : nodeFacts(step, node, header.method_settings);
  const list = el("dl", { class: "ax-facts" });
  for (const [name, value] of facts.rows.filter(([, shown]) => shown !== "–")) list.append(el("div", {}, el("dt", { text: name }), el("dd", { text: value })));
  const head = el(
    "p",
    { class: "ax-node-head" },
    el("span", { class: `ax-chip ax-chip-${facts.verdict}`, text: VERDICTS[facts.verdict] }),
    el("code", { text: visible(facts.text, 40) }),
  );
  const score = node > 0 ? puct(step.tree, node, header.method_settings) : null;
  root.replaceChildren(...[head, list, score, el("p", { class: "ax-why", text: facts.why })].filter(Boolean));
}

function nodeFacts(step, node, settings) {
  const { tree } = step;
  const rank = tree.rank[node];
  const rows = [
    ["visits N", number(column(tree, "visits")[node], 0)],
    ["value Q", small(column(tree, "value")[node])],
    ["prior P", probability(column(tree, "prior")[node])],
    ["PUCT", scoreText(column(tree, "score")[node])],
    ["target's p", step.exists ? "–" : probability(tree.probability[node])],
    ["rank", rank && !step.exists ? String(rank) : "–"],
  ];
  return { rows, verdict: tree.verdict[node], text: tree.texts[node], why: why(step, node) };
}

function ownFacts(step) {
  const choice = step.choices[step.choices.length - 1];
  const text = step.texts[step.texts.length - 1];
  const rows = choice ? [["target's p", probability(choice.probability)], ["rank", String(choice.rank)]] : [];
  const after = visible(step.tree.texts[step.path[step.path.length - 1]]);
  return { rows, verdict: "own", text, why: `No drafted token after “${after}” was the target's choice, so it writes this one itself. Every step ends so.` };
}

function why(step, node) {
  const { tree } = step;
  if (step.exists) return "As the search saw it then; the target has not spoken yet.";
  const parent = node ? visible(tree.texts[tree.parents[node]]) : "";
  const choice = step.choices.find((c) => c.node === tree.parents[node]);
  const chosen = choice ? `“${visible(choice.text)}”` : "another token";
  return {
    root: "The newest token of the text. The draft continues from here.",
    "target chose it": `After “${parent}” the target's choice is this token, so the walk goes on to its children.`,
    "target chose a sibling": `After “${parent}” the target chose ${chosen}, another drafted token.`,
    "target chose an undrafted token": `After “${parent}” the target chose ${chosen}, which the draft did not hold.`,
    "parent not accepted": "Its parent was not accepted, so the walk never came here.",
    "cut at the end": "The target chose it, but the text ended before it.",
  }[tree.reason[node]];
}

function puct(tree, node, settings) {
  const recorded = column(tree, "score")[node];
  if (recorded === Infinity) return formula("PUCT = ∞: the published search visits every child once first");
  const f = puctOf(tree, node, settings);
  const fits = f && (recorded === null || Math.abs(recorded - f.score) < 0.005 * Math.max(1, Math.abs(f.score)));
  if (!fits) return plainScore(tree, node, recorded);
  const parentVisits = () => ["N", el("sub", { text: "p" })];
  const lines = [
    el("p", {}, "PUCT = Q + U"),
    el("p", {}, "U = (c₁ + ln((", ...parentVisits(), "+c₂+1)/c₂))", el("br"), "    · P · √", ...parentVisits(), "/(1+N)"),
    el("p", { text: `U = (${f.c1}+${f.log.toFixed(2)}) · ${small(f.p)} · √${Math.round(f.parent)}/${1 + Math.round(f.n)}` }),
    el("p", { class: "ax-sum", text: `PUCT = ${small(f.q)} + ${small(f.explore)} = ${small(f.score)}` }),
  ];
  return el("div", { class: "ax-formula", title: "Nₚ: visits of the parent" }, ...lines);
}

function plainScore(tree, node, recorded) {
  const explore = column(tree, "exploration")[node];
  if (recorded === null) return null;
  const text = explore === null ? `score ${small(recorded)}` : `score = Q + U = ${small(column(tree, "value")[node])} + ${small(explore)} = ${small(recorded)}`;
  return formula(text);
}

function formula(text) {
  return el("div", { class: "ax-formula" }, el("p", { class: "ax-sum", text }));
}
