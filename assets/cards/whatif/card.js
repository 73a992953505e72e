// What if: the target's choice at a node of the accepted path with another temperature, top-k, top-p or seed, computed from the
// recorded logits.

import { precise, testText } from "../../page/record/acceptance.js";
import { el, namesById, setText, visible } from "../../page/core/dom.js";
import { offerExport, onScreen, registerExport } from "../../page/export/exports.js";
import { shares } from "../../page/plot/shares.js";
import { isGreedy, recordedDistribution, recordedSettings, resample, shownSettings } from "./sampling.js";
import { say, sentences } from "../../page/core/words.js";

const SHOWN = 10; // most probable tokens in the table
const MAX_TEMPERATURE = 2;
const ROUNDING = 1e-9; // probabilities below this are 0 but for rounding
const SLIDERS = { temperature: "temperature", top_k: "top-k", top_p: "top-p" }; // setting: its part

// The choice that a node belongs to: its own, or that at its nearest ancestor on the accepted path; the last one for the bonus or
// correction token, whose node is negative.
export function choiceOf({ tree, choices }, node) {
  for (let at = node; at >= 0; at = tree.parents[at]) {
    const i = choices.findIndex((choice) => choice.node === at);
    if (i >= 0) return i;
  }
  return choices.length - 1;
}

// Why the choice cannot be computed again, as a key; null if it can.
export function obstacle(choice, header, block = null) {
  if (block) return "block";
  if (!choice?.logits) return "absent";
  if (choice.typical) return "typical";
  return Number.isSafeInteger(header.seed) ? null : "seed";
}

// What changes with other settings, in words; `changes`: the settings that differ from those of the run, in words.
export function whatIfText({ choices }, i, made, changes) {
  const { text, token, drafted, rejection } = choices[i];
  const values = { changes, token: visible(made.text ?? text), recorded: visible(text), p: recordedShare(made) };
  if (!changes) return say("whatif.unchanged", values);
  if (made.token === null) return say(`whatif.open.${made.open}`, values);
  const wasAccepted = rejection ? rejection.residual_probability === null : drafted;
  if (!isCertain(made)) return say("whatif.uncertain", values);
  const same = made.token === token;
  const then = same && made.accepted === wasAccepted ? "" : made.accepted ? say("whatif.then.accepted") : wasAccepted ? say("whatif.then.rejected", values) : "";
  return sentences(say(same ? "whatif.same" : "whatif.other", values), then);
}

// Whether no token that is not recorded can be the choice.
const isCertain = ({ missed }) => missed < ROUNDING;

// The probability of all recorded tokens together, or its lower bound.
function recordedShare({ exact, missed, others }) {
  const share = 1 - (missed || others);
  return share > 0.99995 ? say("whatif.over", { p: "0.9999" }) : exact ? precise(share) : say("whatif.least", { p: precise(share) });
}

// `leading`: chosen unless a token that is not recorded is.
const chosenOf = (first, made) => ({ chosen: first && isCertain(made), leading: first && !isCertain(made) });

// The rows of the table: the most probable tokens, the chosen and the recorded one, and all others together (token null):
// {token, text, recorded, p, q (of the first child tried; null if none was), residual, cut, chosen, leading, was, drafted, count of recorded tokens}.
export function whatIfRows({ tree, choices }, i, made, header) {
  const choice = choices[i];
  const recorded = recordedDistribution(choice, header).items;
  const drafted = new Set(tree.tokens.filter((_, node) => tree.parents[node] === choice.node));
  const drafts = choice.rejection?.trials[0]?.logits_q ?? [];
  const all = made.items.map((item, k) => ({ ...item, recorded: recorded[k].p, q: drafts[k] ?? null, residual: made.residual[k]?.p ?? null, ...chosenOf(item.token === made.token, made), was: item.token === choice.token, drafted: drafted.has(item.token), count: 1 }));
  const rows = all.filter((row, k) => k < SHOWN || row.chosen || row.leading || row.was);
  const rest = (name) => {
    const sum = rows.reduce((left, row) => left - row[name], 1);
    return sum < ROUNDING ? 0 : sum;
  };
  return [...rows, { token: null, text: null, recorded: rest("recorded"), p: rest("p"), q: drafts.length ? rest("q") : null, residual: made.residual.length ? rest("residual") : null, cut: null, ...chosenOf(false, made), was: false, drafted: false, count: all.length - rows.length }];
}

export function mount({ part, subscribe }) {
  offerExport("whatif", { group: "step", title: "whatif.title", at: part("whatif"), table: true });
  const state = { step: null, header: null, node: null, settings: {}, draws: 0, at: 0 };

  subscribe("quiet", ({ view, node, tab }) => (tab === "verify" ? [view.recorded, node] : null), ({ view: { recorded: step, header }, node }) => {
    if (state.header !== header) state.settings = recordedSettings(header);
    if (state.step !== step || state.node !== node) Object.assign(state, { at: choiceOf(step, node), draws: 0 });
    Object.assign(state, { step, header, node });
    draw("off");
  });

  function draw(live) {
    const { step, header, at } = state;
    const problem = obstacle(step.choices[at], header, step.block);
    setText(part("whatif-intro"), say(`whatif.intro.${problem ?? "ready"}`));
    part("whatif-body").hidden = problem !== null;
    if (problem) return;
    part("whatif-choice").replaceChildren(...step.choices.map(({ node }, i) => el("option", { value: i, selected: i === at, text: `${i + 1} ${visible(step.tree.texts[node])}` })));
    drawFields();
    part("whatif-sentence").setAttribute("aria-live", live);
    const made = resample(step, at, header, state.settings, BigInt(header.seed + state.draws));
    setText(part("whatif-sentence"), whatIfText(step, at, made, changes()));
    part("whatif-tests").replaceChildren(...made.tests.map(({ node }) => el("li", {}, el("code", { text: visible(step.tree.texts[node]) }), ` ${testText(step, { rejection: { trials: made.tests } }, node)}`)));
    setText(part("whatif-p-head"), say("whatif.p", { temperature: state.settings.temperature }));
    setText(part("whatif-recorded-head"), say("whatif.recorded", { temperature: shownSettings(header).temperature }));
    drawTable(part, whatIfRows(step, at, made, header), made);
    setText(part("whatif-note"), noteOf(step.choices[at], made));
  }

  function drawFields() {
    const { settings, step, header, at } = state;
    const { ranked } = step.choices[at].logits;
    const { temperature, top_k, top_p } = settings;
    part("whatif-temperature").max = String(Math.max(MAX_TEMPERATURE, recordedSettings(header).temperature));
    part("whatif-top-k").max = String(ranked + 1); // the last place is no limit
    const places = { temperature, top_k: top_k && top_k <= ranked ? top_k : ranked + 1, top_p };
    const words = { temperature: String(temperature), top_k: top_k ? String(top_k) : say("whatif.off"), top_p: top_p < 1 ? String(top_p) : say("whatif.off") };
    for (const [name, slider] of Object.entries(SLIDERS)) {
      part(`whatif-${slider}`).value = String(places[name]);
      part(`whatif-${slider}`).setAttribute("aria-valuetext", words[name]);
      setText(part(`whatif-${slider}-value`), words[name]);
    }
    part("whatif-draw").disabled = isGreedy(settings);
    part("whatif-reset").disabled = !changes();
  }

  // The settings that differ from those of the run, in words; empty if none does.
  function changes() {
    const { settings, header, draws } = state;
    const recorded = recordedSettings(header);
    const changed = Object.entries(SLIDERS).filter(([name]) => settings[name] !== recorded[name]);
    const words = changed.map(([name, key]) => `${say(`whatif.${key}`)} ${name === "top_k" && !settings[name] ? say("whatif.off") : settings[name]}`);
    return [...words, ...(draws ? [`${say("whatif.seed")} ${header.seed + draws}`] : [])].join(", ");
  }

  function change(name, value) {
    state.settings = { ...state.settings, [name]: value };
    draw("polite");
  }

  part("whatif-temperature").addEventListener("input", ({ target }) => change("temperature", Number(target.value)));
  part("whatif-top-k").addEventListener("input", ({ target }) => change("top_k", target.value === target.max ? 0 : Number(target.value)));
  part("whatif-top-p").addEventListener("input", ({ target }) => change("top_p", Number(target.value)));
  part("whatif-choice").addEventListener("change", ({ target }) => {
    Object.assign(state, { at: Number(target.value), draws: 0 });
    draw("polite");
  });
  part("whatif-draw").addEventListener("click", () => {
    state.draws += 1;
    draw("polite");
  });
  part("whatif-reset").addEventListener("click", () => {
    Object.assign(state, { settings: recordedSettings(state.header), draws: 0 });
    draw("polite");
  });

  function noteOf({ rejection }, made) {
    const rejects = state.header.method_settings.verification === "rejection" && !isGreedy(state.settings);
    return sentences(
      isGreedy(state.settings) ? say("whatif.note.greedy") : "",
      made.exact ? "" : say("whatif.note.bounds"),
      rejects && rejection ? say("whatif.note.q") : "",
      rejects && isGreedy(recordedSettings(state.header)) ? say("whatif.note.coupled") : "",
    );
  }
}

// Whether the residual probabilities are known, not only lower bounds.
function isExact(residual) {
  return residual.every(({ p, most }) => most - p <= 0.001 * most);
}

// The sign of a lower bound, or of the upper bound of all other tokens together; none for a number that is known.
function boundSign(known, token, value) {
  return known || value === 0 || value > 0.99995 ? "" : token === null ? "≤ " : "≥ ";
}

function drawTable(part, rows, { exact, residual }) {
  const top = Math.max(...rows.flatMap(({ p, q, recorded }) => [p, q ?? 0, recorded]));
  part("whatif-residual-head").hidden = !residual.length;
  part("whatif-q-head").hidden = rows[0].q === null;
  const named = rows.filter(({ token }) => token !== null);
  const names = namesById(named.map(({ token }) => token), named.map(({ text }) => text));
  part("whatif-rows").replaceChildren(...rows.map((row) => rowOf(row, top, { p: exact, residual: isExact(residual) }, names)));
  const head = ["token", "text", "recorded", "p", "q", "residual", "excluded_by", "chosen"];
  registerExport("whatif", { place: () => (onScreen(part("whatif-rows")) ? part("whatif-rows") : null), table: () => [head, ...rows.map(({ token, text, recorded, p, q, residual: left, cut, chosen }) => [token, text, recorded, p, q, left, cut, String(chosen)])] });
}

// `known`: whether p and the residual probabilities are known.
function rowOf({ token, recorded, p, q, residual, cut, chosen, leading, was, drafted, count }, top, known, names) {
  const bars = shares({ p, q }, top);
  const mark = el("b");
  mark.style.left = `${(100 * recorded) / top}%`;
  const status = [chosen && "chosen", leading && "leading", was && !chosen && "was", drafted && "drafted", cut && `cut.${cut}`].filter(Boolean);
  return el(
    "tr",
    { "data-chosen": chosen && "true", "data-cut": cut && "true", "data-others": token === null && "true" },
    el("td", {}, token === null ? say("whatif.others", { count }) : el("code", { text: names.get(token) }), " ", el("span", { class: "ax-whatif-status", text: status.map((name) => say(`whatif.${name}`)).join(" · ") })),
    el("td", {}, el("div", { class: "ax-whatif-bar", "aria-hidden": "true" }, bars, mark)),
    el("td", { class: "ax-num", text: boundSign(known.p || cut, token, p) + precise(p) }),
    el("td", { class: "ax-num", text: precise(recorded) }),
    q === null ? null : el("td", { class: "ax-num", text: precise(q) }),
    residual === null ? null : el("td", { class: "ax-num", text: boundSign(known.residual, token, residual) + precise(residual) }),
  );
}
