// Presenting: no controls, larger type, and arrows that go from tab to tab and from step to step.

import { PRESENTING, presenting } from "../core/dom.js";
import { emit } from "../core/events.js";
import { TABS } from "./tabs.js";
import { onLanguage, say } from "../core/words.js";

const PLAY = "[data-part='play']"; // has the focus after the start, so that Space plays

// `button` switches it; `first`: whether the page starts with it; `changed` is called after each change.
export function createPresent(button, first, changed) {
  function set(now) {
    document.body.classList.toggle(PRESENTING, now);
    button.setAttribute("aria-pressed", String(now));
    button.dataset.say = now ? "present.close" : "present.open";
    button.textContent = say(button.dataset.say);
    emit("present", now);
    changed();
  }
  button.addEventListener("click", () => {
    set(!presenting());
    if (presenting()) document.querySelector(PLAY)?.focus({ preventScroll: true });
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && presenting() && !event.defaultPrevented && !document.querySelector("dialog[open]")) set(false);
  });
  onLanguage(() => set(presenting()));
  set(first);
}

// The buttons for the recorded race before and after the one on screen, in the order of their chips, which presenting hides; after the last one
// comes the first. A button that was pressed by pointer leaves the focus to the one that plays.
export function createOtherRaces(chips, back, next) {
  for (const [button, direction] of [[back, -1], [next, 1]]) {
    button.addEventListener("click", ({ detail }) => {
      const all = [...chips.children];
      const at = all.findIndex((chip) => chip.getAttribute("aria-pressed") === "true");
      const other = at < 0 && direction < 0 ? all.length - 1 : (at + direction + all.length) % all.length;
      all[other]?.click();
      if (detail) document.querySelector(PLAY)?.focus({ preventScroll: true });
    });
  }
}

const PAGES = { PageUp: -1, PageDown: 1 }; // keys of remote controls for slides

// Arrow keys and those of remote controls while presenting: the next tab, after the last one the next step, and back. The returned function
// says whether it did something.
export function createPresenter(state, player, showTab) {
  const go = (direction) => {
    if (!presenting()) return false;
    const at = TABS.indexOf(state.tab) + direction;
    if (at < 0 || at >= TABS.length) player.by(direction);
    showTab(TABS.at((at + TABS.length) % TABS.length));
    return true;
  };
  document.addEventListener("keydown", (event) => {
    if (event.key in PAGES && !event.target.closest("dialog, input, textarea, select") && go(PAGES[event.key])) event.preventDefault();
  });
  return go;
}
