// Playback of the search: phase by phase, forwards and backwards, or automatically.

import { setText, toggleClass } from "../../page/core/dom.js";
import { moments, phaseAt, searchNote, searchText } from "../../page/record/search.js";
import { say } from "../../page/core/words.js";

const LONGEST = 36000; // maximum duration of a replay in milliseconds
const TICK = { least: 60, most: 700 }; // milliseconds between two phases

// `onMoment` is called with the moment to show, null for the end of the search; `current` returns the step on screen, which may not be drawn here yet.
export function createSearch(part, current, onMoment) {
  const phases = [...part("phases").children];
  let shown = { step: null, header: null, moment: null };
  let timer = 0;

  const total = () => moments(shown.step);
  const at = () => (shown.moment === null ? total() : shown.moment);

  const go = (moment) => show(moment >= total() ? null : Math.max(0, moment));

  // A moment of a step that is no longer on screen is not shown.
  function show(moment) {
    if (current() === shown.step) onMoment(moment);
    else halt();
  }

  function halt() {
    clearTimeout(timer);
    timer = 0;
  }

  function tick() {
    timer = at() < total() ? setTimeout(tick, tickOf(total())) : 0;
    go(at() + 1);
  }

  function toggle() {
    if (timer) {
      halt();
      show(shown.moment);
    } else {
      timer = setTimeout(tick, tickOf(total()));
      go(shown.moment ?? 0);
    }
  }

  function render(step, header, moment) {
    if (step !== shown.step) halt();
    shown = { step, header, moment };
    const note = searchNote(step, header);
    setText(part("search-note"), note);
    part("search-note").title = note;
    part("search-row").hidden = Boolean(note) || !step.simulations.length;
    if (!part("search-row").hidden) renderRow(part, phases, shown, Boolean(timer));
  }

  part("search").addEventListener("input", (event) => {
    halt();
    go(Number(event.target.value));
  });
  part("search-play").addEventListener("click", toggle);
  for (const [name, by] of [["search-back", -1], ["search-forward", 1]]) {
    part(name).addEventListener("click", () => {
      halt();
      go(at() + by);
    });
  }
  return { render, isPlaying: () => Boolean(timer) };
}

export function tickOf(total) {
  return Math.max(TICK.least, Math.min(TICK.most, LONGEST / total));
}

function renderRow(part, phases, { step, header, moment }, playing) {
  const total = moments(step);
  const slider = part("search");
  slider.max = String(total);
  slider.value = String(moment === null ? total : moment);
  const words = searchText(step, moment, header.method_settings);
  slider.setAttribute("aria-valuetext", words);
  setText(part("search-text"), words);
  const count = step.simulations.length;
  const { k, phase } = moment === null ? { phase: -1 } : phaseAt(moment);
  setText(part("search-count"), moment === null ? say("search.count", { count }) : say("search.at", { k, count }));
  phases.forEach((item, i) => {
    toggleClass(item, "ax-phase-now", i === phase);
    item.setAttribute("aria-current", i === phase ? "step" : "false");
  });
  part("search-back").disabled = moment === 0;
  part("search-forward").disabled = moment === null;
  part("search-play").dataset.on = String(playing);
  part("search-play").setAttribute("aria-label", say(playing ? "search.pause" : "search.play"));
}
