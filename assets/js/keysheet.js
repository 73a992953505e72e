// The sheet of keys: what each one does, and where.

import { on } from "./bus.js";
import { el } from "./dom.js";
import { createSheet } from "./sheet.js";
import { say } from "./words.js";

// Keys, and the word for what they do.
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

export function createKeySheet(button) {
  const sheet = createSheet("keys", "keys.title", () => [el("p", { class: "ax-dim", text: say("keys.intro") }), list()]);
  button.addEventListener("click", sheet.open);
  on("keys", sheet.open);
}

function list() {
  return el("dl", { class: "ax-key-list" }, ...ROWS.flatMap(([keys, name]) => [el("dt", {}, ...keys.map((text) => el("kbd", { text }))), el("dd", { text: say(`keys.${name}`) })]));
}
