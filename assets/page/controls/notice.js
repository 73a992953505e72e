// The message below the buttons: progress and errors.

import { emit, on } from "../core/events.js";
import { count, toggleClass, withCode } from "../core/dom.js";
import { engineMessage, engineSentence } from "../record/enginetext.js";
import { localize, say, sentences } from "../core/words.js";

const SUCCESS = 10_000; // milliseconds for which a message of success is shown

const AT_FIELD = /^(field\..*|notice\.long)$/; // messages that are also at their field in the controls

const NOTHING = { kind: "", messages: [], fraction: null };

// The value is a notice of the server as JSON: {kind, messages, fraction, race}, `race` being the id of the race beside which alone it is shown.
// `withLocal`: also show notices of the page itself.
export function mountNotice(element, props, watch, withLocal = false) {
  const box = element.querySelector(".ax-notice");
  const text = element.querySelector("[data-part='text']");
  const meter = element.querySelector("[data-part='meter']");
  let local = null;
  let shown = null; // id of the race on screen
  let busy = false; // whether the server prepares a race or runs it
  let closed = ""; // the words that the user has closed
  let closing = 0; // the timer that closes the message of success
  const close = () => {
    closed = text.textContent;
    box.hidden = true;
  };
  const ofServer = () => (props.value ? JSON.parse(props.value) : NOTHING);
  const isElsewhere = ({ race }) => Boolean(race && shown) && race !== shown;
  const show = () => {
    const notice = local || ofServer();
    const words = sentences(...notice.messages.map(wording));
    box.dataset.kind = notice.kind;
    box.dataset.field = String(notice.messages.some(([key]) => AT_FIELD.test(key)));
    text.replaceChildren(...withCode(words));
    if (words !== closed) closed = "";
    box.hidden = !words || words === closed || isElsewhere(notice);
    meter.hidden = notice.kind !== "busy";
    toggleClass(meter, "ax-unknown", notice.fraction === null);
    meter.firstElementChild.style.width = notice.fraction === null ? "" : `${Math.round(100 * notice.fraction)}%`;
    markLong(box, text);
    clearTimeout(closing);
    if (notice.kind === "done" && !box.hidden) closing = setTimeout(close, SUCCESS);
  };
  const showLocal = (notice) => {
    local = notice;
    show();
  };
  // Tells the page when the server begins and ends to be busy with a race.
  const report = () => {
    const { kind } = ofServer();
    if ((kind === "busy") === busy) return;
    busy = !busy;
    emit("busy", busy);
  };
  watch("value", () => {
    showLocal(null);
    if (withLocal) report();
    if (withLocal && box.dataset.kind === "error") emit("failed");
  });
  if (withLocal) {
    on("notice", showLocal);
    on("cut", () => {
      props.value = JSON.stringify({ kind: "error", messages: [["notice.cut", {}]], fraction: null });
      showLocal(null);
      report();
    });
    on("shown", ({ race }) => {
      if (shown === race.id) return;
      shown = race.id;
      show();
    });
    on("corrected", (keys) => {
      const { kind, messages } = ofServer();
      if (kind === "error" && keys.includes(messages[0][0])) close();
    });
  }
  element.querySelector("[data-part='close']").addEventListener("click", close);
  localize(element, show);
  show();
}

// Marks a message that is longer than its line (gradio.css): an error takes lines below it; another one takes more of the line, for as long as the
// server is busy, so that it moves only once. The tooltip has all of what is still cut.
function markLong(box, text) {
  const isCut = () => text.scrollWidth > text.clientWidth;
  const error = box.dataset.kind === "error";
  box.dataset.long = "false";
  box.dataset.wide = String(box.dataset.kind === "busy" && box.dataset.wide === "true");
  if (isCut()) box.dataset[error ? "long" : "wide"] = "true";
  text.title = isCut() ? text.textContent : "";
}

// A message of the server as text: engine messages inside it are translated, and large numbers are written as in the messages at the fields.
function wording([key, sent]) {
  const values = Object.fromEntries(Object.entries(sent).map(([name, value]) => [name, value >= 1000 && Number.isInteger(value) ? count(value) : value]));
  if (key === "notice.text") return engineSentence(values.text);
  return say(key, key === "notice.left" ? { reason: engineMessage(values.reason) } : values);
}
