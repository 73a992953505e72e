// All nodes of the step as a table.

import { precise, reasonText } from "../../page/record/acceptance.js";
import { el, exact, number, onKey, toggleClass } from "../../page/core/dom.js";
import { say } from "../../page/core/words.js";
import { offerExport, registerExport } from "../../page/export/exports.js";
import { TARGET, column, namesOfStep, priorTerm, rankOf, slotsOf } from "../../page/record/record.js";
import { scoreText } from "../../page/record/search.js";
import { markedNode, treeNodes } from "../../page/record/stepview.js";

const AT_ONCE = 120; // rows that are created before the next frame
const PER_FRAME = 90; // rows that are created in each later frame

export function mount({ part, subscribe, hover, pick }) {
  offerExport("nodes", { group: "step", title: "nodes.title", at: part("nodes"), table: true });
  const body = part("nodes");
  const nodeOf = (event) => {
    const row = event.target.closest("tr");
    return row ? Number(row.dataset.node) : null;
  };
  body.addEventListener("click", (event) => nodeOf(event) !== null && pick(nodeOf(event)));
  body.addEventListener("mouseover", (event) => hover(nodeOf(event)));
  body.addEventListener("mouseleave", () => hover(null));
  onKey(body, (event) => {
    const row = event.target.closest("tr");
    const next = { ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling, Enter: row }[event.key];
    if (!next) return;
    event.preventDefault();
    event.stopPropagation();
    pick(Number(next.dataset.node));
    next.focus({ preventScroll: true });
  });

  let waiting = 0;
  let picked = null;

  function render(step, layout, header) {
    const term = priorTerm(header);
    part("nodes-prior").replaceChildren(termButton(term, term === "prior" ? "P" : undefined));
    const nodes = treeNodes(step, layout).sort((a, b) => a.y - b.y || a.x - b.x);
    const names = namesOfStep(step, 15);
    const more = (count) => body.append(...nodes.splice(0, count).map((node) => nodeRow(step, node, names)));
    body.replaceChildren();
    more(AT_ONCE);
    cancelAnimationFrame(waiting);
    const rest = () => {
      more(PER_FRAME);
      waiting = nodes.length ? requestAnimationFrame(rest) : 0;
      if (!waiting && picked !== null) select(picked);
    };
    waiting = nodes.length ? requestAnimationFrame(rest) : 0;
    registerExport("nodes", { place: () => body, table: () => nodesTable(step, term) });
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
  subscribe("quiet", ({ view }) => [view.searched, view.layout], ({ view }) => render(view.searched, view.layout, view.header));
  subscribe("quiet", (state) => [state.view.searched, markedNode(state)], (state) => select(markedNode(state)));
}

// Scrolls the table's added box, never the page.
function revealRow(row) {
  const box = row.closest(".ax-scroll");
  const head = 34;
  const top = row.offsetTop;
  if (top - head < box.scrollTop) box.scrollTop = top - head;
  else if (top + row.offsetHeight > box.scrollTop + box.clientHeight) box.scrollTop = top + row.offsetHeight - box.clientHeight;
}

function termButton(term, text = say(`fact.${term}`)) {
  return el("button", { type: "button", class: "ax-term", "data-term": term, text });
}

function nodeRow(step, node, names) {
  const { tree } = step;
  const added = node.id === TARGET;
  const choice = step.choices[step.choices.length - 1];
  const cell = (text) => el("td", { class: "ax-num", text });
  const value = (name, format) => cell(added ? "–" : format(column(tree, name)[node.id]));
  const token = el("td", {}, el("code", { text: names.get(node.token) }));
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
    value("prior", precise),
    value("visits", (count) => number(count, 0)),
    value("value", exact),
    value("score", scoreText),
    cell(precise(p)),
    cell(rank ? String(rank) : "–"),
  );
}

// The nodes of a step; the target's results are left out while they are hidden on screen.
export function nodesTable(step, term = "prior") {
  const { tree } = step;
  const columns = ["prior", "visits", "value", "score"];
  const head = ["node", "parent", "token", "text", "verdict", "reason", term.replace("-", "_"), ...columns.slice(1), "target_probability", "target_rank", "slot", "slot_after"];
  const { written, kept } = slotsOf(step);
  const after = new Map(kept.map(({ node, slot }) => [node, slot]));
  const verified = !step.exists;
  const rows = tree.tokens.map((token, i) => {
    const numbers = columns.map((name) => column(tree, name)[i]);
    const verdict = verified ? [tree.verdict[i], reasonText(step, i)] : [tree.verdict[i], null];
    const target = verified ? [tree.probability[i], rankOf(tree, i), written[i].slot, after.get(i)] : [null, null, written[i].slot, null];
    return [i, tree.parents[i], token, tree.texts[i], ...verdict, ...numbers, ...target];
  });
  return [head, ...rows];
}
