// Keyboard shortcuts: Space plays, arrows step, Home and End jump, ? lists all shortcuts. Keys pressed in form fields are ignored.

const FIELDS = "input, textarea, select, [contenteditable='true'], [role='listbox'], [role='combobox'], [role='radio'], dialog";

export function listenToShortcuts({ play, left, right, home, end, help }) {
  const actions = { " ": play, ArrowLeft: left, ArrowRight: right, Home: home, End: end, "?": help };
  const onKey = (event) => {
    const action = actions[event.key];
    if (!action || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || (event.shiftKey && event.key !== "?")) return;
    const target = event.target instanceof Element ? event.target : document.body;
    if (target.closest(FIELDS)) return;
    if (event.key === " " && target.closest("button, a, summary, [role='button']")) return;
    event.preventDefault();
    action();
  };
  document.addEventListener("keydown", onKey);
}
