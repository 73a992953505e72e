// The list of keyboard shortcuts.

import { on } from "./events.js";
import { el } from "./dom.js";
import { createSheet } from "./sheet.js";
import { shortcutsAreOn, switchShortcuts } from "./shortcuts.js";
import { say } from "./words.js";

// Keys, and the key of the text that explains them.
const ROWS = [
  [["Space"], "play"],
  [["←", "→"], "step"],
  [["Home", "End"], "ends"],
  [["←", "→", "↑", "↓"], "tree"],
  [["Esc"], "root"],
  [["↑", "↓"], "table"],
  [["Tab"], "tab"],
  [["Enter"], "enter"],
  [["Esc"], "close"],
  [["?"], "help"],
];

export function createShortcutSheet(button) {
  const sheet = createSheet("keys", "keys.title", () => [el("p", { class: "ax-dim", text: say("keys.intro") }), createSwitch(), list()]);
  button.addEventListener("click", sheet.open);
  on("shortcuts", sheet.open);
}

function createSwitch() {
  const box = el("input", { type: "checkbox", "data-part": "keys-on", checked: shortcutsAreOn() });
  box.addEventListener("change", () => switchShortcuts(box.checked));
  return el("label", { class: "ax-switch" }, box, say("keys.on"));
}

function list() {
  return el("dl", { class: "ax-key-list" }, ...ROWS.flatMap(([keys, name]) => [el("dt", {}, ...keys.map((text) => el("kbd", { text }))), el("dd", { text: say(`keys.${name}`) })]));
}
