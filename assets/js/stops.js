// The stops of the tour, and where each can be had: a step that holds what it speaks of.

import { tellingStep } from "./record.js";
import { canReplay } from "./search.js";

const drafted = (step) => step.tree.tokens.length > 1;
const refused = (step) => step.tree.verdict.includes("rejected");
const searched = (step, { header }) => canReplay(step, header.method_settings);
const taught = (step) => step.rows.length > 0;

// Name, place, what the learner is asked to do there (a name that the race panel says when it was done), and what a step must hold.
export const STOPS = [
  { name: "welcome", at: ".ax-race" },
  { name: "lanes", at: "[data-part='lanes']" },
  { name: "origins", at: "[data-part='origins']" },
  { name: "strip", at: ".ax-time", task: "step" },
  { name: "play", at: ".ax-time", task: "play" },
  { name: "tree", at: "[data-part='tree-card']", holds: drafted },
  { name: "node", at: "[data-part='tree-card']", task: "node", holds: refused },
  { name: "guess", at: "[data-part='guess-toggle']", task: "guess", holds: drafted },
  { name: "search", at: "[data-part='search-slot']", task: "search", holds: searched },
  { name: "walk", at: "[data-part='walk-card']", holds: drafted },
  { name: "mask", at: "[data-part='mask-card']", holds: drafted },
  { name: "matrix", at: "[data-part='matrix-card']", holds: taught },
];

// The stop to go on from, from what was remembered.
export function resumed(text) {
  const at = STOPS.findIndex((stop) => stop.name === text);
  return Math.max(0, at);
}

// The step, as {lane, step}, at which a stop can be had: the one on screen, else one of its lane, of ADED's, of any; null: nowhere.
export function placeFor({ holds = () => true }, { race, lane, step }) {
  const shown = race.lanes[lane].steps[step];
  if (shown && holds(shown, race.lanes[lane])) return { lane, step };
  const all = [...race.lanes.keys()];
  const aded = all.filter((at) => race.lanes[at].header.method === "aded");
  const found = [lane, ...aded, ...all].map((at) => ({ lane: at, step: tellingAmong(race.lanes[at], holds) }));
  return found.find((place) => place.step !== null) || null;
}

function tellingAmong(lane, holds) {
  const fit = lane.steps.flatMap((step, i) => (holds(step, lane) ? [i] : []));
  return fit.length ? fit[tellingStep({ steps: fit.map((i) => lane.steps[i]) })] : null;
}
