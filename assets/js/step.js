// A step in sentences, and its cards' headings.

import { milliseconds, setText, small, visible } from "./dom.js";
import { covered } from "./player.js";
import { PARTS, column } from "./record.js";
import { recorded } from "./recorded.js";
import { renderWalk } from "./tables.js";
import { tallest } from "./treegrid.js";
import { say } from "./words.js";

export function renderStep(part, state) {
  const lane = state.race.lanes[state.lane];
  const step = lane.steps[state.step];
  const { hidden } = lane.layouts[state.step];
  const total = step.tree.tokens.length;
  setText(part("step-title"), say("step.title", { name: lane.label, step: step.index + 1 }));
  setText(part("step-sentence"), covered(state) ? say("guess.covered", { count: total - 1 }) : sentence(step));
  setText(part("step-note"), recorded(step.note || ""));
  setText(part("step-budget"), say("step.budget", { count: step.budget.nodes, why: recorded(step.budget.why), used: total }));
  setText(part("hidden"), hidden ? say("step.hidden", { count: hidden, total }) : "");
  setText(part("step-seconds"), secondsText(step.seconds));
  part("tree").style.setProperty("--ax-room", `${Math.min(400, tallest(lane))}px`);
  renderWalk(part("walk"), step);
  part("search-slot").dataset.kept = String(lane.steps.some((other) => other.simulations.length));
  const drafts = lane.steps.some((other) => other.tree.tokens.length > 1); // in a lane that does, a step without a draft moves nothing
  for (const card of ["mask-card", "slots-card"]) part(card).hidden = !drafts;
  part("walk-card").hidden = step.choices.length === 0;
}

export function sentence(step) {
  const count = step.tree.tokens.length - 1;
  const accepted = step.origins.filter((o) => o === "draft").length;
  const own = step.origins[step.origins.length - 1] === "target";
  const end = own ? say("step.own", { token: visible(step.texts[step.texts.length - 1]) }) : say("step.ended");
  return count ? say("step.drafted", { count, accepted, end }) : say("step.undrafted", { end });
}

export function visitsKey(step, moment) {
  if (moment !== null) return say("tree.visits.puct");
  return column(step.tree, "visits").some((visits) => visits !== null) ? say("tree.visits") : "";
}

// What the nodes' colour stands for, and its highest value here.
export function renderShadeKey(part, shades) {
  part("shade-key").hidden = !shades;
  if (!shades) return;
  setText(part("shade-name"), shades.measure === "score" ? say("tree.shade", { measure: "PUCT" }) : say("tree.shade.root", { measure: say(`fact.${shades.measure}`) }));
  setText(part("shade-top"), small(shades.top));
}

function secondsText(seconds) {
  return PARTS.filter((name) => seconds[name] > 0)
    .map((name) => `${say(`part.${name}`)} ${milliseconds(seconds[name])}`)
    .join(" · ");
}
