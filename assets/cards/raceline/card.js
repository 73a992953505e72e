// The line about the race on screen: prompt, methods, settings, where the race comes from, and the menu of its files. Its pens open the controls.

import { emit } from "../../page/core/events.js";
import { setText } from "../../page/core/dom.js";
import { say, sayOr } from "../../page/core/words.js";
import { createSave } from "../../page/export/save.js";
import { engineText } from "../../page/record/enginetext.js";
import { createOpening } from "../../page/shell/openfile.js";

const NARROW = "(max-width: 860px)"; // as in card.css: methods and settings are below the whole prompt

export function mount({ part, state, subscribe, open, savedPage }) {
  const showPrompt = createPromptLine(part);
  part("race-head").addEventListener("click", (event) => {
    const pen = event.target.closest("[data-edit]");
    if (pen) emit("edit", pen.dataset.edit);
  });
  createOpening(part, state, open);
  emit("embedCode", part("embed-code"));
  createSave(part, () => ({ race: state.race, standalone: savedPage }));
  subscribe("frame", ({ race }) => [race], ({ race }) => {
    renderLine(part, race);
    showPrompt(race.runs[0].turn?.message ?? race.runs[0].header.prompt);
  });
}

function renderLine(part, race) {
  const { header } = race.runs[0];
  setText(part("line-methods"), race.runs.map((run) => run.label).join(" · "));
  setText(part("line-settings"), settingsText(header.settings));
  setText(part("source"), race.source ? say(`source.${race.source}`) : "");
  setText(part("race-title"), sayOr(`title.${race.title}`, race.title));
  part("race-title").className = race.source === "recorded" ? "ax-sr" : ""; // its chip is marked
  const machine = engineText(header.device).replace(/^\w+ ?[(（](.*)[)）]$/, "$1");
  setText(part("machine"), race.source ? say(`source.${race.source}.machine`, { machine }) : machine);
  part("machine").title = [header.model, engineText(header.device), header.dtype].join(" · ");
}

// The settings of a race in one line: length, draft budget, temperature, and what else is not the default.
function settingsText({ max_new_tokens: tokens, budget, temperature, top_p, top_k, seed }) {
  const nodes = budget === undefined ? [] : [budget === "auto" ? say("line.auto") : say("line.nodes", { count: budget })];
  const parts = [say("line.tokens", { count: tokens }), ...nodes, `T ${temperature}`];
  if (temperature > 0 && top_p < 1) parts.push(`top-p ${top_p}`);
  if (temperature > 0 && top_k > 0) parts.push(`top-k ${top_k}`);
  if (temperature > 0) parts.push(say("line.seed", { seed }));
  return parts.join(" · ");
}

// Returns a function that shows another prompt.
function createPromptLine(part) {
  const [line, words, toggle] = ["prompt-line", "prompt", "prompt-toggle"].map(part);
  words.dir = "auto";

  function unfold(whole) {
    line.dataset.whole = String(whole);
    toggle.setAttribute("aria-expanded", String(whole));
    measure();
  }

  function measure() {
    const whole = line.dataset.whole === "true";
    toggle.hidden = !whole && !window.matchMedia(NARROW).matches && !words.textContent.includes("\n") && line.scrollWidth <= line.clientWidth;
  }

  toggle.addEventListener("click", () => unfold(line.dataset.whole !== "true"));
  new ResizeObserver(measure).observe(line);
  return (prompt) => {
    if (words.textContent === prompt) return;
    setText(words, prompt);
    line.dir = getComputedStyle(words).direction;
    unfold(false);
  };
}
