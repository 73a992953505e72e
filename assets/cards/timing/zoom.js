// The part of the time that a chart shows: selected by buttons or by dragging, and kept while a race runs.

const NEAREST = 64; // the smallest part is the whole time divided by this
const WHOLE = 0.999; // larger shares count as the whole

// Half the part, around `now` if it is inside and the race has not ended; null is the whole of `end` seconds.
export function nearer(span, now, end) {
  const [from, to] = span || [0, end];
  return around(Math.max((to - from) / 2, end / NEAREST), [from, to], now, end);
}

// Twice the part; null if that is the whole.
export function farther(span, now, end) {
  if (!span) return null;
  const size = 2 * (span[1] - span[0]);
  return size < WHOLE * end ? around(size, span, now, end) : null;
}

// A part selected by dragging, limited to the whole and to the smallest part.
export function drawnOut(from, to, end) {
  const [low, high] = [Math.max(0, Math.min(from, to)), Math.min(end, Math.max(from, to))];
  return high - low < WHOLE * end ? around(Math.max(high - low, end / NEAREST), [low, high], -1, end) : null;
}

// The part, moved along with the time if the time leaves it.
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

// `follow(id, now, end, growing)`: updates the race and its time, and returns the part to show; null for the whole, as at the start. A
// part follows a time that the user or the playback moves, but not one that grows with a running race.
export function createZoom(part, changed) {
  const box = part("chart");
  let known = { id: null, now: 0, end: 0, growing: false };
  let span = null;
  let listening = false;
  let held = false; // a pointer is down; drawing would interrupt the drag
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

  // Listens to Plotly's events, once it has drawn into the box.
  function listen() {
    if (listening) return;
    listening = true;
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
  return { follow, listen, held: () => held, span: () => span };
}
