// The step as tables: the verification walk, and all nodes.

import { drawText, losslessText, precise, residualText, testsOf, verificationKind } from "./acceptance.js";
import { nodesTable, testsTable, walkTable } from "./csv.js";
import { el, exact, number, probability, setText, small, toggleClass, visible } from "./dom.js";
import { registerExport } from "./exports.js";
import { onKey } from "./keys.js";
import { column, possible, priorTerm, rankOf, undraftedKind } from "./record.js";
import { scoreText } from "./search.js";
import { treeNodes } from "./tree.js";
import { TARGET } from "./treegrid.js";
import { say } from "./words.js";

const DRAW = ["after", "choice", "p", "u", "least", "in", "next"];
const HEADS = { rejection: ["tried", "bars", "p", "draft-probability", "ratio", "random"], typical: ["tried", "entropy", "threshold"] };

export function renderWalk(part, step, header) {
  const body = part("walk");
  const kind = verificationKind(step, header);
  const tested = kind in HEADS;
  setText(part("walk-intro"), say(`walk.intro.${kind}`));
  part("walk-head").replaceChildren(...headCells(tested ? ["after", ...HEADS[kind], "verdict"] : kind === "draw" ? DRAW : ["after", "choice", "p", "in", "next"]));
  body.replaceChildren(...step.choices.flatMap((choice, i) => (tested ? testRows(step, choice, i, kind) : walkRow(step, choice, i, kind))));
  setText(part("walk-residual"), residualText(step));
  setText(part("walk-lossless"), losslessText(step));
  part("walk-lossless").hidden = !losslessText(step);
  setText(part("walk-why"), say(header.lossless ? "guarantee.title" : "guarantee.lossy"));
  setText(part("walk-guarantee"), say(`guarantee.${header.lossless ? kind : "typical"}`));
  registerExport("walk", { group: "step", title: "walk.title", place: () => body, table: () => (tested ? testsTable(step) : walkTable(step)) });
}

function headCells(names) {
  const place = el("th", {}, el("span", { class: "ax-sr", text: say("step.label") }));
  const cell = (name) => (name === "draft-probability" ? el("th", {}, termButton(name, say("walk.q"))) : el("th", { text: say(`walk.${name}`) }));
  return [place, ...names.map(cell)];
}

// The tests of the children at a choice, and the token that was drawn if none was accepted.
function testRows(step, choice, i, kind) {
  const { tree } = step;
  const top = Math.max(...step.choices.flatMap(({ rejection }) => rejection?.trials ?? []).flatMap(({ p, q }) => [p, q]));
  const rows = testsOf(step, choice).map((test) => testRow(tree, test, kind, top));
  const chosen = choice.rejection ? choice.rejection.residual_probability : choice.probability;
  if (!tree.parents.some((parent, node) => parent === choice.node && step.path.includes(node))) {
    const numbers = HEADS[kind].slice(1).map((name) => el("td", { class: "ax-num", text: name === (choice.rejection ? "p" : "threshold") ? precise(chosen) : "" }));
    rows.push(el("tr", { "data-node": choice.node }, el("td", {}, el("code", { text: visible(choice.text) })), ...numbers, el("td", {}, el("span", { class: "ax-target-word", text: say(`chip.${undraftedKind(tree, choice.node)}`) }))));
  }
  const first = [el("td", { class: "ax-dim", text: String(i + 1) }), el("td", {}, el("code", { text: visible(tree.texts[choice.node]) }))];
  for (const [k, row] of rows.entries()) row.prepend(...(k ? [el("td"), el("td")] : first));
  return rows;
}

function testRow(tree, { node, accepted, typical, p, q, numbers }, kind, top) {
  const verdict = accepted ? "drafted" : typical ? "shorter" : "rejected";
  return el(
    "tr",
    { "data-node": node },
    el("td", {}, el("code", { text: visible(tree.texts[node]) })),
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

function termButton(term, text = say(`fact.${term}`)) {
  return el("button", { type: "button", class: "ax-term", "data-term": term, text });
}

function walkRow(step, choice, i, kind) {
  const cut = step.tree.reason.includes("cut at the end") && i === step.choices.length - 1 && choice.drafted;
  const verdict = !choice.drafted
    ? el("span", { class: "ax-target-word", text: say(`walk.${undraftedKind(step.tree, choice.node)}`) })
    : el("span", { class: "ax-chip ax-chip-accepted", text: say(cut ? "walk.cut" : "walk.drafted") });
  const others = possible(choice).filter(({ token }) => token !== choice.token).slice(0, 2);
  const chosen = el("td", {}, el("code", { text: visible(choice.text) }));
  if (choice.draw !== null && kind !== "draw") chosen.append(el("span", { class: "ax-dim", text: ` ${drawText(choice)}` }));
  const drawn = kind === "draw" ? [choice.draw, -Math.log(choice.draw) / choice.probability].map((value) => el("td", { class: "ax-num", text: precise(value) })) : [];
  return el(
    "tr",
    { "data-node": choice.node },
    el("td", { class: "ax-dim", text: String(i + 1) }),
    el("td", {}, el("code", { text: visible(step.tree.texts[choice.node]) })),
    chosen,
    el("td", { class: "ax-num", text: precise(choice.probability) }),
    ...drawn,
    el("td", {}, verdict),
    el("td", { class: "ax-dim ax-next", text: others.map(({ text, p }) => `${visible(text)} ${probability(p)}`).join("  ") }),
  );
}

const AT_ONCE = 120; // rows that are created before the next frame
const PER_FRAME = 90; // rows that are created in each later frame

export function createNodeTable(part, { onHover, onPick }) {
  const body = part("nodes");
  const nodeOf = (event) => {
    const row = event.target.closest("tr");
    return row ? Number(row.dataset.node) : null;
  };
  body.addEventListener("click", (event) => nodeOf(event) !== null && onPick(nodeOf(event)));
  body.addEventListener("mouseover", (event) => onHover(nodeOf(event)));
  body.addEventListener("mouseleave", () => onHover(null));
  onKey(body, (event) => {
    const row = event.target.closest("tr");
    const next = { ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling, Enter: row }[event.key];
    if (!next) return;
    event.preventDefault();
    event.stopPropagation();
    onPick(Number(next.dataset.node));
    next.focus({ preventScroll: true });
  });

  let waiting = 0;
  let picked = null;

  function render(step, layout, header) {
    const term = priorTerm(header);
    part("nodes-prior").replaceChildren(termButton(term, term === "prior" ? "P" : undefined));
    const nodes = treeNodes(step, layout).sort((a, b) => a.y - b.y || a.x - b.x);
    const more = (count) => body.append(...nodes.splice(0, count).map((node) => nodeRow(step, node)));
    body.replaceChildren();
    more(AT_ONCE);
    cancelAnimationFrame(waiting);
    const rest = () => {
      more(PER_FRAME);
      waiting = nodes.length ? requestAnimationFrame(rest) : 0;
      if (!waiting && picked !== null) select(picked);
    };
    waiting = nodes.length ? requestAnimationFrame(rest) : 0;
    registerExport("nodes", { group: "step", title: "nodes.title", place: () => body, table: () => nodesTable(step, term) });
  }

  function select(node) {
    picked = node;
    for (const row of body.rows) {
      const on = Number(row.dataset.node) === node;
      toggleClass(row, "ax-picked", on);
      row.setAttribute("aria-selected", String(on));
      row.tabIndex = on ? 0 : -1;
      if (on && !body.matches(":hover")) revealRow(row); // a row under the pointer does not move
    }
  }
  return { render, select };
}

// Scrolls the table's added box, never the page.
function revealRow(row) {
  const box = row.closest(".ax-scroll");
  const head = 34;
  const top = row.offsetTop;
  if (top - head < box.scrollTop) box.scrollTop = top - head;
  else if (top + row.offsetHeight > box.scrollTop + box.clientHeight) box.scrollTop = top + row.offsetHeight - box.clientHeight;
}

function nodeRow(step, node) {
  const { tree } = step;
  const added = node.id === TARGET;
  const choice = step.choices[step.choices.length - 1];
  const cell = (text) => el("td", { class: "ax-num", text });
  const value = (name, format) => cell(added ? "–" : format(column(tree, name)[node.id]));
  const token = el("td", {}, el("code", { text: visible(node.text, 15) }));
  token.style.paddingLeft = `${6 + 7 * node.x}px`;
  const verified = !step.exists;
  const p = added ? choice?.probability : verified ? tree.probability[node.id] : null;
  const rank = added ? choice?.rank : verified && rankOf(tree, node.id);
  return el(
    "tr",
    { "data-node": node.id, tabindex: -1 },
    token,
    el("td", {}, el("span", { class: `ax-chip ax-chip-${node.verdict}`, text: say(`chip.${node.verdict}`) })),
    cell(String(node.x)),
    value("prior", exact),
    value("visits", (count) => number(count, 0)),
    value("value", small),
    value("score", scoreText),
    cell(probability(p)),
    cell(rank ? String(rank) : "–"),
  );
}
