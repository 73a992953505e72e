// When the page is drawn after a change: at once after user input, at a limited rate while a race plays or runs, so that playback is smooth.

const QUIET = 110; // milliseconds between two drawings of the step, its tables and its charts
const SLOW = 330; // milliseconds between two drawings of what the matrix learned

// `isMoving`: whether a race plays or runs; `draw` is called with a group: "frame", then "quiet", then "slow". Returns a function that
// requests a drawing.
export function createScheduler(isMoving, draw) {
  const last = { quiet: 0, slow: 0 };
  const timers = {};
  let waiting = 0;

  function frame() {
    waiting = 0;
    draw("frame");
    const rest = isMoving() ? QUIET - (performance.now() - last.quiet) : 0;
    clearTimeout(timers.quiet);
    if (rest <= 0) quiet();
    else timers.quiet = setTimeout(quiet, rest);
  }

  function quiet() {
    last.quiet = performance.now();
    draw("quiet");
    const rest = isMoving() ? SLOW - (performance.now() - last.slow) : 0;
    clearTimeout(timers.slow);
    timers.slow = setTimeout(slow, Math.max(0, rest)); // after the step is on screen
  }

  function slow() {
    last.slow = performance.now();
    draw("slow");
  }

  return () => {
    if (!waiting) waiting = requestAnimationFrame(frame);
  };
}
