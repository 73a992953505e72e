// The keyboard's place during a run: it goes from the button that begins one, which is disabled then, to Stop, and back.

const [BEGINS, STOP] = ["#ax-run, #ax-ablate", "#ax-stop"];

export function holdFocus(root) {
  let begun = null; // the button that began the newest run
  let goes = false; // whether the keyboard pressed it
  let held = null; // what has the focus, or has lost it only because it was disabled

  function settle() {
    const stop = root.querySelector(STOP);
    if (!begun || !stop) return;
    const running = begun.disabled;
    if (running && goes && !stop.disabled && held === begun) stop.focus();
    else if (!running && stop.disabled && held === stop) begun.focus();
    if (running && !stop.disabled) goes = false;
  }

  root.addEventListener("click", ({ target }) => {
    const button = target instanceof Element ? target.closest(BEGINS) : null;
    if (!button) return;
    begun = button;
    goes = button.matches(":focus-visible"); // whoever clicks would stop the run with the next blank
  });
  root.addEventListener("focusin", ({ target }) => (held = target));
  root.addEventListener("focusout", ({ target }) => {
    if (!target.disabled) held = null;
  });
  new MutationObserver(settle).observe(root, { subtree: true, attributeFilter: ["disabled"] });
}
