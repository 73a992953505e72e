// Several turns on the page: the field for the next message below a live race, or why there is none, the turns before it in the texts of the
// runs, and a sentence about the tokens that the prefill read and the gain from what the drafters have learned. It is loaded with the script of
// the lessons.

import { el, setText } from "../core/dom.js";
import { emit, on } from "../core/events.js";
import { last } from "../record/record.js";
import { language, localize, say, sentences } from "../core/words.js";
import { viewOf } from "../shell/link.js";

export function mountConversation({ part, element, state, subscribe, changed, trigger }) {
  const line = el("span", { class: "ax-turn", "data-part": "turn" });
  part("verdict-more").before(line, " ");
  element.addEventListener("click", ({ target }) => target instanceof Element && target.matches(".ax-earlier button") && unfold(element, target));
  const form = trigger ? createForm(state, trigger) : null;
  const reason = el("span");
  const latest = el("button", { type: "button", class: "ax-pill ax-small-pill" });
  const why = el("p", { class: "ax-dim ax-continue-why", "data-part": "turn-why", hidden: true }, reason, " ", latest);
  const own = new Set(); // the races that have run on this page
  if (form) part("origins").after(form, why);
  latest.addEventListener("click", () => emit("openView", { ...viewOf({ run: last([...own]) }), again: true }));
  subscribe("frame", ({ race }) => [race, language()], ({ race }) => {
    for (const [run, box] of element.querySelectorAll(".ax-text").entries()) showBefore(box, race.runs[run].turn);
  });
  subscribe("frame", ({ race }) => [race, race.read, language()], ({ race }) => {
    setText(line, turnText(race));
    if (form) showForm(race, part("view-root").dataset.grew === "true");
  });

  function showForm({ id, source }, grew) {
    if (grew) own.add(id);
    form.hidden = !grew;
    const obstacle = grew ? null : obstacleTo(id, source, own);
    why.hidden = !obstacle;
    setText(reason, obstacle ? say(`turn.${obstacle}`) : "");
    setText(latest, say("turn.latest"));
    latest.hidden = obstacle !== "earlier";
  }

  changed();
}

// Why a race that is not the latest of this page cannot be continued, as a key; null for a race that is not a live one.
export function obstacleTo(id, source, own) {
  return own.has(id) ? "earlier" : source === "run" ? "closed" : null;
}

// The field and its button, which is disabled with Run, and until Run is there. A message stays in the field until its turn has begun.
function createForm(state, trigger) {
  const field = el("input", { type: "text", autocomplete: "off", enterkeyhint: "send" });
  const button = el("button", { type: "submit", class: "ax-pill" });
  const root = el("form", { class: "ax-continue", hidden: true }, field, button);
  let sent = null;
  const free = () => {
    const disabled = document.getElementById("ax-run")?.disabled ?? true;
    if (button.disabled !== disabled) button.disabled = disabled;
  };
  new MutationObserver(free).observe(document.body, { subtree: true, childList: true, attributeFilter: ["disabled"] });
  root.addEventListener("submit", (event) => {
    event.preventDefault();
    if (button.disabled || state.race.running) return;
    sent = field.value;
    trigger("submit", { race: state.race.id, message: sent });
  });
  on("running", (id) => {
    if (id !== null && field.value === sent) field.value = "";
  });
  localize(root, word);
  function word() {
    field.placeholder = say("turn.next");
    field.setAttribute("aria-label", say("turn.label"));
    setText(button, say("turn.send"));
  }
  word();
  free();
  return root;
}

// The turns before, folded into one line that begins with the message that the run answers.
function showBefore(box, turn) {
  box.querySelector(".ax-earlier")?.remove();
  if (!turn) return;
  const fold = el("button", { type: "button", "aria-expanded": "false", text: `${turn.message} · ${say("turn.before", { count: turn.number - 1 })}` });
  const all = [...turn.before, ["user", turn.message]].map(([role, text]) => el("span", { class: "ax-said", dir: "auto" }, el("b", { text: say(`turn.${role}`) }), ` ${text}`));
  const list = el("span", { class: "ax-said-all", hidden: true }, ...all);
  box.prepend(el("span", { class: "ax-earlier" }, fold, list));
}

// Unfolds the turns of all runs, or folds them.
function unfold(element, { ariaExpanded: open }) {
  for (const box of element.querySelectorAll(".ax-earlier")) {
    box.firstChild.setAttribute("aria-expanded", String(open === "false"));
    box.lastChild.hidden = open === "true";
  }
}

// What the runs have read, and how the drafters with a memory did beside the first turn; "" for a first turn.
export function turnText({ runs, running }) {
  return runs[0]?.turn ? sentences(readText(runs), ...runs.filter(remembers).map((run) => memoryText(run, running))) : "";
}

const remembers = ({ earlierPrompts, turn, steps }) => Boolean(earlierPrompts && turn.first && steps.length);

function readText(runs) {
  const [{ turn }] = runs;
  const same = runs.every((run) => run.turn.read === turn.read && run.turn.kept === turn.kept);
  if (same) return say("turn.read", { number: turn.number, count: turn.read, kept: turn.kept });
  const own = runs.map((run) => say("turn.read.own", { name: run.label, read: run.turn.read, kept: run.turn.kept }));
  return say("turn.read.each", { number: turn.number, list: own.join(say("turn.comma")) });
}

function memoryText(run, running) {
  const [now, first] = [last(run.counts, 0) / run.steps.length, run.turn.first].map((number) => number.toFixed(2));
  const how = now === first ? "same" : Number(now) > Number(first) ? "more" : "fewer";
  return say(`turn.memory.${how}`, { name: run.label, now, first, far: say(running ? "turn.far" : "turn.whole") });
}
