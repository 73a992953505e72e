// Routes of edges back to an existing bigram: along rows and between columns, so that none crosses a label. Labels are above and to
// the right of their node; the rows themselves and the strip before each column are free.

const STRIP = 12; // pixels before a column at which the first route runs
const WAYS = 4; // routes side by side
const GAP = 3; // pixels between two of them
const BEHIND_LAST = 134; // pixels after the last column, beyond its labels
const BEND = 6;
const LOOP = 7; // radius of an edge from a node to itself

// One route per edge: [x, y] points, in the order of the edges.
//   places: name to {x, y}, column and row; at: [column, row] to pixels
export function edgeRoutes(edges, places, { at, columns }) {
  const taken = occupied(places);
  const sources = [...new Set(edges.map(({ from }) => from))];
  const rows = 1 + Math.max(...[...places.values()].map(({ y }) => y));
  return edges.map(({ from, to }) => {
    const [start, end] = [places.get(from), places.get(to)];
    if (from === to) return loop(at(end.x, end.y));
    const aside = GAP * (sources.indexOf(from) % WAYS);
    return rounded(corners(start, end, passage(start, end, taken, rows), { at, columns, aside }));
  });
}

// Cells that a route must not cross: nodes, and the edges of the tree that lead to them.
function occupied(places) {
  const cells = new Set();
  for (const { x, y } of places.values()) for (const column of [x, x - 1]) cells.add(`${column} ${y}`);
  return cells;
}

// The free row with the smallest detour over the columns between both nodes; the row below all nodes is always free.
function passage(start, end, taken, rows) {
  const [first, last] = end.x > start.x ? [start.x + 1, end.x - 1] : [end.x, start.x];
  const free = (row) => Array.from({ length: last - first + 1 }, (_, i) => `${first + i} ${row}`).every((cell) => !taken.has(cell));
  const detour = (row) => Math.abs(row - start.y) + Math.abs(row - end.y);
  const all = Array.from({ length: rows + 1 }, (_, row) => row).filter(free);
  return all.reduce((best, row) => (detour(row) < detour(best) || (detour(row) === detour(best) && row === start.y) ? row : best), rows);
}

function corners(start, end, row, { at, columns, aside }) {
  const [x0, y0] = at(start.x, start.y);
  const [x1, y1] = at(end.x, end.y);
  const [, between] = at(0, row);
  const out = start.x + 1 < columns ? at(start.x + 1, 0)[0] - STRIP - aside : x0 + BEHIND_LAST - aside;
  const into = end.before ? x1 + 2 * STRIP + aside : x1 - STRIP - aside;
  const straight = end.x === start.x + 1;
  const route = straight ? [[into, y0]] : [[out, y0], [out, between], [into, between]];
  return [[x0, y0], ...route, [into, y1], [x1, y1]].filter(([x, y], i, all) => i === 0 || x !== all[i - 1][0] || y !== all[i - 1][1]);
}

function loop([x, y]) {
  return Array.from({ length: 17 }, (_, i) => [x - LOOP + LOOP * Math.cos((Math.PI * i) / 8), y + LOOP * Math.sin((Math.PI * i) / 8)]);
}

// The route with rounded corners.
function rounded(points) {
  return points.flatMap((point, i) => (i === 0 || i === points.length - 1 ? [point] : bend(points[i - 1], point, points[i + 1])));
}

function bend(before, corner, after) {
  const [from, to] = [toward(corner, before), toward(corner, after)];
  return Array.from({ length: 5 }, (_, i) => i / 4).map((t) => [0, 1].map((k) => (1 - t) ** 2 * from[k] + 2 * t * (1 - t) * corner[k] + t ** 2 * to[k]));
}

function toward([x, y], [otherX, otherY]) {
  const length = Math.hypot(otherX - x, otherY - y);
  const share = Math.min(BEND, length / 2) / length;
  return [x + (otherX - x) * share, y + (otherY - y) * share];
}
