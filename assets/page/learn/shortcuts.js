// Keyboard shortcuts of the page: Space plays, arrows step, Home and End jump, R runs, ? lists all shortcuts. They can be switched off, and do not
// act where the key has another use: in fields, lists and tables, on buttons, and in boxes that it scrolls. Ctrl+Enter runs from fields too.

import { el, isComposing, presenting } from "../core/dom.js";
import { on } from "../core/events.js";
import { loadItem, storeItem } from "../core/storage.js";
import { say } from "../core/words.js";
import { createSheet } from "./sheet.js";

const FIELDS = "input, textarea, select, [contenteditable='true'], [role='listbox'], [role='combobox'], [role='radio'], [role='textbox'], dialog";
const WITH_KEYS = "table, [role='grid'], [role='treegrid'], [role='tree'], [role='menu'], [role='tablist'], [role='spinbutton']";
const BUTTONS = "button, a, summary, [role='button']";
const STRIP = "[role='slider']"; // the time strip, which its keys move, whether or not there are shortcuts
const SIDEWAYS = ["ArrowLeft", "ArrowRight"];
const OF_STRIP = [...SIDEWAYS, "Home", "End"];
const EVERYWHERE = ["?", "r"]; // keys that no element but a field uses
const RUN = "body:not(.ax-embed) #ax-run"; // its button, also where presenting hides it; pages without a server have none
// Keys, and the key of the text that explains them.
const ROWS = [
  [["R", "Ctrl+Enter"], "run"],
  [["Space"], "play"],
  [["←", "→"], "step"],
  [["Home", "End"], "ends"],
  [["←", "→", "PgUp", "PgDn"], "present"],
  [["Esc"], "unpresent"],
  [["←", "→", "↑", "↓"], "tree"],
  [["Esc"], "root"],
  [["↑", "↓"], "table"],
  [["Tab"], "tab"],
  [["Enter"], "enter"],
  [["Esc"], "close"],
  [["?"], "help"],
];
const state = { off: loadItem("shortcuts") === "off" };

function switchShortcuts(on) {
  state.off = !on;
  storeItem("shortcuts", on ? "on" : "off");
}

export function listenToShortcuts({ play, left, right, home, end, help }) {
  const actions = { " ": play, ArrowLeft: left, ArrowRight: right, Home: home, End: end, r: run, "?": help };
  const onKey = (event) => {
    if (isSent(event)) return run();
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const action = actions[key];
    if (!action || event.defaultPrevented || isComposing(event) || event.ctrlKey || event.metaKey || event.altKey || (event.shiftKey && event.key !== "?")) return;
    const target = event.target instanceof Element ? event.target : document.body;
    if (state.off && !(OF_STRIP.includes(key) && target.closest(STRIP))) return;
    if (target.closest(FIELDS) || (!EVERYWHERE.includes(key) && isUsed(key, target))) return;
    event.preventDefault();
    action();
  };
  document.addEventListener("keydown", onKey);
}

// Whether it is Ctrl+Enter (on a Mac also Cmd+Enter) where it has no other use, such as sending a form.
function isSent(event) {
  return !state.off && event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.defaultPrevented && !event.repeat && !isComposing(event) && !event.target.closest?.("form, dialog");
}

// Does nothing while a race runs, when the button is disabled.
function run() {
  document.querySelector(RUN)?.click();
}

// Whether the element with the focus, or a box around it, has a use for a key.
function isUsed(key, target) {
  if (presenting() && SIDEWAYS.includes(key)) return false;
  if (target.closest(WITH_KEYS) || (key === " " && target.closest(BUTTONS))) return true;
  if (target.closest(STRIP)) return false;
  for (let box = target; box && box !== document.body; box = box.parentElement) if (scrolls(box, SIDEWAYS.includes(key))) return true;
  return false;
}

function scrolls(box, sideways) {
  const { overflowX, overflowY } = getComputedStyle(box);
  const overflows = (sideways ? box.scrollWidth - box.clientWidth : box.scrollHeight - box.clientHeight) > 1;
  return overflows && ["auto", "scroll"].includes(sideways ? overflowX : overflowY);
}

// The list of the shortcuts, with a switch.
export function createShortcutSheet(button) {
  const sheet = createSheet("keys", "keys.title", () => [el("p", { class: "ax-dim", text: say("keys.intro") }), createSwitch(), list()]);
  button.addEventListener("click", sheet.open);
  on("shortcuts", sheet.open);
}

function createSwitch() {
  const box = el("input", { type: "checkbox", "data-part": "keys-on", checked: !state.off });
  box.addEventListener("change", () => switchShortcuts(box.checked));
  return el("label", { class: "ax-switch" }, box, say("keys.on"));
}

function list() {
  const rows = ROWS.filter(([, name]) => name !== "run" || document.querySelector(RUN));
  return el("dl", { class: "ax-key-list" }, ...rows.flatMap(([keys, name]) => [el("dt", {}, ...keys.map((text) => el("kbd", { text }))), el("dd", { text: say(`keys.${name}`) })]));
}
