// The exercises of a lesson: a question, the means to answer it, and the verdict, which is announced.

import { el, setText, visible } from "../core/dom.js";
import { say, sentences } from "../core/words.js";
import { namesOfStep } from "../record/record.js";
import { childrenOf } from "../record/stepview.js";
import { judgeChoice, judgeNode, judgeNumber, judgePath } from "./judge.js";
import { nodesOf, plainOf } from "./markup.js";
import { digitsFor, placeOf, shownValue } from "./values.js";

const button = (key, attributes = {}) => el("button", { type: "button", class: "ax-pill", ...attributes, text: say(key) });

// The element of an exercise. `lesson`: {context, node, fact, onVerdict}: `context()` returns {race, facts, shown}, race being null until it is on
// screen; `node()` the selected node; `fact` the text of a fact; `onVerdict` is called with whether the answer is right.
// `solved`: in this or an earlier visit; `answered`: since the lesson was opened, so that the answer may be known.
// Returns {element, refresh}; `refresh` is called when another race or node is on screen.
export function createExercise(exercise, lesson, { solved, answered }) {
  const verdict = el("div", { class: "ax-lesson-verdict", role: "status", "aria-live": "polite", "data-part": "lesson-verdict" });
  const state = { answered };
  const paragraph = (text) => el("p", {}, ...nodesOf(text, lesson.fact));

  // Shows a verdict; with the explanation if the answer is right or was asked for.
  function tell(right, sentence, explained = right) {
    verdict.dataset.right = String(right);
    const again = right || explained ? null : button("lesson.reveal", { "data-part": "lesson-reveal" });
    again?.addEventListener("click", reveal);
    verdict.replaceChildren(...[el("p", { class: "ax-lesson-result" }, `${right ? "✓" : explained ? "→" : "✗"} ${sentence}`), explained ? paragraph(exercise.why) : null, again].filter(Boolean));
    if (right || explained) state.answered = true;
    lesson.onVerdict(right, right || explained);
  }

  function reveal() {
    tell(false, answers.text(), true);
    verdict.tabIndex = -1;
    verdict.focus({ preventScroll: true });
  }

  const answers = KINDS[exercise.kind](exercise, lesson, tell, state);
  const hint = exercise.hint ? el("details", { class: "ax-lesson-hint" }, el("summary", { text: say("lesson.hint") }), paragraph(exercise.hint)) : null;
  const mark = el("span", { class: "ax-lesson-solved", text: solved ? say("lesson.solved.before") : "" });
  const head = el("h4", {}, say(`lesson.kind.${exercise.kind}`), " ", mark);
  const element = el("section", { class: "ax-lesson-exercise", "data-kind": exercise.kind, "aria-label": say("lesson.exercise") }, head, paragraph(exercise.question), hint, answers.element, verdict);
  answers.refresh();
  return { element, refresh: answers.refresh };
}

const KINDS = { number: numberExercise, choice: choiceExercise, node: nodeExercise, path: pathExercise };

function numberExercise(exercise, { context }, tell) {
  const input = el("input", { type: "text", inputmode: "decimal", autocomplete: "off", "data-part": "lesson-number", "aria-label": say("lesson.kind.number"), size: "10" });
  const check = el("button", { type: "submit", class: "ax-pill", "data-part": "lesson-check", text: say("lesson.check") });
  const element = el("form", { class: "ax-lesson-answer" }, input, check, el("span", { class: "ax-dim", text: say("lesson.tolerance", { value: shownValue(exercise.tolerance, { digits: digitsFor(exercise.tolerance) }) }) }));
  element.addEventListener("submit", (event) => {
    event.preventDefault();
    const { right, kind } = judgeNumber(exercise, input.value, context());
    input.setAttribute("aria-invalid", String(kind === "form"));
    tell(right, say(`lesson.verdict.number.${kind}`));
  });
  const answer = () => judgeNumber(exercise, "0", context()).answer;
  const digits = Math.max(2, digitsFor(exercise.tolerance) + 1);
  return { element, refresh: () => {}, text: () => say("lesson.answer", { answer: shownValue(answer(), Number.isInteger(answer()) ? {} : { digits }) }) };
}

function choiceExercise(exercise, { context, fact }, tell) {
  const name = `ax-lesson-option-${Math.random().toString(36).slice(2)}`;
  const element = el("fieldset", { class: "ax-lesson-options" }, el("legend", { class: "ax-sr", text: plainOf(exercise.question, fact) }));
  exercise.options.forEach(({ text }, i) => {
    const input = el("input", { type: "radio", name, value: i });
    element.append(el("label", {}, input, el("span", {}, ...nodesOf(text, fact))));
  });
  const check = button("lesson.check", { "data-part": "lesson-check" });
  element.append(check);
  check.addEventListener("click", () => {
    const chosen = element.querySelector("input:checked");
    if (!chosen) return tell(false, say("lesson.verdict.choice.none"));
    const { right, kind } = judgeChoice(exercise, Number(chosen.value), context());
    return tell(right, say(right ? "lesson.verdict.right" : `lesson.verdict.choice.${kind}`));
  });
  const answer = () => judgeChoice(exercise, 0, context()).answer;
  return { element, refresh: () => {}, text: () => say("lesson.answer", { answer: answer() === null ? "…" : plainOf(exercise.options[answer()].text, fact) }) };
}

// The names of the nodes of the step that the part shows; null while its race is not there.
function stepOf({ context }) {
  const { race, shown } = context();
  const step = race && placeOf(race, {}, shown).recorded;
  return step ? { step, name: (node) => namesOfStep(step).get(step.tree.tokens[node]) ?? visible(step.tree.texts[node]) } : null;
}

function nodeExercise(exercise, lesson, tell) {
  const chosen = el("code");
  const check = button("lesson.check", { "data-part": "lesson-check" });
  const element = el("div", { class: "ax-lesson-answer" }, el("span", {}, say("lesson.node.selected"), " ", chosen), check);
  const refresh = () => {
    const found = stepOf(lesson);
    const node = lesson.node();
    check.disabled = !found || !lesson.there();
    setText(chosen, found && lesson.there() && node !== null && node >= 0 ? found.name(node) : "–");
  };
  check.addEventListener("click", () => {
    const { right, kind } = judgeNode(exercise, lesson.node(), lesson.context());
    tell(right, say(right ? "lesson.verdict.right" : `lesson.verdict.node.${kind}`));
  });
  const names = () => judgeNode(exercise, 0, lesson.context()).answer.map((node) => `“${stepOf(lesson).name(node)}”`);
  return { element, refresh, text: () => say("lesson.answer", { answer: names().join(", ") }) };
}

// The accepted path is predicted token by token: a child of the last predicted node, or that the target chooses another token there.
function pathExercise(_, lesson, tell, state) {
  const trail = el("p", { class: "ax-lesson-trail", "aria-live": "polite" });
  const choices = el("div", { class: "ax-lesson-choices" });
  const element = el("div", {}, trail, choices);
  let path = [];
  let ended = false;

  function refresh() {
    const found = stepOf(lesson);
    const key = `${Boolean(found)}/${path.join()}/${ended}`;
    if (element.dataset.key === key) return;
    element.dataset.key = key;
    if (!found) return choices.replaceChildren(el("span", { class: "ax-dim", text: say("lesson.waits") }));
    const { step, name } = found;
    const arrow = (node) => [el("span", { "aria-hidden": "true", text: "›" }), el("code", { text: name(node) })];
    trail.replaceChildren(el("code", { text: name(0) }), ...path.flatMap(arrow), ended ? el("span", { class: "ax-dim", text: say("lesson.path.ended") }) : "");
    const here = path.at(-1) ?? 0;
    const children = ended ? [] : childrenOf(step.tree, here);
    const next = children.map((node) => el("button", { type: "button", class: "ax-choice", "data-node": node }, el("code", { text: name(node) })));
    const end = ended ? null : button(children.length ? "lesson.path.end" : "lesson.path.leaf", { "data-part": "lesson-end" });
    end?.addEventListener("click", finish);
    const again = path.length || ended ? button("lesson.path.again", { "data-part": "lesson-again" }) : null;
    again?.addEventListener("click", () => change([], false));
    choices.replaceChildren(...[...next, end, again].filter(Boolean));
  }

  function change(now, over) {
    const focused = choices.contains(document.activeElement);
    [path, ended] = [now, over];
    refresh();
    if (focused) choices.querySelector("button")?.focus({ preventScroll: true });
  }

  function finish() {
    change(path, true);
    const { right, kind, agreed, answer } = judgePath(path, lesson.context());
    const found = stepOf(lesson);
    const accepted = answer.map((node) => found.name(node)).join(" › ") || say("lesson.path.none");
    const before = state.answered;
    state.answered = true;
    const sentence = right ? say("lesson.verdict.right") : sentences(say(`lesson.verdict.path.${kind}`, { count: agreed, of: path.length }), say("lesson.path.accepted", { path: accepted }));
    tell(right && !before, before && right ? say("lesson.verdict.path.known") : sentence, true);
  }

  choices.addEventListener("click", (event) => {
    const pressed = event.target.closest("[data-node]");
    if (pressed) change([...path, Number(pressed.dataset.node)], false);
  });
  return { element, refresh, text: () => "" };
}
