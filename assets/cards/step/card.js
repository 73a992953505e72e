// The step on screen in one sentence, also for screen readers.

import { el, milliseconds, setText, visible } from "../../page/core/dom.js";
import { say } from "../../page/core/words.js";
import { engineText } from "../../page/record/enginetext.js";
import { PARTS, targetToken, targetTokenKind } from "../../page/record/record.js";

const SPOKEN = 1500; // milliseconds between two announcements for screen readers

export function mount({ part, state, subscribe }) {
  const speak = createSpeaker(part("live"), state);
  subscribe("quiet", ({ view }) => [view.recorded, view.covered], ({ view: { run, recorded, covered } }) => {
    setText(part("step-title"), say("step.title", { name: run.label, step: recorded.index + 1 }));
    setText(part("step-sentence"), coveredSentence(recorded, covered));
    setText(part("step-note"), engineText(recorded.note || ""));
    renderFacts(part("step-facts"), [...secondsTexts(recorded.seconds), budgetText(recorded)]);
  });
  subscribe("quiet", ({ view, playing }) => (playing === 0 ? [view.recorded, view.covered] : null), speak);
}

function renderFacts(box, texts) {
  const title = texts.join(" · ");
  if (box.title === title) return;
  box.title = title;
  box.replaceChildren(...texts.map((text) => el("span", { text })));
}

// The time of the step by its parts.
function secondsTexts(seconds) {
  return PARTS.filter((name) => seconds[name] > 0).map((name) => `${say(`part.${name}`)} ${milliseconds(seconds[name])}`);
}

function budgetText({ budget, tree }) {
  return say("step.budget", { count: budget.nodes, why: engineText(budget.why), used: tree.tokens.length });
}

// Returns a function that announces the step, after the pause between two announcements.
function createSpeaker(box, state) {
  let spokenAt = -SPOKEN;
  let timer = 0;

  return function speak() {
    clearTimeout(timer);
    const { view, playing } = state;
    if (!view || playing !== 0) return;
    const rest = SPOKEN - (performance.now() - spokenAt);
    if (rest > 0) {
      timer = setTimeout(speak, rest);
      return;
    }
    const words = say("live.step", { step: view.recorded.index + 1, sentence: coveredSentence(view.recorded, view.covered) });
    if (box.textContent !== words) spokenAt = performance.now();
    setText(box, words);
  };
}

function coveredSentence(step, covered) {
  return covered ? say("predict.covered", { count: step.tree.tokens.length - 1 }) : sentence(step);
}

function sentence(step) {
  const count = step.tree.tokens.length - 1;
  const accepted = step.origins.filter((o) => o === "draft").length;
  const kind = targetTokenKind(step);
  const end = kind ? say(`step.${kind}`, { token: visible(targetToken(step).text) }) : say("step.ended");
  return count ? say("step.drafted", { count, accepted, end }) : say("step.undrafted", { end });
}
