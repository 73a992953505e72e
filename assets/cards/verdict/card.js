// The verdict: what happened in a race, in one sentence: tokens and forward passes of every run; and whether the texts are the same.

import { el, setText } from "../../page/core/dom.js";
import { FEW, last, plainRun, speedSpread } from "../../page/record/record.js";
import { say, sentences } from "../../page/core/words.js";

export function mount({ part, subscribe }) {
  const fold = createFold(part("verdict"), part("verdict-more"));
  subscribe("frame", ({ race }) => [race, race.read], ({ race }) => {
    const { sentence, details } = verdict(race);
    setText(part("sentence"), sentence);
    const upTo = (count) => sentences(...details.slice(0, count));
    part("detail").replaceChildren(...details.map((_, i) => el("span", { text: upTo(i + 1).slice(upTo(i).length) })));
    fold(race);
  });
}

// Sentences that do not fit into the lines of the verdict (card.css) are left out as a whole, the last ones first, until the button shows them.
// The returned function folds the verdict of a race.
function createFold(box, more) {
  const isCut = () => box.scrollHeight > box.clientHeight + 1;
  let [shown, open] = [null, false];
  function fold() {
    const rest = [...box.querySelectorAll("[data-part='detail'] > span, .ax-turn")];
    for (const sentence of rest) sentence.hidden = false;
    more.hidden = true;
    box.dataset.whole = "false";
    more.hidden = !isCut();
    more.setAttribute("aria-expanded", String(open));
    while (!open && rest.length && isCut()) rest.pop().hidden = true;
    box.dataset.whole = String(isCut());
  }
  more.addEventListener("click", () => {
    open = !open;
    fold();
  });
  new ResizeObserver(() => requestAnimationFrame(fold)).observe(box);
  window.addEventListener("resize", fold);
  return (race) => {
    open &&= race === shown;
    shown = race;
    fold();
  };
}

const SLOWER = 0.95; // speed-up below which a run is called slower

export function verdict(race) {
  const { runs, running } = race;
  const started = runs.filter((run) => run.steps.length);
  if (!started.length) return { sentence: say("verdict.none"), details: [] };
  const midway = running || runs.some((run) => !run.finish_reason || run.finish_reason === "cancelled");
  const sentence = say(running ? "verdict.sofar" : midway ? "verdict.midway" : "verdict.sentence", { clauses: passesText(started) });
  const texts = runs.length > 1 ? say("verdict.sentence", { clauses: textsText(race, midway) }) : "";
  return { sentence, details: [capital(texts), midway ? "" : slowerText(race), ...notes(race)].filter(Boolean) };
}

// The runs that were clearly slower than plain decoding in this record and in every repeat; or why nothing is said.
export function slowerText(race) {
  const base = plainRun(race);
  if (!base) return "";
  if (race.runs.length > 1 && race.runs.some((run) => tokensOf(run) < FEW)) return say("verdict.short", { count: FEW });
  const ratioOf = (run) => speedSpread(run, base)?.[2] ?? (last(base.ends, 0) * tokensOf(run)) / (last(run.ends, 0) * tokensOf(base));
  const slower = race.runs.filter((run) => run !== base && ratioOf(run) < SLOWER);
  if (slower.length > 1 && slower.length === race.runs.length - 1) return say("verdict.slower.all");
  return slower.length ? say("verdict.slower", { names: slower.map((run) => run.label).join(say("verdict.and")), count: slower.length }) : "";
}

function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

const tokensOf = (run) => last(run.counts, 0);

// The runs that draft first, plain decoding last; the number of tokens once if it is the same for all.
function passesText(runs) {
  const plain = (run) => run.header.method === "plain";
  const [first, ...rest] = [...runs.filter((run) => !plain(run)), ...runs.filter(plain)];
  const values = (run) => ({ name: plain(run) && run !== first ? say("verdict.plain") : run.label, count: tokensOf(run), steps: run.steps.length, forward: say("verdict.forward", { count: run.steps.length }) });
  const same = rest.every((run) => tokensOf(run) === tokensOf(first));
  return [say("verdict.passes", values(first)), ...rest.map((run) => say(same ? "verdict.passes.more" : "verdict.passes.own", values(run)))].join(say("verdict.comma"));
}

// Index of the first token that differs; null if one text is a prefix of the other.
export function firstDifference(a, b) {
  const at = a.slice(0, b.length).findIndex((token, i) => token !== b[i]);
  return at < 0 ? null : at;
}

export function written(run) {
  return run.steps.flatMap((step) => step.emitted);
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
  if (differing.length) return differencesText(differing, base, count);
  const common = Math.min(...texts.map((text) => text.length));
  if (midway) return common ? say("verdict.common", { count: common, runs: say("verdict.runs", { count }) }) : say("verdict.nothing");
  if (texts.some((text) => text.length > common)) return say("verdict.lengths", { count: common });
  return say("verdict.identical", { count });
}

// Which runs differ from the base, each from which token on; and that the others are identical.
function differencesText(differing, base, count) {
  if (count === 2) return say("verdict.differ", differing[0]);
  const others = count - differing.length > 1 ? [say("verdict.others", { count: count - differing.length })] : [];
  if (differing.length === 1) return [say("verdict.differs", differing[0]), ...others].join(say("verdict.semicolon"));
  const places = [...new Set(differing.map(({ at }) => at))];
  const alike = (place) => differing.filter(({ at }) => at === place).map(({ name }) => name);
  const values = (at) => ({ names: alike(at).join(say("verdict.and")), count: alike(at).length, at, base: base.header.method === "plain" ? say("verdict.plain") : base.label });
  return [...places.map((at, i) => say(i ? "verdict.differs.too" : "verdict.differs.from", values(at))), ...others].join(say("verdict.semicolon"));
}

const RESAMPLING = ["speculative", "specinfer"]; // methods that draw another text than plain decoding, with the same distribution

// Why lossless methods wrote another text than plain decoding; `named`: with their names, because the race has lossy methods too.
function differenceText(runs, named) {
  const sampled = runs.filter((run) => run.header.settings.temperature > 0);
  const half = runs.find((run) => run.header.dtype !== "float32");
  if (sampled.some((run) => RESAMPLING.includes(run.header.method))) return say("verdict.sampled");
  const values = { dtype: half?.header.dtype, names: runs.map((run) => run.label).join(say("verdict.and")), count: runs.length };
  if (half) return say(named ? "verdict.rounding.of" : "verdict.rounding", values);
  return say(sampled.length ? "verdict.sampled" : "verdict.different");
}

// The lossy methods; and what it means if a lossless one wrote another text.
function notes(race) {
  const lossy = race.runs.filter((run) => !run.header.lossless);
  const names = lossy.map((run) => run.label).join(say("verdict.and"));
  const first = lossy.length ? [say("verdict.lossy", { names, count: lossy.length })] : [];
  const base = plainRun(race) || race.runs[0];
  const others = race.runs.filter((run) => run.header.lossless && firstDifference(written(base), written(run)) !== null);
  if (!others.length) return first;
  return [...first, differenceText(others, lossy.length > 0)];
}
