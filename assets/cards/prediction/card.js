// Predict, then reveal: which branch will the target take? The verification of a step stays hidden until the user has answered.

import { el, namesById, probability, setText, visible } from "../../page/core/dom.js";
import { emit } from "../../page/core/events.js";
import { remembered } from "../../page/core/store.js";
import { language, say, sentences } from "../../page/core/words.js";
import { TARGET } from "../../page/record/record.js";
import { childrenOf } from "../../page/record/stepview.js";

const MAX_BRANCHES = 5; // branches to choose from

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

// The number of correct predictions of a run, and of all.
export function score(predictions, steps) {
  return { right: [...predictions].filter(([index, node]) => targetBranch(steps[index]) === node).length, count: predictions.size };
}

export function mount({ part, player, subscribe }) {
  // The question is over the lower end of the window, where the stage would be, if that is not in view.
  const reveal = () => {
    const over = part("stage").getBoundingClientRect().bottom - part("dock").getBoundingClientRect().top;
    if (!part("prediction").hidden && over > 0) window.scrollBy(0, over);
  };
  part("prediction-toggle").addEventListener("click", () => {
    player.togglePrediction();
    requestAnimationFrame(() => requestAnimationFrame(reveal));
  });
  part("prediction-next").addEventListener("click", () => player.by(1));
  part("prediction-choices").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button || button.disabled) return;
    player.answer(Number(button.dataset.node));
    emit("action", "predict");
  });

  // Keeps the focus in this box when the button that was pressed is disabled or hidden.
  function keepFocus() {
    const at = document.activeElement;
    if (part("prediction").contains(at) && !at.hidden) return;
    part(part("prediction-next").hidden ? "prediction-toggle" : "prediction-next").focus({ preventScroll: true });
  }

  const isLast = (run, step) => step === run.steps[run.steps.length - 1];
  const drawChoices = remembered((step, answer) => {
    const offered = branches(step);
    const names = namesById(step.tree.tokens, step.tree.texts);
    part("prediction-choices").replaceChildren(...(offered.length ? [...offered, TARGET] : []).map((node) => choice(step, node, answer, names)));
  });

  function render({ predictions, step: at, view: { run, recorded: step } }) {
    part("prediction-toggle").setAttribute("aria-pressed", String(predictions !== null));
    part("prediction").hidden = predictions === null;
    if (predictions === null) return;
    const focused = part("prediction").contains(document.activeElement);
    const answer = predictions.get(at);
    const question = branches(step).length ? say("predict.question", { token: visible(step.tree.texts[0]) }) : say("predict.nothing");
    setText(part("prediction-question"), question);
    setText(part("prediction-answer"), answer === undefined ? "" : answerText(step, answer));
    part("prediction-next").hidden = isLast(run, step);
    drawChoices(step, answer, language());
    setText(part("prediction-score"), say("predict.score", score(predictions, run.steps)));
    if (focused) keepFocus();
  }

  subscribe("quiet", ({ predictions, step, view: { run, recorded } }) => [predictions, predictions?.get(step), recorded, isLast(run, recorded)], render);
}

function choice(step, node, answer, names) {
  const known = answer !== undefined;
  const right = known && node === targetBranch(step);
  const kind = right ? "right" : known && node === answer ? "wrong" : "open";
  const text = node === TARGET ? say("predict.other") : names.get(step.tree.tokens[node]);
  return el("button", { type: "button", class: "ax-choice", "data-node": node, "data-kind": kind, disabled: known }, el("code", { text }));
}

function answerText(step, answer) {
  const taken = targetBranch(step);
  const { text, probability: p } = step.choices[0] || { text: step.texts[0], probability: null };
  const values = { token: visible(text), p: probability(p) };
  return sentences(say(answer === taken ? "predict.right" : "predict.wrong", values), taken === TARGET ? say("predict.undrafted") : "");
}
