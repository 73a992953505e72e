// The method picker: which methods race, which cannot run here and why, which are lossy.

import { el, setText, withCode } from "../core/dom.js";
import { emit } from "../core/events.js";
import { engineMessage } from "../record/enginetext.js";
import { localize, say, sayOr } from "../core/words.js";

const NARROW = 860; // window width in pixels up to which the list starts collapsed
const NUMBER = ["notice.methods", "notice.few"]; // messages about the number of selected methods

// The value as an object; missing parts are empty.
function parsePicks(value) {
  return { methods: [], chosen: [], min: 2, max: 6, ...(value ? JSON.parse(value) : {}) };
}

// The selected names after a click on one: in the order of the list, never more than `max`.
export function toggled({ methods, chosen, max }, name) {
  const wanted = chosen.includes(name) ? chosen.filter((n) => n !== name) : [...chosen, name];
  return wanted.length > max ? chosen : methods.map((m) => m.name).filter((n) => wanted.includes(n));
}

// New rows from the server; the selection is kept if the server sends none, without methods that cannot run.
export function merged(old, fresh) {
  const unavailable = new Set(fresh.methods.filter((m) => m.unavailable).map((m) => m.name));
  return { ...fresh, chosen: (fresh.chosen || old.chosen).filter((name) => !unavailable.has(name)) };
}

export function mountPicker(element, props, watch) {
  const part = (name) => element.querySelector(`[data-part="${name}"]`);
  let picks = parsePicks(null);

  function take() {
    picks = merged(picks, parsePicks(props.value));
    draw();
    publish();
  }

  function publish() {
    const value = JSON.stringify(picks);
    if (value !== props.value) props.value = value;
    if (picks.chosen.length >= picks.min && picks.chosen.length <= picks.max) emit("corrected", NUMBER);
  }

  function draw() {
    const unavailable = picks.methods.filter((m) => m.unavailable);
    fill(part("list"), picks.methods.filter((m) => !m.unavailable).map((m) => methodRow(m, picks)));
    fill(part("unavailable-list"), unavailable.map(unavailableRow));
    part("unavailable").hidden = !unavailable.length;
    setText(part("unavailable-title"), say("picker.unavailable", { count: unavailable.length }));
    setText(part("count"), countText(picks));
  }

  part("list").addEventListener("change", (event) => {
    picks = { ...picks, chosen: toggled(picks, event.target.value) };
    draw();
    publish();
    const box = [...part("list").querySelectorAll("input")].find((input) => input.value === event.target.value);
    if (box) box.focus({ preventScroll: true });
  });
  if (window.innerWidth <= NARROW) part("box").open = false;
  watch("value", take);
  localize(element, draw);
  take();
}

function fill(list, rows) {
  list.replaceChildren(...rows);
}

export function countText({ chosen, min, max }) {
  const kind = chosen.length < min ? "few" : chosen.length === max ? "full" : "some";
  return say(`picker.${kind}`, { chosen: chosen.length, min, max });
}

function methodRow(method, { chosen, max }) {
  const ticked = chosen.includes(method.name);
  const input = el("input", { type: "checkbox", value: method.name, disabled: !ticked && chosen.length >= max });
  input.checked = ticked;
  const about = sayOr(`about.${method.name}`, method.description);
  return el("li", { title: about }, el("label", {}, input, ...labelOf(method)));
}

function unavailableRow(method) {
  const label = el("label", {}, el("input", { type: "checkbox", disabled: true }), ...labelOf(method));
  return el("li", {}, label, el("p", { class: "ax-dim" }, ...withCode(engineMessage(method.unavailable))));
}

function labelOf(method) {
  return [swatch(method), el("span", { text: sayOr(`article.${method.name}`, method.label) }), lossyMark(method)].filter(Boolean);
}

export function lossyMark({ lossless }) {
  return lossless ? null : el("span", { class: "ax-lossy", title: say("lossy.meaning"), text: say("lossy") });
}

function swatch(method) {
  const mark = el("i", { class: "ax-swatch-dot ax-run-colours" });
  mark.style.setProperty("--run-light", method.colour);
  mark.style.setProperty("--run-dark", method.colour_dark);
  return mark;
}
