// The stage fills the first screen: from the runs down to the strip, whatever is above it.

const LEAST = 300; // minimum height in pixels
const GAP = 12;

// `above`: elements whose height moves the stage; `strip`: the bar at the bottom of the window. Returns a function that fits it again.
export function fitStage(stage, strip, above) {
  function fit() {
    const top = stage.getBoundingClientRect().top + window.scrollY;
    const height = `${Math.max(LEAST, Math.floor(window.innerHeight - top - strip.offsetHeight - GAP))}px`;
    if (stage.style.height === height) return;
    stage.style.height = height;
    stage.style.setProperty("--ax-stage", height);
  }
  const observer = new ResizeObserver(fit);
  for (const element of [...above, strip]) observer.observe(element);
  window.addEventListener("resize", fit);
  fit();
  return fit;
}
