// The message below the buttons: progress and errors.

import { emit, on } from "../core/events.js";
import { toggleClass, withCode } from "../core/dom.js";
import { engineMessage, engineSentence } from "../record/enginetext.js";
import { localize, say, sentences } from "../core/words.js";

const SUCCESS = 10_000; // milliseconds for which a message of success is shown

// The value is a notice of the server as JSON: {kind, messages, fraction}. `withLocal`: also show notices of the page itself.
export function mountNotice(element, props, watch, withLocal = false) {
  const box = element.querySelector(".ax-notice");
  const text = element.querySelector("[data-part='text']");
  const meter = element.querySelector("[data-part='meter']");
  let local = null;
  let closed = ""; // the words that the user has closed
  let closing = 0; // the timer that closes the message of success
  const close = () => {
    closed = text.textContent;
    box.hidden = true;
  };
  const show = () => {
    const notice = local || (props.value ? JSON.parse(props.value) : { kind: "", messages: [], fraction: null });
    const words = sentences(...notice.messages.map(wording));
    box.dataset.kind = notice.kind;
    text.replaceChildren(...withCode(words));
    if (words !== closed) closed = "";
    box.hidden = !words || words === closed;
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
  watch("value", () => {
    showLocal(null);
    if (withLocal && box.dataset.kind === "error") emit("failed");
  });
  if (withLocal) {
    on("notice", showLocal);
    on("cut", () => {
      props.value = JSON.stringify({ kind: "error", messages: [["notice.cut", {}]], fraction: null });
      showLocal(null);
    });
  }
  element.querySelector("[data-part='close']").addEventListener("click", close);
  localize(element, show);
  show();
}

// Marks an error that is longer than its line (gradio.css); other messages are cut, so that nothing moves, and the tooltip has all of it.
function markLong(box, text) {
  box.dataset.long = "false";
  const long = text.scrollWidth > text.clientWidth;
  text.title = long ? text.textContent : "";
  box.dataset.long = String(long && box.dataset.kind === "error");
}

// A message of the server as text; engine messages inside it are translated.
function wording([key, values]) {
  if (key === "notice.text") return engineSentence(values.text);
  return say(key, key === "notice.left" ? { reason: engineMessage(values.reason) } : values);
}
