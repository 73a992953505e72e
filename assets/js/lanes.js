// The lanes: what each method has written, who wrote each token, and how fast.

import { lanesTable } from "./csv.js";
import { BIDI, el, fixed, rate, setText, toggleClass } from "./dom.js";
import { offer } from "./offers.js";
import { lossyMark } from "./picker.js";
import { stepsShown } from "./player.js";
import { figures, plainLane, plainLast, stepsDone } from "./record.js";
import { recorded } from "./recorded.js";
import { refused } from "./refused.js";
import { say } from "./words.js";

export function createLanes(root, toggle, { onStep, onLane, onAbout }) {
  let views = [];
  root.addEventListener("click", (event) => {
    const view = views.find((v) => v.root.contains(event.target));
    if (!view) return;
    const step = event.target.closest(".ax-step");
    if (step) onStep(view.index, Number(step.dataset.step));
    else if (event.target.closest(".ax-look")) onLane(view.index);
    else if (event.target.closest(".ax-about")) onAbout(view.index);
  });

  toggle.addEventListener("click", () => {
    const on = toggle.getAttribute("aria-pressed") !== "true";
    toggle.setAttribute("aria-pressed", String(on));
    for (const view of views) showRefused(view, on);
  });

  function rebuild(race) {
    toggle.setAttribute("aria-pressed", "false");
    views = race.lanes.map(createLane);
    const shown = plainLast(views, race.lanes);
    root.replaceChildren(...shown.map((view) => view.root));
    const picture = () => shown.flatMap(({ parts }) => [parts.label, parts.text]);
    offer("lanes", { group: "race", title: "save.lanes", place: () => root, picture, table: () => lanesTable(race) });
  }

  function render(state) {
    const base = plainLane(state.race);
    for (const view of views) renderLane(view, state, base);
  }
  return { rebuild, render };
}

// Gives an element its lane's colour, as the variable --lane.
export function paintLane(node, lane) {
  if (!lane.colours) return;
  node.style.setProperty("--lane-light", lane.colours[0]);
  node.style.setProperty("--lane-dark", lane.colours[1]);
}

function createLane(lane, index) {
  const parts = {
    label: el("h3", { class: "ax-lane-label" }, lane.label, lossyMark(lane.header)),
    speed: el("p", { class: "ax-speed" }),
    rate: el("p", { class: "ax-figures" }),
    look: el("button", { class: "ax-look", type: "button" }),
    about: el("button", { class: "ax-about", type: "button", "aria-label": say("lane.about", { name: lane.label }), text: say("lane.how") }),
    text: el("p", { class: "ax-text", tabindex: "0", "aria-label": say("lane.text", { name: lane.label }) }),
  };
  const root = el("article", { class: "ax-lane", "data-method": lane.header.method });
  paintLane(root, lane);
  const notice = lane.header.notice ? el("p", { class: "ax-lane-notice", text: recorded(lane.header.notice) }) : null;
  const side = el("div", { class: "ax-lane-side" }, parts.label, parts.speed, parts.rate, parts.look, parts.about);
  root.append(side, el("div", { class: "ax-lane-main" }, parts.text, notice));
  return { root, index, lane, parts, steps: [] };
}

function renderLane(view, state, base) {
  const { lane, parts, index } = view;
  while (view.steps.length < lane.steps.length) appendStep(view);
  const done = stepsShown(state, lane);
  const now = figures(lane, done);
  const plain = base ? figures(base, stepsDone(base, state.time)) : null;
  setText(parts.speed, speedText(lane, now, plain, base));
  const words = now.passes ? say("lane.figures", { rate: rate(now.rate), perPass: now.perPass.toFixed(1) }) : say("step.none");
  setText(parts.rate, now.passes && done < lane.steps.length ? say("lane.sofar", { figures: words }) : words);
  const focus = state.lane === index;
  toggleClass(view.root, "ax-focus", focus);
  setText(parts.look, say(focus ? "lane.shown" : "lane.show"));
  parts.look.setAttribute("aria-pressed", String(focus));
  renderSteps(view, state, done);
}

function speedText(lane, now, plain, base) {
  if (lane === base) return "1×";
  return plain?.rate && now.rate ? `${fixed(now.rate / plain.rate, now.rate < plain.rate ? 2 : 1)}×` : "–";
}

function appendStep(view) {
  const index = view.steps.length;
  const step = view.lane.steps[index];
  const node = el("span", { class: "ax-step", "data-step": index });
  node.append(...step.texts.map((text, i) => token(text, step.origins[i], step.emitted[i])));
  view.parts.text.append(node);
  view.steps.push(node);
}

// Puts what was refused, struck through, before the token that the target wrote instead; or takes it away again.
function showRefused({ lane, steps }, on) {
  steps.forEach((node, i) => {
    for (const old of node.querySelectorAll("s")) old.remove();
    const { tree } = lane.steps[i];
    const text = on ? refused(lane.steps[i]).map((at) => tree.texts[at]).join("") : "";
    if (text) node.lastElementChild.before(el("s", { class: BIDI.test(text) ? "ax-refused ax-iso" : "ax-refused", text, title: say("refused.meaning") }));
  });
}

function token(text, origin, id) {
  const name = ["ax-tok", `ax-${origin}`];
  if (text.includes("\n") && !text.trim()) name.push("ax-nl");
  if (BIDI.test(text)) name.push("ax-iso");
  return el("span", { class: name.join(" "), text, "data-id": id, title: say(`origin.${origin}`) });
}

function renderSteps(view, state, done) {
  const current = state.lane === view.index ? state.step : done - 1;
  view.steps.forEach((node, i) => {
    toggleClass(node, "ax-later", i >= done);
    toggleClass(node, "ax-now", i === current && state.lane === view.index);
  });
  toggleClass(view.parts.text, "ax-playing", state.playing !== 0 || state.following);
  const node = view.steps[Math.max(0, Math.min(current, view.steps.length - 1))];
  if (node) keepInView(view.parts.text, node);
}

// Scrolls the lane's own box, never the page.
function keepInView(box, node) {
  if (box.scrollHeight <= box.clientHeight + 1) return;
  const top = node.offsetTop - box.offsetTop;
  const bottom = top + node.offsetHeight;
  if (top < box.scrollTop) box.scrollTop = top - 4;
  else if (bottom > box.scrollTop + box.clientHeight) box.scrollTop = bottom - box.clientHeight + 4;
}
