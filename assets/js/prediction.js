// Predict, then reveal: which branch will the target take? The verification of a step stays hidden until the user has answered.

import { el, probability, setText, visible } from "./dom.js";
import { column } from "./record.js";
import { TARGET } from "./treegrid.js";
import { language, say, sentences } from "./words.js";

const MAX_BRANCHES = 5; // branches to choose from

// Children of a node, by descending visit count, or by prior if visits are not counted.
function childrenOf(tree, node) {
  const weight = (child) => column(tree, "visits")[child] || column(tree, "prior")[child] || 0;
  return tree.parents.flatMap((parent, child) => (parent === node ? [child] : [])).sort((a, b) => weight(b) - weight(a) || a - b);
}

// Branches to choose from: children of the root, always including the one that the target chose.
export function branches(step) {
  const all = childrenOf(step.tree, 0);
  const rest = all.filter((node) => node !== targetBranch(step)).slice(0, all.includes(targetBranch(step)) ? MAX_BRANCHES - 1 : MAX_BRANCHES);
  return all.filter((node) => node === targetBranch(step) || rest.includes(node));
}

// The branch that the target took; TARGET if the draft did not contain its choice.
export function targetBranch(step) {
  return step.path.length > 1 ? step.path[1] : TARGET;
}

// The step before its verification.
export function unverified(step) {
  const verdict = step.tree.parents.map((_, node) => (node ? "unverified" : "root"));
  return { ...step, exists: verdict.map(() => true), tree: { ...step.tree, verdict } };
}

// Layout of a tree without verdicts: the child with the highest weight continues its parent's row, whether it was accepted or not.
export function unverifiedLayout(step, layout) {
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
  return { ...layout, target: null, rows: free + 1, y: layout.nodes.map((node) => rows.get(node)) };
}

// The number of correct predictions of a run, and of all.
export function score(predictions, steps) {
  return { right: [...predictions].filter(([index, node]) => targetBranch(steps[index]) === node).length, count: predictions.size };
}

export function createPrediction(part, { onToggle, onAnswer, onNext }) {
  let drawn = "";
  part("prediction-toggle").addEventListener("click", onToggle);
  part("prediction-next").addEventListener("click", onNext);
  part("prediction-choices").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button && !button.disabled) onAnswer(Number(button.dataset.node));
  });

  function renderChoices(step, offered, answer, key) {
    if (drawn === key) return;
    drawn = key;
    part("prediction-choices").replaceChildren(...(offered.length ? [...offered, TARGET] : []).map((node) => choice(step, node, answer)));
  }

  // Keeps the focus in this box when the button that was pressed is disabled or hidden.
  function keepFocus() {
    const at = document.activeElement;
    if (part("prediction").contains(at) && !at.hidden) return;
    part(part("prediction-next").hidden ? "prediction-toggle" : "prediction-next").focus({ preventScroll: true });
  }

  function render(state, step) {
    const on = state.predictions !== null;
    part("prediction-toggle").setAttribute("aria-pressed", String(on));
    part("prediction").hidden = !on;
    if (!on) return;
    const focused = part("prediction").contains(document.activeElement);
    const answer = state.predictions.get(state.step);
    const offered = branches(step);
    setText(part("prediction-question"), offered.length ? say("predict.question", { token: visible(step.tree.texts[0]) }) : say("predict.nothing"));
    setText(part("prediction-answer"), answer === undefined ? "" : answerText(step, answer));
    part("prediction-next").hidden = state.step >= state.race.runs[state.run].steps.length - 1;
    renderChoices(step, offered, answer, [state.race.id, state.run, state.step, answer, language()].join("/"));
    setText(part("prediction-score"), say("predict.score", score(state.predictions, state.race.runs[state.run].steps)));
    if (focused) keepFocus();
  }
  return { render };
}

function choice(step, node, answer) {
  const known = answer !== undefined;
  const right = known && node === targetBranch(step);
  const kind = right ? "right" : known && node === answer ? "wrong" : "open";
  const text = node === TARGET ? say("predict.other") : visible(step.tree.texts[node]);
  const mark = { right: " ✓", wrong: " ×", open: "" }[kind];
  return el("button", { type: "button", class: "ax-choice", "data-node": node, "data-kind": kind, disabled: known }, el("code", { text: text + mark }));
}

function answerText(step, answer) {
  const taken = targetBranch(step);
  const { text, probability: p } = step.choices[0] || { text: step.texts[0], probability: null };
  const values = { token: visible(text), p: probability(p) };
  return sentences(say(answer === taken ? "predict.right" : "predict.wrong", values), taken === TARGET ? say("predict.undrafted") : "");
}
