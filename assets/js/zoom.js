// A part of a chart's time: chosen by buttons or by a drag over the chart, and kept while a run grows.

const NEAREST = 64; // parts of the whole: no part is shorter
const WHOLE = 0.999; // a part that long is the whole

// The part half as long, around `now` where that is within it, and not where all is over; null stands for the whole of `end` seconds.
export function nearer(span, now, end) {
  const [from, to] = span || [0, end];
  return around(Math.max((to - from) / 2, end / NEAREST), [from, to], now, end);
}

// The part twice as long; null once that is the whole.
export function farther(span, now, end) {
  if (!span) return null;
  const size = 2 * (span[1] - span[0]);
  return size < WHOLE * end ? around(size, span, now, end) : null;
}

// What was drawn out by hand, within the whole and not too short to see.
export function drawnOut(from, to, end) {
  const [low, high] = [Math.max(0, Math.min(from, to)), Math.min(end, Math.max(from, to))];
  return high - low < WHOLE * end ? around(Math.max(high - low, end / NEAREST), [low, high], -1, end) : null;
}

// The part that a clock which is moved from `before` to `now` takes with it, where it leaves the part.
export function taken(span, before, now, end) {
  const [from, to] = span;
  if (now === before || (now >= from && now <= to)) return span;
  return around(to - from, [now, now], now, end);
}

export function isNearest(span, end) {
  return span !== null && span[1] - span[0] <= (1 + 1e-9) * (end / NEAREST);
}

function around(size, [from, to], now, end) {
  const middle = now >= from && now <= to && now < end ? now : (from + to) / 2;
  const start = Math.min(Math.max(0, middle - size / 2), end - size);
  return [start, start + size];
}

// `follow(id, now, end, growing)`: tells where a race stands, and gives the part of it that is shown; null for the whole, as each
// begins. A clock that is moved by hand, or plays, takes the part with it; one that runs because the race grows does not.
export function createZoom(part, changed) {
  const box = part("chart");
  let known = { id: null, now: 0, end: 0, growing: false };
  let span = null;
  let heard = false;
  let held = false; // by a pointer: a drawing in between would take the drag away
  const set = (next) => {
    span = next;
    changed();
  };
  part("zoom-in").addEventListener("click", () => set(nearer(span, known.now, known.end)));
  part("zoom-out").addEventListener("click", () => set(farther(span, known.now, known.end)));
  box.addEventListener("pointerdown", () => {
    held = true;
  });
  for (const name of ["pointerup", "pointercancel"]) window.addEventListener(name, release, true);

  function release() {
    if (!held) return;
    held = false;
    changed();
  }

  // Once Plotly has drawn into the box, it tells of what is done on it.
  function listen() {
    if (heard) return;
    heard = true;
    box.on("plotly_doubleclick", () => set(null));
    box.on("plotly_relayout", (what) => {
      const [from, to] = [what["xaxis.range[0]"], what["xaxis.range[1]"]];
      if (from !== undefined && to !== undefined) set(drawnOut(from, to, known.end));
    });
  }

  function follow(id, now, end, growing) {
    if (known.id !== id) span = null;
    else if (span && !growing && !known.growing) span = taken(span, known.now, now, end);
    known = { id, now, end, growing };
    part("zoom-out").setAttribute("aria-disabled", String(!span));
    part("zoom-in").setAttribute("aria-disabled", String(isNearest(span, end)));
    return span;
  }
  return { follow, listen, held: () => held };
}
