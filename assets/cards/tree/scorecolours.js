// The score of a node as a colour, from light (low) to dark (the highest score of the step). Probabilities use a square-root scale, so
// that low ones can be distinguished.

import { cssToken } from "../../page/core/dom.js";
import { column } from "../../page/record/record.js";
import { PHASES, searchedStep } from "../../page/record/search.js";

const MEASURES = ["score", "value", "prior"]; // the first one that the nodes have is used
const SAMPLES = 300; // simulations of a long search that are examined for the highest score
const highest = new WeakMap();

// Colours of the nodes of a step: {measure, top, of}; `of` returns a node's share of the highest value, null without a score. Null if no
// node has one.
export function scoreColours(drawn, step, settings) {
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

// The highest score of a step over its whole search, so that a colour means the same at every moment, before and after verification.

function highestOf(step, measure, settings) {
  if (!highest.has(step)) {
    const stride = Math.ceil(step.simulations.length / SAMPLES) || 1;
    const length = measure === "score" ? Math.ceil(step.simulations.length / stride) : 0;
    const moments = Array.from({ length }, (_, i) => PHASES.length * stride * i + 1);
    const searched = moments.map((moment) => most(column(searchedStep(step, moment, settings).tree, "score")));
    highest.set(step, Math.max(most(column(step.tree, measure)), ...searched));
  }
  return highest.get(step);
}

// Maps a share to a colour between the two ends of the scale (tokens.css).
export function colourScale() {
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

// The one of two colours that has more contrast to the background.
export function contrasting(background, [one, other]) {
  const light = (colour) => {
    const [r, g, b] = channels(colour).map((value) => value / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
  };
  const contrast = (colour) => Math.max(light(colour) / light(background), light(background) / light(colour));
  return contrast(one) >= contrast(other) ? one : other;
}
