// What stands in a list from which nothing is chosen: Gradio's lists have no words for that.

import { onLanguage, say } from "./words.js";

const LISTS = ["examples", "recorded"];

// Gradio may make a list's field again, so that the words are put there whenever something below `root` is.
export function hintLists(root) {
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
