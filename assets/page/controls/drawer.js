// The drawer with Gradio's controls, below the bar: opened by the pens of the line, closed by them, by Escape and by Run. A race that
// is refused opens it again, at the field to correct.

import { on } from "../core/events.js";

const OPEN = "ax-drawer";
const FIELDS = { prompt: "#ax-prompt textarea", methods: "#ax-picker input:not(:disabled)", settings: "#ax-max-new-tokens input[type='text']" };

export function createDrawer(root) {
  let pen = null; // the element to which the focus returns
  let starting = false; // whether Run closed it and no race has begun yet
  let inList = false; // whether the key that is pressed closes an open list

  function close() {
    document.body.classList.remove(OPEN);
    if (pen?.isConnected) pen.focus({ preventScroll: true });
    pen = null;
  }

  on("edit", (name) => {
    if (!name) return;
    pen = document.activeElement;
    document.body.classList.add(OPEN);
    const field = root.querySelector(FIELDS[name]);
    field?.closest("details:not([open])")?.setAttribute("open", "");
    field?.focus({ preventScroll: true });
    window.scrollTo({ top: 0 });
  });
  root.addEventListener("keydown", ({ target }) => (inList = target.matches("[role='combobox'][aria-expanded='true']")), { capture: true });
  root.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !inList && !event.defaultPrevented && !event.isComposing) close();
  });
  root.addEventListener("click", (event) => {
    if (event.target instanceof Element && event.target.closest("#ax-close")) close();
  });
  document.addEventListener("click", (event) => {
    if (!(event.target instanceof Element && event.target.closest("#ax-run"))) return;
    starting = document.body.classList.contains(OPEN);
    document.body.classList.remove(OPEN);
  });
  on("running", (id) => (starting = starting && !id));
  on("failed", () => {
    if (starting) {
      document.body.classList.add(OPEN);
      root.querySelector("[aria-invalid='true']")?.focus();
    }
    starting = false;
  });
}
