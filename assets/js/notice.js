// The line under the buttons: progress, and what went wrong, in words.

import { on } from "./bus.js";
import { toggleClass, withCode } from "./dom.js";
import { spoken, spokenSentence } from "./recorded.js";
import { onLanguage, say, sentences } from "./words.js";

// The value is a notice of the server as JSON: {kind, sayings, fraction}. `hears`: also what the page itself has to tell.
export function mountNotice(element, props, watch, hears = false) {
  const box = element.querySelector(".ax-notice");
  const text = element.querySelector("[data-part='text']");
  const meter = element.querySelector("[data-part='meter']");
  let own = null;
  let busy = false;
  const show = () => {
    const notice = own || (props.value ? JSON.parse(props.value) : { kind: "", sayings: [], fraction: null });
    const words = sentences(...notice.sayings.map(wording));
    if (notice.kind === "busy" && !busy) box.style.minHeight = "";
    busy = notice.kind === "busy";
    box.dataset.kind = notice.kind;
    text.replaceChildren(...withCode(words));
    box.hidden = !words;
    box.style.minHeight = `${box.offsetHeight}px`; // what stands below moves no more until the next run
    meter.hidden = notice.kind !== "busy";
    toggleClass(meter, "ax-unknown", notice.fraction === null);
    meter.firstElementChild.style.width = notice.fraction === null ? "" : `${Math.round(100 * notice.fraction)}%`;
  };
  const tell = (notice) => {
    own = notice;
    show();
  };
  watch("value", () => tell(null));
  if (hears) on("told", tell);
  onLanguage(show);
  show();
}

// A sentence of the server; what the engine said stands in it in the engine's words.
function wording([key, values]) {
  if (key === "notice.text") return spokenSentence(values.text);
  return say(key, key === "notice.left" ? { reason: spoken(values.reason) } : values);
}
