// Files that somebody opens, looked at before they are sent: what is no race is said in the page's own words.

import { emit } from "./bus.js";
import { cited } from "./dom.js";


// What is wrong with a file, as sentences by key and values; null where nothing is. `most` is the largest size in bytes.
export function faultOfFile({ name, size }, most) {
  const remedy = ["file.remedy", { save: { say: "save.open" } }];
  if (!/\.json$/i.test(name)) return [["file.kind", { name: cited(name) }], remedy];
  return size > most ? [["notice.large", { megabytes: Math.floor(most / 2 ** 20) }]] : null;
}

// Stops a file with a fault before anybody else hears of it; the notice tells.
export function guardUploads(most) {
  const onChange = (event) => {
    const input = event.target instanceof Element ? event.target.closest("input[type='file']") : null;
    const fault = input?.files.length ? faultOfFile(input.files[0], most) : null;
    if (!fault) return;
    event.stopImmediatePropagation();
    input.value = "";
    emit("told", { kind: "error", sayings: fault, fraction: null });
  };
  document.addEventListener("change", onChange, { capture: true });
}
