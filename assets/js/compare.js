// This run beside the one before: what was set otherwise, and what came of it.

import { el, fixed, number, rate, setText, visible } from "./dom.js";
import { figures, plainLane } from "./record.js";
import { choice, laneLabel } from "./recorded.js";
import { say, sayOr, sentences } from "./words.js";

// What of a finished race is kept to be compared with.
export function summary(race) {
  const plain = plainLane(race);
  const base = plain ? figures(plain, plain.steps.length).rate : 0;
  const { prompt, settings } = race.lanes[0].header;
  const lanes = race.lanes.map((lane) => {
    const { tokens, rate: speed, perPass } = figures(lane, lane.steps.length);
    const { method, label } = lane.header;
    return { method, label, own: lane.header.method_settings, tokens, rate: speed, perPass, ratio: base ? speed / base : null };
  });
  return { prompt, settings, lanes, stopped: race.lanes.some((lane) => lane.finish_reason === "cancelled") };
}

// Settings that differ: {label of the lane or null, name, before, after}; a lane that is in one run alone has none.
export function changes(before, now) {
  const common = differing(before.settings, now.settings).map((change) => ({ label: null, ...change }));
  const own = now.lanes.flatMap((lane) => {
    const old = before.lanes.find(({ label }) => label === lane.label);
    return old ? differing(old.own, lane.own).map((change) => ({ label: laneLabel(lane), ...change })) : [];
  });
  return [...common, ...own.filter(({ name }) => !common.some((change) => change.name === name))];
}

function differing(a, b) {
  const names = [...new Set([...Object.keys(a), ...Object.keys(b)])];
  return names.filter((name) => text(a[name]) !== text(b[name])).map((name) => ({ name, before: text(a[name]), after: text(b[name]) }));
}

function text(value) {
  return value === undefined || value === null ? "–" : typeof value === "object" ? JSON.stringify(value) : String(value);
}

const SAME = { base_matrix: "corpus" }; // settings that are another one's doing
const WORDS = { true: "on", false: "off" };

// A setting by its label on the page, and a value of it in words.
function settingName(name) {
  return sayOr(`control.${SAME[name] ?? name}`, name.replaceAll("_", " "));
}

function settingValue(name, value) {
  if (name === "simulations" && value === "0") return choice("automatic");
  return visible(choice(WORDS[value] ?? value), 30);
}

// Whether one of the runs, or both, ended before their texts did.
export function stoppedSentence(before, now) {
  const which = before.stopped && now.stopped ? "both" : now.stopped ? "now" : before.stopped ? "before" : null;
  return which ? say(`compare.stopped.${which}`) : "";
}

export function changesSentence(before, now) {
  const words = changes(before, now).map(({ label, name, before: old, after }) => {
    const values = { name: settingName(name), label, before: settingValue(name, old), after: settingValue(name, after) };
    return say(label ? "compare.own" : "compare.change", values);
  });
  if (labels(before) !== labels(now)) words.unshift(say("compare.lanes"));
  if (before.prompt !== now.prompt) words.unshift(say("compare.prompt"));
  if (words.length) return say("compare.changed", { changes: words.join(say("verdict.semicolon")) });
  return say(before.stopped || now.stopped ? "compare.unchanged" : "compare.same");
}

function labels(run) {
  return JSON.stringify(run.lanes.map((lane) => lane.label).sort());
}

export function renderCompare(part, before, now) {
  part("compare-card").hidden = !now;
  if (!now) return;
  part("compare-table").hidden = !before;
  setText(part("compare-sentence"), before ? sentences(changesSentence(before, now), stoppedSentence(before, now)) : say("compare.first"));
  if (before) part("compare-rows").replaceChildren(...rows(before, now));
}

function rows(before, now) {
  const all = [...new Set([...now.lanes, ...before.lanes].map((lane) => lane.label))];
  const of = (run, label) => run.lanes.find((lane) => lane.label === label);
  return all.map((label) => [of(before, label), of(now, label)]).map(([old, fresh]) => compareRow(laneLabel(fresh || old), old, fresh));
}

function compareRow(label, old, now) {
  const speeds = [old, now].map((lane) => (lane ? rate(lane.rate) : "–"));
  const gains = [old, now].map((lane) => (lane?.ratio ? `${number(lane.ratio)}×` : "–"));
  const counts = [old, now].map((lane) => (lane ? number(lane.perPass) : "–"));
  const change = old && now && old.perPass ? now.perPass - old.perPass : 0;
  const kind = Math.abs(change) < 0.005 ? "ax-dim" : change > 0 ? "ax-up" : "ax-down";
  const cells = [...speeds, ...gains, ...counts].map((value) => el("td", { class: "ax-num", text: value }));
  const difference = Math.abs(change) < 0.005 ? "·" : `${change > 0 ? "+" : "−"}${fixed(Math.abs(change), 2)}`;
  return el("tr", {}, el("th", { scope: "row", text: label }), ...cells, el("td", { class: `ax-num ${kind}`, text: difference }));
}
