// The verdict on a race: one plain sentence on speed and text, and the small print. Tokens are compared, not texts.

import { fixed } from "./dom.js";
import { last, plainLane } from "./record.js";
import { say, sentences } from "./words.js";

const SAME_SPEED = 0.05; // ratios this close to 1 are called equal

export function verdict(race) {
  const { lanes, running } = race;
  const speeds = speedsText(race);
  if (!speeds) return { sentence: say("verdict.none"), detail: "" };
  const midway = running || lanes.some((lane) => !lane.finish_reason || lane.finish_reason === "cancelled");
  const clauses = [speeds, lanes.length > 1 ? textsText(race, midway) : ""].filter(Boolean).join(say("verdict.semicolon"));
  const sentence = say(midway && !running ? "verdict.midway" : "verdict.sentence", { clauses });
  return { sentence, detail: sentences(...notes(race), say("verdict.clocks")) };
}

// The longest verdict that a race may come to while it runs: what room has to be kept for.
export function longestVerdict(race) {
  const base = plainLane(race);
  const count = race.lanes.length;
  const others = base && count > 1 ? race.lanes.filter((lane) => lane !== base) : [];
  const speeds = others.map((lane, i) => longest(["faster", "slower", "same"].map((kind) => say(`verdict.${kind}.${i ? "more" : "sofar"}`, { name: lane.label, ratio: "0.00" }))));
  const alone = race.lanes.map((lane) => say("verdict.alone", { name: lane.label, rate: 1000, perPass: "10.0" }));
  const texts = count > 1 ? [say("verdict.common", { count: race.lanes[0].header.settings.max_new_tokens, lanes: say("verdict.lanes", { count }) })] : [];
  const clauses = [...(others.length ? speeds : alone), ...texts].join(say("verdict.semicolon"));
  return { sentence: say("verdict.sentence", { clauses }), detail: sentences(...notes(race), say("verdict.clocks")) };
}

function longest(texts) {
  return texts.reduce((a, b) => (b.length > a.length ? b : a));
}

// Index of the first token that is not the same in both; null where one is a prefix of the other.
export function firstDifference(a, b) {
  const at = a.slice(0, b.length).findIndex((token, i) => token !== b[i]);
  return at < 0 ? null : at;
}

export function written(lane) {
  return lane.steps.flatMap((step) => step.emitted);
}

function rateOf(lane) {
  const seconds = last(lane.ends, 0);
  return seconds > 0 ? last(lane.counts, 0) / seconds : 0;
}

// Every lane against plain decoding, fastest first, or each alone where plain decoding is not there; empty: too early.
function speedsText(race) {
  const base = plainLane(race);
  const started = race.lanes.filter((lane) => lane.steps.length);
  if (!base || race.lanes.length === 1) return started.map(aloneText).join(say("verdict.semicolon"));
  const others = started.filter((lane) => lane !== base).sort((a, b) => rateOf(b) - rateOf(a));
  if (!base.steps.length || !others.length) return "";
  const first = race.running ? "sofar" : "here";
  return others.map((lane, i) => speedText(lane, base, i ? "more" : first)).join(say("verdict.semicolon"));
}

function aloneText(lane) {
  const perPass = (last(lane.counts, 0) / lane.steps.length).toFixed(1);
  return say("verdict.alone", { name: lane.label, rate: Math.round(rateOf(lane)), perPass });
}

// A lane's rate as a multiple of the base's; `place` says whether the base is named: here, so far, or by the clause before.
function speedText(lane, base, place) {
  const [slow, fast] = [rateOf(base), rateOf(lane)];
  const name = lane.label;
  if (!slow || !fast) return say("verdict.untimed", { name });
  const ratio = fast / slow;
  const kind = Math.abs(ratio - 1) < SAME_SPEED ? "same" : ratio < 1 ? "slower" : "faster";
  return say(`verdict.${kind}.${place}`, { name, ratio: fixed(ratio, kind === "faster" ? 1 : 2) });
}

// Whether the lanes wrote the same, compared with plain decoding where it is one of them.
function textsText(race, midway) {
  const base = plainLane(race) || race.lanes[0];
  const texts = race.lanes.map(written);
  const count = race.lanes.length;
  const differing = race.lanes.flatMap((lane, i) => {
    const at = firstDifference(written(base), texts[i]);
    return at === null ? [] : [{ name: lane.label, at: at + 1 }];
  });
  if (differing.length) return differencesText(differing, count);
  const common = Math.min(...texts.map((text) => text.length));
  if (midway) return common ? say("verdict.common", { count: common, lanes: say("verdict.lanes", { count }) }) : say("verdict.nothing");
  if (texts.some((text) => text.length > common)) return say("verdict.lengths", { count: common });
  return say("verdict.identical", { count });
}

// Who wrote something else than the base, and from where on.
function differencesText(differing, count) {
  if (count === 2) return say("verdict.differ", { at: differing[0].at });
  const words = differing.map((one, i) => say(i ? "verdict.differs.more" : "verdict.differs", one));
  const same = count - differing.length;
  return [...words, same > 1 ? say("verdict.others", { count: same }) : ""].filter(Boolean).join(say("verdict.semicolon"));
}

// Which method may change the text; and where a lossless one wrote another text, what that means.
function notes(race) {
  const lossy = race.lanes.filter((lane) => !lane.header.lossless);
  const names = lossy.map((lane) => lane.label).join(say("verdict.and"));
  const first = lossy.length ? [say("verdict.lossy", { names, count: lossy.length })] : [];
  const base = plainLane(race) || race.lanes[0];
  const others = race.lanes.filter((lane) => lane.header.lossless && firstDifference(written(base), written(lane)) !== null);
  if (!others.length) return first;
  return [...first, say(others.some((lane) => lane.header.settings.temperature > 0) ? "verdict.sampled" : "verdict.fault")];
}
