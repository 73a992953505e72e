// The verdict on a race: one sentence about speed and texts, and notes. Texts are compared as tokens.

import { fixed } from "./dom.js";
import { last, plainRun } from "./record.js";
import { say, sentences } from "./words.js";

const SAME_SPEED = 0.05; // speed-ups this close to 1 are reported as equal

export function verdict(race) {
  const { runs, running } = race;
  const speeds = speedsText(race);
  if (!speeds) return { sentence: say("verdict.none"), detail: "" };
  const midway = running || runs.some((run) => !run.finish_reason || run.finish_reason === "cancelled");
  const clauses = [speeds, runs.length > 1 ? textsText(race, midway) : ""].filter(Boolean).join(say("verdict.semicolon"));
  const sentence = say(midway && !running ? "verdict.midway" : "verdict.sentence", { clauses });
  return { sentence, detail: sentences(...notes(race), say("verdict.time"), say("verdict.tau")) };
}

// The longest verdict that a running race can get; space is reserved for it.
export function longestVerdict(race) {
  const base = plainRun(race);
  const count = race.runs.length;
  const others = base && count > 1 ? race.runs.filter((run) => run !== base) : [];
  const speeds = others.map((run, i) => longest(["faster", "slower", "same"].map((kind) => say(`verdict.${kind}.${i ? "more" : "sofar"}`, { name: run.label, ratio: "0.00" }))));
  const alone = race.runs.map((run) => say("verdict.alone", { name: run.label, rate: 1000, perStep: "10.0" }));
  const texts = count > 1 ? [say("verdict.common", { count: race.runs[0].header.settings.max_new_tokens, runs: say("verdict.runs", { count }) })] : [];
  const clauses = [...(others.length ? speeds : alone), ...texts].join(say("verdict.semicolon"));
  return { sentence: say("verdict.sentence", { clauses }), detail: sentences(...notes(race), say("verdict.time"), say("verdict.tau")) };
}

function longest(texts) {
  return texts.reduce((a, b) => (b.length > a.length ? b : a));
}

// Index of the first token that differs; null if one text is a prefix of the other.
export function firstDifference(a, b) {
  const at = a.slice(0, b.length).findIndex((token, i) => token !== b[i]);
  return at < 0 ? null : at;
}

export function written(run) {
  return run.steps.flatMap((step) => step.emitted);
}

function rateOf(run) {
  const seconds = last(run.ends, 0);
  return seconds > 0 ? last(run.counts, 0) / seconds : 0;
}

// The speed-up of every run over plain decoding, fastest first, or each run alone without plain decoding; empty if it is too early.
function speedsText(race) {
  const base = plainRun(race);
  const started = race.runs.filter((run) => run.steps.length);
  if (!base || race.runs.length === 1) return started.map(aloneText).join(say("verdict.semicolon"));
  const others = started.filter((run) => run !== base).sort((a, b) => rateOf(b) - rateOf(a));
  if (!base.steps.length || !others.length) return "";
  const first = race.running ? "sofar" : "here";
  return others.map((run, i) => speedText(run, base, i ? "more" : first)).join(say("verdict.semicolon"));
}

function aloneText(run) {
  const perStep = (last(run.counts, 0) / run.steps.length).toFixed(1);
  return say("verdict.alone", { name: run.label, rate: Math.round(rateOf(run)), perStep });
}

// The speed-up of a run; `place` selects the wording: relative to plain decoding here, so far, or as in the clause before.
function speedText(run, base, place) {
  const [slow, fast] = [rateOf(base), rateOf(run)];
  const name = run.label;
  if (!slow || !fast) return say("verdict.untimed", { name });
  const ratio = fast / slow;
  const kind = Math.abs(ratio - 1) < SAME_SPEED ? "same" : ratio < 1 ? "slower" : "faster";
  return say(`verdict.${kind}.${place}`, { name, ratio: fixed(ratio, kind === "faster" ? 1 : 2) });
}

// Whether all runs wrote the same tokens, compared with plain decoding if it takes part.
function textsText(race, midway) {
  const base = plainRun(race) || race.runs[0];
  const texts = race.runs.map(written);
  const count = race.runs.length;
  const differing = race.runs.flatMap((run, i) => {
    const at = firstDifference(written(base), texts[i]);
    return at === null ? [] : [{ name: run.label, at: at + 1 }];
  });
  if (differing.length) return differencesText(differing, count);
  const common = Math.min(...texts.map((text) => text.length));
  if (midway) return common ? say("verdict.common", { count: common, runs: say("verdict.runs", { count }) }) : say("verdict.nothing");
  if (texts.some((text) => text.length > common)) return say("verdict.lengths", { count: common });
  return say("verdict.identical", { count });
}

// The runs that differ from the base, and from which token on.
function differencesText(differing, count) {
  if (count === 2) return say("verdict.differ", { at: differing[0].at });
  const words = differing.map((one, i) => say(i ? "verdict.differs.more" : "verdict.differs", one));
  const same = count - differing.length;
  return [...words, same > 1 ? say("verdict.others", { count: same }) : ""].filter(Boolean).join(say("verdict.semicolon"));
}

// The lossy methods; and what it means if a lossless one wrote another text.
function notes(race) {
  const lossy = race.runs.filter((run) => !run.header.lossless);
  const names = lossy.map((run) => run.label).join(say("verdict.and"));
  const first = lossy.length ? [say("verdict.lossy", { names, count: lossy.length })] : [];
  const base = plainRun(race) || race.runs[0];
  const others = race.runs.filter((run) => run.header.lossless && firstDifference(written(base), written(run)) !== null);
  if (!others.length) return first;
  return [...first, say(others.some((run) => run.header.settings.temperature > 0) ? "verdict.sampled" : "verdict.different")];
}
