// The prompt above the runs: one line, expandable if it is longer.

import { setText } from "./dom.js";

// Returns a function that shows another prompt.
export function createPromptLine(part) {
  const [line, words, toggle] = ["prompt-line", "prompt", "prompt-toggle"].map(part);
  words.dir = "auto";

  function unfold(whole) {
    line.dataset.whole = String(whole);
    toggle.setAttribute("aria-expanded", String(whole));
    measure();
  }

  function measure() {
    const whole = line.dataset.whole === "true";
    toggle.hidden = !whole && !words.textContent.includes("\n") && line.scrollWidth <= line.clientWidth;
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
