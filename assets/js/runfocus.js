// Keyboard focus during a race: it moves from the button that starts a race, which is then disabled, to Stop, and back.

const [START, STOP] = ["#ax-run, #ax-ablate", "#ax-stop"];

export function keepRunFocus(root) {
  let started = null; // the button that started the latest race
  let moves = false; // whether it was pressed by keyboard
  let held = null; // the element with the focus, or the one that lost it by being disabled

  function settle() {
    const stop = root.querySelector(STOP);
    if (!started || !stop) return;
    const running = started.disabled;
    if (running && moves && !stop.disabled && held === started) stop.focus();
    else if (!running && stop.disabled && held === stop) started.focus();
    if (running && !stop.disabled) moves = false;
  }

  root.addEventListener("click", ({ target }) => {
    const button = target instanceof Element ? target.closest(START) : null;
    if (!button) return;
    started = button;
    moves = button.matches(":focus-visible"); // after a mouse click the focus stays: the next space key would stop the race
  });
  root.addEventListener("focusin", ({ target }) => (held = target));
  root.addEventListener("focusout", ({ target }) => {
    if (!target.disabled) held = null;
  });
  new MutationObserver(settle).observe(root, { subtree: true, attributeFilter: ["disabled"] });
}
