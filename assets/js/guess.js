// Predict, then reveal: which branch will the model take? The verdict on a step stays covered until it is answered.

import { el, probability, setText, visible } from "./dom.js";
import { column } from "./record.js";
import { OWN } from "./tree.js";
import { language, say, sentences } from "./words.js";

const MOST = 5; // branches offered

// A node's children, the most visited or else the most probable by the draft first.
function childrenOf(tree, node) {
  const weight = (child) => column(tree, "visits")[child] || column(tree, "prior")[child] || 0;
  return tree.parents.flatMap((parent, child) => (parent === node ? [child] : [])).sort((a, b) => weight(b) - weight(a) || a - b);
}

// Branches to choose from: the root's children; the true one is always among them.
export function branches(step) {
  const all = childrenOf(step.tree, 0);
  const rest = all.filter((node) => node !== truth(step)).slice(0, all.includes(truth(step)) ? MOST - 1 : MOST);
  return all.filter((node) => node === truth(step) || rest.includes(node));
}

// The branch that the target took; OWN where the draft did not hold its choice.
export function truth(step) {
  return step.path.length > 1 ? step.path[1] : OWN;
}

// The step as it stood before the target spoke.
export function unjudged(step) {
  const verdict = step.tree.parents.map((_, node) => (node ? "unjudged" : "root"));
  return { ...step, exists: verdict.map(() => true), tree: { ...step.tree, verdict } };
}

// The layout of a tree that knows no verdict: the draft's own favourite on the first row, and not what was accepted.
export function unjudgedLayout(step, layout) {
  const rows = new Map([[0, 0]]);
  let free = 0;
  const descend = (node) => {
    const shown = childrenOf(step.tree, node).filter((child) => layout.nodes.includes(child));
    for (const [i, child] of shown.entries()) {
      rows.set(child, i ? ++free : rows.get(node));
      descend(child);
    }
  };
  descend(0);
  return { ...layout, own: null, rows: free + 1, y: layout.nodes.map((node) => rows.get(node)) };
}

// How many of a lane's answered steps were guessed.
export function score(guesses, steps) {
  return { right: [...guesses].filter(([index, node]) => truth(steps[index]) === node).length, count: guesses.size };
}

export function createGuess(part, { onToggle, onAnswer, onNext }) {
  let drawn = "";
  part("guess-toggle").addEventListener("click", onToggle);
  part("guess-next").addEventListener("click", onNext);
  part("guess-choices").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button && !button.disabled) onAnswer(Number(button.dataset.node));
  });

  function renderChoices(step, offered, answer, key) {
    if (drawn === key) return;
    drawn = key;
    part("guess-choices").replaceChildren(...(offered.length ? [...offered, OWN] : []).map((node) => choice(step, node, answer)));
  }

  // Whoever answers or goes on by keyboard keeps a place here when the button that was pressed is closed.
  function keepFocus() {
    const at = document.activeElement;
    if (part("guess").contains(at) && !at.hidden) return;
    part(part("guess-next").hidden ? "guess-toggle" : "guess-next").focus({ preventScroll: true });
  }

  function render(state, step) {
    const on = state.guess !== null;
    part("guess-toggle").setAttribute("aria-pressed", String(on));
    part("guess").hidden = !on;
    if (!on) return;
    const focused = part("guess").contains(document.activeElement);
    const answer = state.guess.get(state.step);
    const offered = branches(step);
    setText(part("guess-question"), offered.length ? say("guess.question", { token: visible(step.tree.texts[0]) }) : say("guess.nothing"));
    setText(part("guess-answer"), answer === undefined ? "" : answerText(step, answer));
    part("guess-next").hidden = state.step >= state.race.lanes[state.lane].steps.length - 1;
    renderChoices(step, offered, answer, [state.race.id, state.lane, state.step, answer, language()].join("/"));
    setText(part("guess-score"), say("guess.score", score(state.guess, state.race.lanes[state.lane].steps)));
    if (focused) keepFocus();
  }
  return { render };
}

function choice(step, node, answer) {
  const known = answer !== undefined;
  const right = known && node === truth(step);
  const kind = right ? "right" : known && node === answer ? "wrong" : "open";
  const text = node === OWN ? say("guess.other") : visible(step.tree.texts[node]);
  const mark = { right: " ✓", wrong: " ×", open: "" }[kind];
  return el("button", { type: "button", class: "ax-choice", "data-node": node, "data-kind": kind, disabled: known }, el("code", { text: text + mark }));
}

function answerText(step, answer) {
  const taken = truth(step);
  const { text, probability: p } = step.choices[0] || { text: step.texts[0], probability: null };
  const values = { token: visible(text), p: probability(p) };
  return sentences(say(answer === taken ? "guess.right" : "guess.wrong", values), taken === OWN ? say("guess.undrafted") : "");
}
