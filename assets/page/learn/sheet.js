// A dialog over the page: title, close button, and a body that is created each time it opens.

import { el, setText } from "../core/dom.js";
import { onLanguage, say } from "../core/words.js";

// `name`: distinguishes dialogs; `title`: key of the title; `content`: returns the nodes of the body.
export function createSheet(name, title, content) {
  const heading = el("h2", { id: `ax-${name}-title` });
  const close = el("button", { type: "button", class: "ax-pill", "data-part": `${name}-close` });
  const body = el("div", { class: "ax-sheet-body", tabindex: "0", role: "region", "aria-labelledby": heading.id });
  const head = el("div", { class: "ax-sheet-head" }, heading, close);
  const dialog = el("dialog", { class: "ax ax-sheet", "aria-labelledby": heading.id, "data-part": name }, head, body);
  document.body.append(dialog);
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());

  function fill() {
    setText(heading, say(title));
    setText(close, say("learn.close"));
    body.replaceChildren(...content());
  }

  function open() {
    fill();
    if (!dialog.open) dialog.showModal();
  }
  onLanguage(() => dialog.open && fill());
  return { open, body };
}
