// Layout of a draft tree, as in ui/browser/layout.py: depth from left to right, the accepted path on the first row.

const TARGET = -1; // the bonus or correction token, which is not a node of the draft

// At most `limit` nodes are drawn; the others are counted at their nearest drawn ancestor.
export function layoutOf({ tree, path, origins }, limit) {
  const shown = shownNodes(tree, path, limit);
  const children = childrenOf(tree, path, origins, shown);
  const [x, y] = [new Map([[0, 0]]), new Map([[0, 0]])];
  let rows = 1;
  const waiting = [0];
  while (waiting.length) {
    const node = waiting.pop();
    const below = children.get(node) ?? [];
    if (!y.has(node)) y.set(node, rows++);
    for (const child of below) x.set(child, x.get(node) + 1);
    if (below.length) y.set(below[0], y.get(node));
    waiting.push(...[...below].reverse());
  }
  const nodes = [...shown].sort((a, b) => a - b);
  return {
    nodes,
    x: nodes.map((node) => x.get(node)),
    y: nodes.map((node) => y.get(node)),
    target: x.has(TARGET) ? [x.get(TARGET), y.get(TARGET)] : null,
    columns: Math.max(...x.values()) + 1,
    rows,
    hidden: tree.tokens.length - nodes.length,
    folded: folded(tree, nodes),
  };
}

// The children of each drawn node in drawing order: the target's token, the accepted path, then by visits or prior.
function childrenOf(tree, path, origins, shown) {
  const accepted = new Set(path);
  const order = [...shown].sort((a, b) => accepted.has(b) - accepted.has(a) || weight(tree, b) - weight(tree, a) || a - b);
  const children = new Map();
  const add = (parent, node) => children.set(parent, [...(children.get(parent) ?? []), node]);
  if (path.length && origins[origins.length - 1] === "target") add(path[path.length - 1], TARGET);
  for (const node of order) if (node) add(tree.parents[node], node);
  return children;
}

// The accepted path and the most visited nodes, closed under parents.
function shownNodes(tree, path, limit) {
  const all = tree.tokens.map((_, node) => node);
  if (all.length <= limit) return new Set(all);
  const shown = new Set([0, ...path.slice(0, limit)]);
  for (let node of all.sort((a, b) => weight(tree, b) - weight(tree, a) || a - b)) {
    const line = [];
    for (; !shown.has(node) && shown.size + line.length <= limit; node = tree.parents[node]) line.push(node);
    if (shown.size + line.length <= limit) for (const one of line) shown.add(one);
  }
  return shown;
}

function folded(tree, nodes) {
  const counts = new Map(nodes.map((node) => [node, 0]));
  const ancestors = [];
  tree.parents.forEach((parent, node) => {
    ancestors[node] = counts.has(node) ? node : ancestors[parent];
    if (ancestors[node] !== node) counts.set(ancestors[node], counts.get(ancestors[node]) + 1);
  });
  return [...counts.values()];
}

// Order of siblings: visit count, or prior if the method does not count visits.
function weight({ columns }, node) {
  return columns.visits?.[node] ?? columns.prior?.[node] ?? 0;
}
