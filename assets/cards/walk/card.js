// The verification walk: every node at which the target chose a token, or every child that was tried.

import { drawText, precise, residualText, testsOf, verificationKind } from "../../page/record/acceptance.js";
import { el, probability, setText } from "../../page/core/dom.js";
import { say } from "../../page/core/words.js";
import { offerExport, registerExport } from "../../page/export/exports.js";
import { namesOfStep, possible, undraftedKind } from "../../page/record/record.js";

const DRAW = ["after", "choice", "p", "u", "least", "in", "next"];
const HEADS = { rejection: ["tried", "bars", "p", "draft-probability", "ratio", "random"], typical: ["tried", "entropy", "threshold"] };

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
  const tested = kind in HEADS;
  const names = namesOfStep(step);
  setText(part("walk-intro"), say(`walk.intro.${kind}`));
  part("walk-head").replaceChildren(...headCells(tested ? ["after", ...HEADS[kind], "verdict"] : kind === "draw" ? DRAW : ["after", "choice", "p", "in", "next"]));
  body.replaceChildren(...step.choices.flatMap((choice, i) => (tested ? testRows(step, choice, i, kind, names) : walkRow(step, choice, i, kind, names))));
  const heads = [...part("walk-head").children].map((head) => head.textContent);
  for (const row of body.children) for (const [i, value] of [...row.children].entries()) if (i && value.textContent) value.setAttribute("data-head", heads[i]);
  setText(part("walk-residual"), residualText(step));
  registerExport("walk", { place: () => body, table: () => (tested ? testsTable(step) : walkTable(step)) });
}

function headCells(names) {
  const place = el("th", {}, el("span", { class: "ax-sr", text: say("step.label") }));
  const cell = (name) => (name === "draft-probability" ? el("th", {}, el("button", { type: "button", class: "ax-term", "data-term": name, text: say("walk.q") })) : el("th", { text: say(`walk.${name}`) }));
  return [place, ...names.map(cell)];
}

// The tests of the children at a choice, and the token that was drawn if none was accepted.
function testRows(step, choice, i, kind, names) {
  const { tree } = step;
  const top = Math.max(...step.choices.flatMap(({ rejection }) => rejection?.trials ?? []).flatMap(({ p, q }) => [p, q]));
  const rows = testsOf(step, choice).map((test) => testRow(tree, test, kind, top, names));
  const chosen = choice.rejection ? choice.rejection.residual_probability : choice.probability;
  if (!tree.parents.some((parent, node) => parent === choice.node && step.path.includes(node))) {
    const numbers = HEADS[kind].slice(1).map((name) => el("td", { class: "ax-num", text: name === (choice.rejection ? "p" : "threshold") ? precise(chosen) : "" }));
    rows.push(el("tr", { "data-node": choice.node }, el("td", {}, el("code", { text: names.get(choice.token) })), ...numbers, el("td", {}, el("span", { class: "ax-target-word", text: say(`chip.${undraftedKind(tree, choice.node)}`) }))));
  }
  const first = [el("td", { class: "ax-dim", text: String(i + 1) }), el("td", {}, el("code", { text: names.get(tree.tokens[choice.node]) }))];
  for (const [k, row] of rows.entries()) row.prepend(...(k ? [el("td"), el("td")] : first));
  return rows;
}

function testRow(tree, { node, accepted, typical, p, q, numbers }, kind, top, names) {
  const verdict = accepted ? "drafted" : typical ? "shorter" : "rejected";
  return el(
    "tr",
    { "data-node": node },
    el("td", {}, el("code", { text: names.get(tree.tokens[node]) })),
    kind === "rejection" ? el("td", {}, el("div", { class: "ax-shares", "aria-hidden": "true" }, share("p", p / top), share("q", q / top))) : null,
    ...numbers.map((text) => el("td", { class: "ax-num", text })),
    el("td", {}, el("span", { class: `ax-chip ax-chip-${accepted ? "accepted" : "rejected"}`, text: say(`walk.${verdict}`) })),
  );
}

function share(name, value) {
  const bar = el("i", { class: `ax-share-${name}` });
  bar.style.width = `${100 * value}%`;
  return bar;
}

function walkRow(step, choice, i, kind, names) {
  const cut = step.tree.reason.includes("cut at the end") && i === step.choices.length - 1 && choice.drafted;
  const verdict = !choice.drafted
    ? el("span", { class: "ax-target-word", text: say(`walk.${undraftedKind(step.tree, choice.node)}`) })
    : el("span", { class: "ax-chip ax-chip-accepted", text: say(cut ? "walk.cut" : "walk.drafted") });
  const others = possible(choice).filter(({ token }) => token !== choice.token).slice(0, 2);
  const chosen = el("td", {}, el("code", { text: names.get(choice.token) }));
  if (choice.draw !== null && kind !== "draw") chosen.append(el("span", { class: "ax-dim", text: ` ${drawText(choice)}` }));
  const drawn = kind === "draw" ? [choice.draw, -Math.log(choice.draw) / choice.probability].map((value) => el("td", { class: "ax-num", text: precise(value) })) : [];
  return el(
    "tr",
    { "data-node": choice.node },
    el("td", { class: "ax-dim", text: String(i + 1) }),
    el("td", {}, el("code", { text: names.get(step.tree.tokens[choice.node]) })),
    chosen,
    el("td", { class: "ax-num", text: precise(choice.probability) }),
    ...drawn,
    el("td", {}, verdict),
    el("td", { class: "ax-dim ax-next", text: others.map(({ token, p }) => `${names.get(token)} ${probability(p)}`).join("  ") }),
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
