// The tabs of the stage, in the order of a step: draft, one forward pass, verify, learn.

import { presenting } from "../core/dom.js";
import { emit } from "../core/events.js";

export const TABS = ["draft", "pass", "verify", "learn"];

// `onTab` is called with the name of the tab that the user selected.
export function createTabs(part, onTab) {
  const buttons = [...part("tabs").children];
  const choose = (name) => {
    onTab(name);
    emit("action", name);
  };
  part("tabs").addEventListener("click", (event) => {
    const button = event.target.closest("[role='tab']");
    if (button) choose(button.dataset.tab);
  });
  part("tabs").addEventListener("keydown", (event) => {
    const at = TABS.indexOf(event.target.dataset.tab);
    const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: TABS.length - 1 }[event.key];
    if (next === undefined || presenting() || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    choose(TABS.at(next % TABS.length));
    buttons.at(next % TABS.length).focus({ preventScroll: true });
  });

  // Returns whether another tab is shown than before.
  function render(tab) {
    if (part("stage").dataset.tab === tab && buttons[0].hasAttribute("aria-selected")) return false;
    part("stage").dataset.tab = tab;
    for (const button of buttons) {
      const on = button.dataset.tab === tab;
      button.setAttribute("aria-selected", String(on));
      button.tabIndex = on ? 0 : -1;
      document.getElementById(button.getAttribute("aria-controls")).hidden = !on;
    }
    return true;
  }
  return { render };
}
