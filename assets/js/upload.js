// Files opened by the user are checked before they are sent; unusable ones are reported in the page's own words.

import { emit } from "./events.js";
import { cited } from "./dom.js";


// What is wrong with a file, as messages; null if nothing is. `maxBytes`: maximum size in bytes.
export function errorOfFile({ name, size }, maxBytes) {
  const remedy = ["file.remedy", { save: { say: "save.open" } }];
  if (!/\.json$/i.test(name)) return [["file.kind", { name: cited(name) }], remedy];
  return size > maxBytes ? [["notice.large", { megabytes: Math.floor(maxBytes / 2 ** 20) }]] : null;
}

// Stops the upload of an unusable file and shows a notice.
export function guardUploads(maxBytes) {
  const onChange = (event) => {
    const input = event.target instanceof Element ? event.target.closest("input[type='file']") : null;
    const error = input?.files.length ? errorOfFile(input.files[0], maxBytes) : null;
    if (!error) return;
    event.stopImmediatePropagation();
    input.value = "";
    emit("notice", { kind: "error", messages: error, fraction: null });
  };
  document.addEventListener("change", onChange, { capture: true });
}
