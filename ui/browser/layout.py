"""Layout of a draft tree: depth from left to right, the accepted path on the first row.

Positions depend on the tree only, so a step is always drawn in the same way. Nothing is drawn here.
"""

from __future__ import annotations

from dataclasses import dataclass

import networkx as nx

from aded.core.trace import Step, TreeRecord

MAX_NODES = 500
"""Maximum number of drawn nodes; the others are folded into their nearest drawn ancestor, and counted."""

TARGET = -1
"""The target's bonus or correction token, which is not a node of the draft."""


@dataclass(frozen=True)
class Layout:
    """Grid positions: column ``x`` is the depth, row ``y`` grows downwards.

    Attributes:
        nodes: indices of the drawn nodes, ascending.
        x, y: their columns and rows, in the order of ``nodes``.
        target: column and row of the bonus or correction token; None if the text ended before it.
        columns, rows: size of the grid.
        hidden: number of nodes that are not drawn.
        folded: number of nodes folded into each drawn node, in the order of ``nodes``.
    """

    nodes: list[int]
    x: list[int]
    y: list[int]
    target: list[int] | None
    columns: int
    rows: int
    hidden: int
    folded: list[int]


def layout(step: Step, limit: int = MAX_NODES) -> Layout:
    """Lay out a step's draft tree and, after the accepted path, the target's bonus or correction token."""
    shown = _shown(step.tree, step.path, limit)
    graph = _graph(step, shown)
    depth = nx.single_source_shortest_path_length(graph, 0)
    rows = _rows(graph)
    nodes = sorted(n for n in graph if n != TARGET)
    return Layout(
        nodes=nodes,
        x=[depth[n] for n in nodes],
        y=[rows[n] for n in nodes],
        target=[depth[TARGET], rows[TARGET]] if TARGET in graph else None,
        columns=max(depth.values()) + 1,
        rows=max(rows.values()) + 1,
        hidden=len(step.tree.tokens) - len(nodes),
        folded=_folded(step.tree, nodes),
    )


def _folded(tree: TreeRecord, nodes: list[int]) -> list[int]:
    """Number of nodes that are not drawn, per nearest drawn ancestor."""
    counts = dict.fromkeys(nodes, 0)
    for node in range(len(tree.tokens)):
        ancestor = node
        while ancestor not in counts:
            ancestor = tree.parents[ancestor]
        counts[ancestor] += ancestor != node
    return [counts[node] for node in nodes]


def _graph(step: Step, shown: set[int]) -> nx.DiGraph:
    """The drawn part as a graph; children are in drawing order."""
    tree, path = step.tree, set(step.path)
    order = sorted(shown, key=lambda n: (n not in path, -_weight(tree, n), n))
    graph = nx.DiGraph()
    graph.add_node(0)
    if step.path and step.origins and step.origins[-1] == "target":
        graph.add_edge(step.path[-1], TARGET)
    graph.add_edges_from((tree.parents[n], n) for n in order if n)
    return graph


def _rows(graph: nx.DiGraph) -> dict[int, int]:
    """A first child is on its parent's row, every other child on a new row below those of its elder siblings."""
    rows, free = {0: 0}, 0
    for node in nx.dfs_preorder_nodes(graph, 0):
        parent = next(graph.predecessors(node), None)
        if parent is None:
            continue
        if next(graph.successors(parent)) == node:
            rows[node] = rows[parent]
        else:
            free += 1
            rows[node] = free
    return rows


def _shown(tree: TreeRecord, path: list[int], limit: int) -> set[int]:
    """The accepted path and the most visited nodes, closed under parents, at most ``limit``."""
    n = len(tree.tokens)
    if n <= limit:
        return set(range(n))
    shown = set(path[:limit]) | {0}
    for node in sorted(range(n), key=lambda i: (-_weight(tree, i), i)):
        line = []
        while node not in shown:
            line.append(node)
            node = tree.parents[node]
        if len(shown) + len(line) <= limit:
            shown.update(line)
    return shown


def _weight(tree: TreeRecord, node: int) -> float:
    """Order of siblings: visit count, or prior if the method does not count visits."""
    for name in ("visits", "prior"):
        value = tree.columns[name][node] if name in tree.columns else None
        if value is not None:
            return value
    return 0.0
