// The steps of the tour, and the race steps that suit them.

import { exampleStep } from "../record/record.js";
import { canReplay } from "../record/search.js";

const drafted = (step) => step.tree.tokens.length > 1;
const rejected = (step) => step.tree.verdict.includes("rejected");
const searched = (step, { header }) => canReplay(step, header.method_settings);
const learned = (step) => step.rows.length > 0;

// Name, element, the tab that shows it, what the user is asked to do (the name of an action event), and what a race step must contain;
// `wide`: not on a phone, where the element is hidden.
export const TOUR_STEPS = [
  { name: "welcome", at: ".ax-race" },
  { name: "runs", at: "[data-part='runs']" },
  { name: "origins", at: "[data-part='origins']" },
  { name: "strip", at: ".ax-time", task: "step" },
  { name: "play", at: ".ax-time", task: "play" },
  { name: "tree", at: "[data-part='tree-card']", tab: "draft", needs: drafted },
  { name: "node", at: "[data-part='stage']", tab: "draft", task: "node", needs: rejected },
  { name: "predict", at: "[data-part='prediction-toggle']", tab: "draft", task: "predict", needs: drafted, wide: true },
  { name: "search", at: "[data-part='search-slot']", tab: "draft", task: "search", needs: searched },
  { name: "mask", at: "[data-part='mask-card']", tab: "pass", needs: drafted },
  { name: "walk", at: "[data-part='walk-card']", tab: "verify", needs: drafted },
  { name: "matrix", at: "[data-part='matrix-card']", tab: "learn", needs: learned },
];

// The tour step at which to continue, from the stored name.
export function resumeIndex(text) {
  const at = TOUR_STEPS.findIndex((step) => step.name === text);
  return Math.max(0, at);
}

// The race step, as {run, step}, for a tour step: the one on screen, else one of its run, of ADED's, of any; null if there is none.
export function findStep({ needs = () => true }, { race, run, step }) {
  const shown = race.runs[run].steps[step];
  if (shown && needs(shown, race.runs[run])) return { run, step };
  const all = [...race.runs.keys()];
  const aded = all.filter((at) => race.runs[at].header.method === "aded");
  const found = [run, ...aded, ...all].map((at) => ({ run: at, step: exampleAmong(race.runs[at], needs) }));
  return found.find((place) => place.step !== null) || null;
}

function exampleAmong(run, needs) {
  const fit = run.steps.flatMap((step, i) => (needs(step, run) ? [i] : []));
  return fit.length ? fit[exampleStep({ steps: fit.map((i) => run.steps[i]) })] : null;
}
