// The score of a node as a colour: the paler the lower, the deeper the higher, up to the highest one of the step. Those of
// probabilities go by their square roots, so that low ones can be told apart too.

import { cssToken } from "./dom.js";
import { column } from "./record.js";
import { PHASES, searchedStep } from "./search.js";

const MEASURES = ["score", "value", "prior"]; // the first that a draft's nodes have is its score
const ROUNDS = 300; // of a long search that are looked at for its highest score
const highest = new WeakMap();

// What colours the nodes of a step as it is drawn: {measure, top, of}; `of` gives a node's share of the top, null where it
// has no score. Null where no node has one.
export function shadesOf(drawn, step, settings) {
  const measure = MEASURES.find((name) => column(drawn.tree, name).some((value, node) => node && value !== null));
  if (!measure) return null;
  const values = column(drawn.tree, measure);
  const top = highestOf(step, measure, settings);
  const share = (value) => Math.min(1, Math.max(0, value / top)) ** (measure === "score" ? 1 : 0.5);
  const of = (node) => (node > 0 && values[node] !== null ? share(values[node]) : null);
  return top > 0 ? { measure, top, of } : null;
}

function most(values) {
  return Math.max(0, ...values.filter((value, node) => node && Number.isFinite(value)));
}

// The highest score of a step and of the whole search that made it, so that a colour means the same at each of its moments,
// before the verdict and behind it.
function highestOf(step, measure, settings) {
  if (!highest.has(step)) {
    const stride = Math.ceil(step.simulations.length / ROUNDS) || 1;
    const length = measure === "score" ? Math.ceil(step.simulations.length / stride) : 0;
    const moments = Array.from({ length }, (_, i) => PHASES.length * stride * i + 1);
    const searched = moments.map((moment) => most(column(searchedStep(step, moment, settings).tree, "score")));
    highest.set(step, Math.max(most(column(step.tree, measure)), ...searched));
  }
  return highest.get(step);
}

// Gives the colour of a share, between the two ends that the tokens name.
export function shader() {
  const [low, high] = ["low", "high"].map((end) => cssToken(`--ax-score-${end}`));
  return (share) => mixed(low, high, share);
}

function channels(colour) {
  return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
}

export function mixed(low, high, share) {
  const [from, to] = [channels(low), channels(high)];
  return `#${from.map((value, i) => Math.round(value + share * (to[i] - value)).toString(16).padStart(2, "0")).join("")}`;
}

// What a sign on a shade is drawn in: the one of two colours that stands out more.
export function signOn(ground, [one, other]) {
  const light = (colour) => {
    const [r, g, b] = channels(colour).map((value) => value / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
  };
  const contrast = (colour) => Math.max(light(colour) / light(ground), light(ground) / light(colour));
  return contrast(one) >= contrast(other) ? one : other;
}
