// Presenting: no controls, larger type, and arrows that go from tab to tab and from step to step.

import { emit, on } from "../core/events.js";
import { TABS } from "./tabs.js";
import { onLanguage, say } from "../core/words.js";

const CLASS = "ax-hide-controls";

export const presenting = () => document.body.classList.contains(CLASS);

// `button` switches it; `first`: whether the page starts with it; `changed` is called after each change.
export function createPresent(button, first, changed) {
  function set(now) {
    document.body.classList.toggle(CLASS, now);
    button.setAttribute("aria-pressed", String(now));
    button.dataset.say = now ? "present.close" : "present.open";
    button.textContent = say(button.dataset.say);
    emit("present", now);
    changed();
  }
  button.addEventListener("click", () => set(!presenting()));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && presenting() && !event.defaultPrevented) set(false);
  });
  onLanguage(() => set(presenting()));
  set(first);
}

// Arrow keys while presenting: the next tab, after the last one the next step, and back.
export function createPresenter(state, player, showTab) {
  let active = false;
  on("present", (now) => (active = now));
  return (direction) => {
    if (!active) return false;
    const at = TABS.indexOf(state.tab) + direction;
    if (at < 0 || at >= TABS.length) player.by(direction);
    showTab(TABS.at((at + TABS.length) % TABS.length));
    return true;
  };
}
