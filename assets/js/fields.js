// Gradio's fields: placeholder texts of dropdowns in which nothing is selected, and the direction of the prompt by its first letters.
// Gradio has no options for them.

import { onLanguage, say } from "./words.js";

const LISTS = ["examples"];

// Gradio may create the input elements again, so they are adjusted after every change below `root`.
export function adjustFields(root) {
  const adjust = () => {
    const prompt = root.querySelector("#ax-prompt textarea");
    if (prompt && prompt.dir !== "auto") prompt.dir = "auto";
    for (const name of LISTS) {
      const field = root.querySelector(`#ax-${name} input`);
      if (field && field.placeholder !== say(`hint.${name}`)) field.placeholder = say(`hint.${name}`);
    }
  };
  onLanguage(adjust);
  new MutationObserver(adjust).observe(root, { childList: true, subtree: true });
  adjust();
}
