// The recorded races as chips in the bar; the one on screen is marked.

import { emit, on } from "./events.js";
import { el } from "./dom.js";
import { localize, sayOr } from "./words.js";

export function createChips(root, titles) {
  const chips = titles.map((title) => el("button", { type: "button", class: "ax-pill", "data-race": title }));
  root.replaceChildren(...chips);
  root.hidden = !titles.length;
  root.addEventListener("click", (event) => {
    const chip = event.target.closest("[data-race]");
    if (chip && chip.getAttribute("aria-disabled") !== "true") emit("raceChosen", chip.dataset.race);
  });
  const word = () => {
    for (const chip of chips) chip.textContent = sayOr(`title.${chip.dataset.race}`, chip.dataset.race);
  };
  on("shown", ({ race }) => {
    for (const chip of chips) chip.setAttribute("aria-pressed", String(race.source === "recorded" && race.title === chip.dataset.race));
  });
  on("running", (id) => {
    for (const chip of chips) chip.setAttribute("aria-disabled", String(id !== null)); // the race in progress would replace the view again
  });
  localize(root, word);
  word();
}
