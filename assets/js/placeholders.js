// Placeholder texts of dropdowns in which nothing is selected; Gradio's dropdowns have no option for them.

import { onLanguage, say } from "./words.js";

const LISTS = ["examples", "recorded"];

// Gradio may create the input element again, so the placeholder is set after every change below `root`.
export function setPlaceholders(root) {
  const hint = () => {
    for (const name of LISTS) {
      const field = root.querySelector(`#ax-${name} input`);
      if (field && field.placeholder !== say(`hint.${name}`)) field.placeholder = say(`hint.${name}`);
    }
  };
  onLanguage(hint);
  new MutationObserver(hint).observe(root, { childList: true, subtree: true });
  hint();
}
