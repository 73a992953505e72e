// The picker of methods: which of them race, which lack a part, which may change the text.

import { el, setText, withCode } from "./dom.js";
import { spoken } from "./recorded.js";
import { keepWorded, say, sayOr } from "./words.js";

const NARROW = 860; // width in pixels below which the list begins folded

// The value as an object; what is not there yet is an empty list.
export function parsePicks(value) {
  return { methods: [], chosen: [], fewest: 2, most: 6, ...(value ? JSON.parse(value) : {}) };
}

// The names that are ticked after one is clicked: the order of the list, never more than the most that race.
export function toggled({ methods, chosen, most }, name) {
  const wanted = chosen.includes(name) ? chosen.filter((n) => n !== name) : [...chosen, name];
  return wanted.length > most ? chosen : methods.map((m) => m.name).filter((n) => wanted.includes(n));
}

// New rows; ticks are kept where the server sends none, and no method that lacks a part stays ticked.
export function merged(old, fresh) {
  const lacking = new Set(fresh.methods.filter((m) => m.unavailable).map((m) => m.name));
  return { ...fresh, chosen: (fresh.chosen || old.chosen).filter((name) => !lacking.has(name)) };
}

export function mountPicker(element, props, watch) {
  const part = (name) => element.querySelector(`[data-part="${name}"]`);
  let picks = parsePicks(null);

  function take() {
    picks = merged(picks, parsePicks(props.value));
    draw();
    tell();
  }

  function tell() {
    const value = JSON.stringify(picks);
    if (value !== props.value) props.value = value;
  }

  function draw() {
    const lacking = picks.methods.filter((m) => m.unavailable);
    fill(part("list"), picks.methods.filter((m) => !m.unavailable).map((m) => methodRow(m, picks)));
    fill(part("lacking-list"), lacking.map(lackingRow));
    part("lacking").hidden = !lacking.length;
    setText(part("lacking-title"), say("picker.lacking", { count: lacking.length }));
    setText(part("count"), countText(picks));
  }

  part("list").addEventListener("change", (event) => {
    picks = { ...picks, chosen: toggled(picks, event.target.value) };
    draw();
    tell();
    const box = [...part("list").querySelectorAll("input")].find((input) => input.value === event.target.value);
    if (box) box.focus({ preventScroll: true });
  });
  if (window.innerWidth <= NARROW) part("box").open = false;
  watch("value", take);
  keepWorded(element, draw);
  take();
}

function fill(list, rows) {
  list.replaceChildren(...rows);
}

export function countText({ chosen, fewest, most }) {
  const kind = chosen.length < fewest ? "few" : chosen.length === most ? "full" : "some";
  return say(`picker.${kind}`, { chosen: chosen.length, fewest, most });
}

function methodRow(method, { chosen, most }) {
  const ticked = chosen.includes(method.name);
  const input = el("input", { type: "checkbox", value: method.name, disabled: !ticked && chosen.length >= most });
  input.checked = ticked;
  const about = sayOr(`about.${method.name}`, method.description);
  return el("li", { title: about }, el("label", {}, input, ...named(method)));
}

function lackingRow(method) {
  const label = el("label", {}, el("input", { type: "checkbox", disabled: true }), ...named(method));
  return el("li", {}, label, el("p", { class: "ax-dim" }, ...withCode(spoken(method.unavailable))));
}

function named(method) {
  return [swatch(method), el("span", { text: sayOr(`article.${method.name}`, method.label) }), lossyMark(method)].filter(Boolean);
}

export function lossyMark({ lossless }) {
  return lossless ? null : el("span", { class: "ax-lossy", title: say("lossy.meaning"), text: say("lossy") });
}

function swatch(method) {
  const mark = el("i", { class: "ax-swatch-dot" });
  mark.style.setProperty("--lane-light", method.colour);
  mark.style.setProperty("--lane-dark", method.colour_dark);
  return mark;
}
