// Whether an answer is right. All results come from the record, or from the facts of the lesson. Draws nothing.

import { column, depthsOf } from "../record/record.js";
import { puctOf } from "../record/search.js";
import { placeOf, resolved } from "./values.js";

const NUMBER = "(?:\\d+\\.?\\d*|\\.\\d+)";
const TYPED = new RegExp(`^([+-]?${NUMBER})((?:[*/]${NUMBER})*)(%?)$`);

// A typed number: with a decimal point or comma, a percent sign, or a calculation of products and quotients such as 69/32; null if it is none.
export function typedNumber(text) {
  const plain = text.normalize("NFKC").replace(/\s/g, "").replaceAll("−", "-").replace(/[×·⋅]/g, "*").replace(/÷/g, "/").replaceAll(",", ".");
  const found = TYPED.exec(plain);
  if (!found) return null;
  const steps = found[2].match(/[*/][^*/]+/g) ?? [];
  const value = steps.reduce((made, step) => (step[0] === "*" ? made * Number(step.slice(1)) : made / Number(step.slice(1))), Number(found[1]));
  return Number.isFinite(value) ? value * (found[3] ? 0.01 : 1) : null;
}

// {right, kind, answer}: kind is "low", "high", "form" if the text is no number, or "unknown" if the record has no answer.
export function judgeNumber({ answer, tolerance }, text, context) {
  const wanted = resolved(answer, context);
  const given = typedNumber(text);
  if (wanted === null) return { right: false, kind: "unknown", answer: null };
  if (given === null) return { right: false, kind: "form", answer: wanted };
  const right = Math.abs(given - wanted) <= tolerance + 1e-9;
  return { right, kind: right ? "right" : given < wanted ? "low" : "high", answer: wanted };
}

// The number of the right option.
export function rightOption({ correct, options }, context) {
  if (Number.isInteger(correct)) return correct;
  const values = options.map(({ value }) => resolved(value, context));
  if (values.includes(null)) return null;
  return values.indexOf(correct === "greatest" ? Math.max(...values) : Math.min(...values));
}

export function judgeChoice(exercise, option, context) {
  const answer = rightOption(exercise, context);
  return { right: answer === option, kind: answer === null ? "unknown" : "wrong", answer };
}

// {right, kind, answer, agreed}: `answer` is the accepted path of the step without its root; `agreed`: how many of the predicted nodes are on it.
export function judgePath(predicted, { race, shown }) {
  const { recorded } = placeOf(race, {}, shown);
  const answer = recorded.path.slice(1);
  const differs = predicted.findIndex((node, i) => node !== answer[i]);
  const agreed = differs < 0 ? predicted.length : differs;
  const right = agreed === answer.length && predicted.length === answer.length;
  return { right, kind: right ? "right" : agreed < predicted.length ? "leaves" : agreed ? "short" : "none", answer, agreed };
}

const MEASURES = {
  score: ({ step, run }) => step.tree.parents.map((_, node) => (node ? (puctOf(step.tree, node, run.header.method_settings)?.score ?? null) : null)),
  probability: ({ step }) => step.tree.probability,
  depth: ({ step }) => depthsOf(step.tree.parents),
  ...Object.fromEntries(["visits", "prior", "value"].map((name) => [name, ({ step }) => column(step.tree, name)])),
};

// The right nodes: those with the properties that are asked for, and of these the ones with the greatest or the least value.
export function rightNodes({ children_of: parent = null, verdict = null, greatest = null, least = null }, { race, shown }) {
  const place = placeOf(race, {}, { ...shown });
  const { tree } = place.recorded;
  const fit = tree.parents.flatMap((up, node) => (node > 0 && (parent === null || up === parent) && (verdict === null || tree.verdict[node] === verdict) ? [node] : []));
  if (!greatest && !least) return fit;
  const measure = MEASURES[greatest ?? least](place);
  const known = fit.filter((node) => Number.isFinite(measure[node]));
  const best = Math[greatest ? "max" : "min"](...known.map((node) => measure[node]));
  return known.filter((node) => measure[node] === best);
}

export function judgeNode({ which }, node, context) {
  const answer = rightNodes(which, context);
  return { right: answer.includes(node), kind: answer.length ? "wrong" : "unknown", answer };
}
