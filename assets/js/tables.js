// The step in tables: the verification walk, the matrix row that learned, and every node (the picture's equal in text).

import { el, number, probability, setText, small, toggleClass, visible } from "./dom.js";
import { column } from "./record.js";
import { scoreText } from "./search.js";
import { OWN, treeNodes } from "./tree.js";
import { say } from "./words.js";

export function renderWalk(body, step) {
  body.replaceChildren(...step.choices.map((choice, i) => walkRow(step, choice, i)));
}

function walkRow(step, choice, i) {
  const cut = step.tree.reason.includes("cut at the end") && i === step.choices.length - 1 && choice.drafted;
  const verdict = !choice.drafted
    ? el("span", { class: "ax-own-word", text: say(step.tree.tokens.length > 1 ? "walk.undrafted" : "walk.nothing") })
    : el("span", { class: "ax-chip ax-chip-accepted", text: say(cut ? "walk.cut" : "walk.drafted") });
  const others = choice.top_tokens
    .map((token, k) => (token === choice.token ? null : `${visible(choice.top_texts[k])} ${probability(choice.top_probabilities[k])}`))
    .filter(Boolean)
    .slice(0, 2);
  const chosen = el("td", {}, el("code", { text: visible(choice.text) }), el("span", { class: "ax-num", text: ` ${probability(choice.probability)}` }));
  if (choice.draw !== null) chosen.append(el("span", { class: "ax-dim", text: ` ${say("walk.draw", { draw: number(choice.draw) })}` }));
  return el(
    "tr",
    { "data-node": choice.node },
    el("td", { class: "ax-dim", text: String(i + 1) }),
    el("td", {}, el("code", { text: visible(step.tree.texts[choice.node]) })),
    chosen,
    el("td", {}, verdict),
    el("td", { class: "ax-dim ax-next", text: others.join("  ") }),
  );
}

// The row of the current pair first; the others can be chosen.
export function createMatrix({ key, picker, list, more }) {
  let step = null;
  picker.addEventListener("change", () => show(step.rows[Number(picker.value)]));

  function render(next) {
    step = next;
    const { rows } = step;
    picker.replaceChildren(...rows.map((row, i) => el("option", { value: i, text: row.key_texts.map((t) => visible(t)).join(" ") })));
    picker.hidden = rows.length < 2;
    const first = Math.max(0, rows.findIndex((row) => row.key[row.key.length - 1] === step.tree.tokens[0]));
    picker.value = String(first);
    if (rows.length) show(rows[first]);
    else clear();
  }

  function clear() {
    setText(key, say("matrix.unchanged"));
    list.replaceChildren();
    setText(more, "");
  }

  function show(row) {
    setText(key, say("matrix.after", { pair: row.key_texts.map((t) => visible(t)).join(" ") }));
    const top = Math.max(0.01, ...row.before, ...row.after);
    const shown = Math.min(8, row.tokens.length);
    list.replaceChildren(...row.texts.slice(0, shown).map((text, i) => matrixRow(text, row.before[i], row.after[i], top)));
    const hidden = row.tokens.length - shown;
    const count = step.rows.length;
    setText(more, [hidden ? say("matrix.hidden", { count: hidden }) : "", count > 1 ? say("matrix.rows", { count }) : ""].join(" ").trim());
  }
  return { render };
}

function matrixRow(text, before, after, top) {
  const bar = el("i", { class: "ax-before" });
  const mark = el("i", { class: "ax-after" });
  bar.style.width = `${(100 * before) / top}%`;
  mark.style.left = `${(100 * after) / top}%`;
  const change = after - before;
  const word = Math.abs(change) < 0.005 ? "·" : `${change > 0 ? "+" : "−"}${Math.abs(change).toFixed(2)}`;
  const kind = word === "·" ? "ax-dim" : change > 0 ? "ax-up" : "ax-down";
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, el("code", { text: visible(text, 14) })),
    el("td", { class: "ax-track-cell" }, el("div", { class: "ax-track", "aria-hidden": "true" }, bar, mark)),
    el("td", { class: "ax-num" }, el("span", { class: "ax-sr", text: `${before.toFixed(2)} before, after ` }), after.toFixed(2)),
    el("td", { class: `ax-num ${kind}`, text: word }),
  );
}

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

  function render(step, layout) {
    const nodes = treeNodes(step, layout).sort((a, b) => a.y - b.y || a.x - b.x);
    body.replaceChildren(...nodes.map((node) => nodeRow(step, node)));
  }

  function select(node) {
    for (const row of body.rows) {
      const on = Number(row.dataset.node) === node;
      toggleClass(row, "ax-picked", on);
      row.setAttribute("aria-selected", String(on));
      row.tabIndex = on ? 0 : -1;
      if (on) revealRow(row);
    }
  }
  return { render, select };
}

// Scrolls the table's own box, never the page.
function revealRow(row) {
  const box = row.closest(".ax-scroll");
  const head = 34;
  const top = row.offsetTop;
  if (top - head < box.scrollTop) box.scrollTop = top - head;
  else if (top + row.offsetHeight > box.scrollTop + box.clientHeight) box.scrollTop = top + row.offsetHeight - box.clientHeight;
}

function nodeRow(step, node) {
  const { tree } = step;
  const own = node.id === OWN;
  const choice = step.choices[step.choices.length - 1];
  const cell = (text) => el("td", { class: "ax-num", text });
  const value = (name, format) => cell(own ? "–" : format(column(tree, name)[node.id]));
  const token = el("td", {}, el("code", { text: visible(node.text, 15) }));
  token.style.paddingLeft = `${6 + 7 * node.x}px`;
  const spoken = !step.exists;
  const p = own ? choice && choice.probability : spoken ? tree.probability[node.id] : null;
  const rank = own ? choice && choice.rank : spoken && tree.rank[node.id];
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
