// Elements that do not shrink during playback, so that nothing below them moves; when the user selects another step, each gets its
// natural height again.

const ACTED = 700; // milliseconds after user input in which a change counts as made by the user

export function createStableHeights(elements) {
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

  // An element of another width is laid out again; a hidden one keeps its height.
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

  // `moving`: whether the race is playing or running; `step`: identifies the step on screen.
  return function update(moving, step) {
    if (moving && !holding) for (const element of elements) keep(element, element.offsetHeight);
    else if (!moving && step !== shown && performance.now() - acted < ACTED) elements.forEach(free);
    holding = moving || (holding && step === shown);
    shown = step;
  };
}
