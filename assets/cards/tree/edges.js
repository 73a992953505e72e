// The lines of a draft tree: edges, and the lines from marks to their labels where these are on several levels.

import { APART, HALF, diameter, labelLength, labelPlace, scoreStart } from "./geometry.js";

const BEND = 60; // pixels of an edge to another row in which it turns

// Where edges begin and end, by id, so that they cross no text: `starts` behind the label of the parent in a low row, for the child in its row,
// and `stops` before a score.
export function edgeEnds(nodes, names, beside, scored, grid, most) {
  const crossed = (node) => !grid.list && !grid.above(node);
  const ending = (node) => labelPlace(node, grid, most)[0] + labelLength(names.get(node.id), beside?.get(node.id) ?? "", grid.fonts(node)) + APART;
  return {
    starts: new Map(nodes.filter((node) => crossed(node) && names.get(node.id)).map((node) => [node.id, ending(node)])),
    stops: new Map(scored.filter(() => !grid.list).map((node) => [node.id, scoreStart(node, grid, most)])),
  };
}

// The points of an edge: straight in a row; to another one it first goes down, left of the texts of the parent, and then turns.
export function edgePoints([x0, y0], [x1, y1]) {
  const [points, bend] = [y0 === y1 ? 1 : 14, Math.min(BEND, x1 - x0)];
  const turn = Array.from({ length: points + 1 }, (_, i) => i / points).map((t) => [x0 + bend * t ** 3, y0 + (y1 - y0) * (1.5 * t - 0.5 * t ** 3)]);
  return [...turn, [x1, y1]];
}

// An edge of the indented list: down, then to the child.
export const elbow = ([x0, y0], [x1, y1]) => [[x0, y0], [x0, y1], [x1, y1]];

// The lines from marks to their labels on several levels: {x, from, to}.
export function polesOf(nodes, names, grid, most) {
  return nodes.filter((node) => grid.raised(node) && names.get(node.id)).map((node) => {
    const [x, y] = grid.place(node);
    return { x, from: y - 0.5 * diameter(node, most, grid.marks), to: labelPlace(node, grid, most)[1] + HALF.token * grid.fonts(node).size };
  });
}
