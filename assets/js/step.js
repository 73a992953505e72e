// The step on screen as sentences, and the headings of its cards.

import { milliseconds, setText, small, visible } from "./dom.js";
import { covered } from "./player.js";
import { PARTS, column, priorTerm, targetTokenKind } from "./record.js";
import { engineText } from "./enginetext.js";
import { renderWalk } from "./steptables.js";
import { say } from "./words.js";

export function renderStep(part, state) {
  const run = state.race.runs[state.run];
  const step = run.steps[state.step];
  const { hidden } = run.layouts[state.step];
  const total = step.tree.tokens.length;
  setText(part("step-title"), say("step.title", { name: run.label, step: step.index + 1 }));
  setText(part("step-sentence"), covered(state) ? say("predict.covered", { count: total - 1 }) : sentence(step));
  setText(part("step-note"), engineText(step.note || ""));
  setText(part("step-budget"), say("step.budget", { count: step.budget.nodes, why: engineText(step.budget.why), used: total }));
  setText(part("hidden"), hidden ? say("step.hidden", { count: hidden, total }) : "");
  setText(part("step-seconds"), secondsText(step.seconds));
  renderWalk(part, step, run.header);
  renderChange(part, step, run);
}

// Whether what the step taught brought the matrix nearer to the target after this bigram, or farther from it.
function renderChange(part, step, run) {
  const learns = run.steps.some((other) => other.rows.length);
  part("change-card").hidden = !learns;
  part("learn-none").hidden = learns;
  setText(part("learn-none"), learns ? "" : say("learn.none", { name: run.label }));
  setText(part("change-sentence"), learns ? changeText(step) : "");
}

export function changeText({ agreement, agreement_after: after, rows }) {
  const [before, now] = [agreement, after ?? []].map((list) => list.find(({ who }) => who === "session")?.total_variation);
  if (!rows.length) return say("change.none");
  if (before === undefined || now === undefined) return say("change.unknown");
  const kind = small(before) === small(now) ? "same" : now < before ? "nearer" : "farther";
  return say(`change.${kind}`, { before: small(before), after: small(now) });
}

export function sentence(step) {
  const count = step.tree.tokens.length - 1;
  const accepted = step.origins.filter((o) => o === "draft").length;
  const kind = targetTokenKind(step);
  const end = kind ? say(`step.${kind}`, { token: visible(step.texts[step.texts.length - 1]) }) : say("step.ended");
  return count ? say("step.drafted", { count, accepted, end }) : say("step.undrafted", { end });
}

export function visitsKey(step, moment) {
  if (moment !== null) return say("tree.visits.puct");
  return column(step.tree, "visits").some((visits) => visits !== null) ? say("tree.visits") : "";
}

// What the colour of the nodes means, and the highest value of the step.
export function renderColourKey(part, colours, header) {
  part("colour-key").hidden = !colours;
  if (!colours) return;
  const term = colours.measure === "prior" ? priorTerm(header) : colours.measure;
  setText(part("colour-name"), term === "score" ? say("tree.colour", { measure: "PUCT" }) : say("tree.colour.root", { measure: say(`fact.${term}`) }));
  setText(part("colour-top"), small(colours.top));
}

function secondsText(seconds) {
  return PARTS.filter((name) => seconds[name] > 0)
    .map((name) => `${say(`part.${name}`)} ${milliseconds(seconds[name])}`)
    .join(" · ");
}
