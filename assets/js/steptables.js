// The step as tables: the verification walk, and all nodes.

import { nodesTable, walkTable } from "./csv.js";
import { el, number, probability, small, toggleClass, visible } from "./dom.js";
import { registerExport } from "./exports.js";
import { column, possible, rankOf, undraftedKind } from "./record.js";
import { scoreText } from "./search.js";
import { TARGET, treeNodes } from "./tree.js";
import { say } from "./words.js";

export function renderWalk(body, step) {
  body.replaceChildren(...step.choices.map((choice, i) => walkRow(step, choice, i)));
  registerExport("walk", { group: "step", title: "walk.title", place: () => body, table: () => walkTable(step) });
}

function walkRow(step, choice, i) {
  const cut = step.tree.reason.includes("cut at the end") && i === step.choices.length - 1 && choice.drafted;
  const verdict = !choice.drafted
    ? el("span", { class: "ax-target-word", text: say(`walk.${undraftedKind(step.tree, choice.node)}`) })
    : el("span", { class: "ax-chip ax-chip-accepted", text: say(cut ? "walk.cut" : "walk.drafted") });
  const others = possible(choice).filter(({ token }) => token !== choice.token).slice(0, 2);
  const chosen = el("td", {}, el("code", { text: visible(choice.text) }), el("span", { class: "ax-num", text: ` ${probability(choice.probability)}` }));
  if (choice.draw !== null) chosen.append(el("span", { class: "ax-dim", text: ` ${say("walk.draw", { draw: number(choice.draw) })}` }));
  return el(
    "tr",
    { "data-node": choice.node },
    el("td", { class: "ax-dim", text: String(i + 1) }),
    el("td", {}, el("code", { text: visible(step.tree.texts[choice.node]) })),
    chosen,
    el("td", {}, verdict),
    el("td", { class: "ax-dim ax-next", text: others.map(({ text, p }) => `${visible(text)} ${probability(p)}`).join("  ") }),
  );
}

const AT_ONCE = 120; // rows that are created before the next frame
const PER_FRAME = 90; // rows that are created in each later frame

export function createNodeTable(body, { onHover, onPick }) {
  const nodeOf = (event) => {
    const row = event.target.closest("tr");
    return row ? Number(row.dataset.node) : null;
  };
  body.addEventListener("click", (event) => nodeOf(event) !== null && onPick(nodeOf(event)));
  body.addEventListener("mouseover", (event) => onHover(nodeOf(event)));
  body.addEventListener("mouseleave", () => onHover(null));
  body.addEventListener("keydown", (event) => {
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

  function render(step, layout) {
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
    registerExport("nodes", { group: "step", title: "nodes.title", place: () => body, table: () => nodesTable(step) });
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
    value("prior", probability),
    value("visits", (count) => number(count, 0)),
    value("value", small),
    value("score", scoreText),
    cell(probability(p)),
    cell(rank ? String(rank) : "–"),
  );
}
