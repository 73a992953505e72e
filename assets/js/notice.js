// The line under the buttons: progress, and what went wrong, in words.

import { toggleClass, withCode } from "./dom.js";
import { onLanguage, say } from "./words.js";

export function mountNotice(element, props, watch) {
  const box = element.querySelector(".ax-notice");
  const text = element.querySelector("[data-part='text']");
  const meter = element.querySelector("[data-part='meter']");
  const show = () => {
    const notice = props.value ? JSON.parse(props.value) : { kind: "", sayings: [], fraction: null };
    const words = notice.sayings.map(([key, values]) => say(key, values)).join(" ");
    box.dataset.kind = notice.kind;
    text.replaceChildren(...withCode(words));
    box.hidden = !words;
    meter.hidden = notice.kind !== "busy";
    toggleClass(meter, "ax-unknown", notice.fraction === null);
    meter.firstElementChild.style.width = notice.fraction === null ? "" : `${Math.round(100 * notice.fraction)}%`;
  };
  watch("value", show);
  onLanguage(show);
  show();
}
