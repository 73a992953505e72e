// The score of a node as a colour: the paler the lower, the deeper the higher, up to the highest one of the step.

import { cssToken } from "./dom.js";
import { column } from "./record.js";
import { PHASES, moments, searchedStep } from "./search.js";

const MEASURES = ["score", "value", "prior"]; // the first that a draft's nodes have is its score
const highest = new WeakMap();

// What colours the nodes of a step as it is drawn: {measure, top, of}; `of` gives a node's share of the top, null where it
// has no score. Null where no node has one.
export function shadesOf(drawn, step, settings) {
  const measure = MEASURES.find((name) => column(drawn.tree, name).some((value, node) => node && value !== null));
  if (!measure) return null;
  const values = column(drawn.tree, measure);
  const top = drawn.exists ? highestOf(step, settings) : most(values);
  const of = (node) => (node > 0 && values[node] !== null ? (values[node] === Infinity ? 1 : Math.min(1, Math.max(0, values[node] / top))) : null);
  return top > 0 ? { measure, top, of } : null;
}

function most(values) {
  return Math.max(0, ...values.filter((value, node) => node && Number.isFinite(value)));
}

// The highest score of a whole search, so that a colour means the same at each of its moments.
function highestOf(step, settings) {
  if (!highest.has(step)) {
    const rounds = Array.from({ length: step.simulations.length + 1 }, (_, k) => Math.min(moments(step), PHASES.length * k + 1));
    highest.set(step, Math.max(...rounds.map((moment) => most(column(searchedStep(step, moment, settings).tree, "score")))));
  }
  return highest.get(step);
}

// The colour of a share, between the two ends that the tokens name.
export function shade(share) {
  const [low, high] = ["low", "high"].map((end) => cssToken(`--ax-score-${end}`));
  return mixed(low, high, share);
}

export function mixed(low, high, share) {
  const parts = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  const [from, to] = [parts(low), parts(high)];
  return `#${from.map((value, i) => Math.round(value + share * (to[i] - value)).toString(16).padStart(2, "0")).join("")}`;
}

// What a sign on a shade is drawn in: the one of two colours that stands out more.
export function signOn(ground, [one, other]) {
  const light = (colour) => {
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
  };
  const contrast = (colour) => Math.max(light(colour) / light(ground), light(ground) / light(colour));
  return contrast(one) >= contrast(other) ? one : other;
}
