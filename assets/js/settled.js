// Cards that never shrink while time runs by itself, so that what stands below stays where it is; once the user goes to
// another step, each is as high as what it holds again.

const ACTED = 700; // milliseconds after a key or a pointer in which a change counts as the user's own

export function createSettled(elements) {
  const sizes = new Map(elements.map((element) => [element, { width: 0, height: 0 }]));
  let holding = false;
  let shown = "";
  let acted = -ACTED;
  for (const name of ["pointerdown", "keydown", "input"]) window.addEventListener(name, () => (acted = performance.now()), true);
  const observer = new ResizeObserver((entries) => entries.forEach(note));
  for (const element of elements) {
    observer.observe(element, { box: "border-box" });
    element.addEventListener("toggle", () => free(element), true);
  }

  // A card of another width is laid out anew; one that is hidden keeps what it had.
  function note({ target, borderBoxSize: [{ inlineSize: width, blockSize: height }] }) {
    if (!width) return;
    const size = sizes.get(target);
    if (size.width !== width) free(target);
    size.width = width;
    if (holding) keep(target, height);
  }

  function keep(element, height) {
    const size = sizes.get(element);
    if (height <= size.height) return;
    size.height = height;
    element.style.minHeight = `${height}px`;
  }

  function free(element) {
    sizes.get(element).height = 0;
    element.style.minHeight = "";
  }

  // `moving`: whether time runs by itself; `step`: names what is on screen.
  return function settle(moving, step) {
    if (moving && !holding) for (const element of elements) keep(element, element.offsetHeight);
    else if (!moving && step !== shown && performance.now() - acted < ACTED) elements.forEach(free);
    holding = moving || (holding && step === shown);
    shown = step;
  };
}
