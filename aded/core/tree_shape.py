"""Sparse draft trees from acceptance rates that depend only on depth and rank, not on the parent node.

Medusa's heads give such candidates: head k predicts the token k steps ahead without seeing the tokens in between. The
tree of ``n`` nodes with the most expected accepted tokens holds the n nodes with the highest product of acceptance rates
along their paths (Medusa, arXiv 2401.10774, appendix on sparse trees).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aded.core.best_first import start, take_best
from aded.core.compilation.jit import njit


class Shape(NamedTuple):
    """A tree without tokens, in topological order and by descending path product.

    Attributes:
        ranks: rank of each node among its siblings, int32 ``[n]``, 0 is the best; unused for the root.
        parents: int32 ``[n]``, -1 for the root.
        depths: int32 ``[n]``.
        values: product along the path to each node, float64 ``[n]``, 1 for the root; non-increasing.
    """

    ranks: np.ndarray
    parents: np.ndarray
    depths: np.ndarray
    values: np.ndarray


def best_shape(values: np.ndarray, budget: int) -> Shape:
    """The tree of at most ``budget`` nodes (including the root) with the highest path products, ties as in `take_best`.

    Args:
        values: acceptance rate, or its estimate, of each rank at each depth, float64 ``[depths, ranks]``, from 0 to 1. A
            value above that of a better rank is lowered to it, so that no node is drafted before a better-ranked sibling.
        budget: maximum number of nodes.
    """
    return Shape(*_best_shape(np.ascontiguousarray(values, dtype=np.float64), budget))


@njit(cache=True)
def _best_shape(values, budget):
    nodes, ranks, priors, frontier = start(0, budget, values.shape[1])
    count = 1
    while count < budget:
        node = count - 1
        nodes[node].children = _write_ranks(values, nodes[node].depth, ranks[node], priors[node])
        if not take_best(nodes, ranks, priors, frontier, count, 1.0):
            break
        count += 1
    nodes = nodes[:count]
    return nodes.token.copy(), nodes.parent.copy(), nodes.depth.copy(), nodes.value.copy()


@njit(cache=True, inline="always")
def _write_ranks(values, depth, ranks, priors):
    """Write the ranks at a depth that have a value above 0, and their values; returns their number."""
    value, count = 1.0, 0
    while depth < len(values) and count < values.shape[1]:
        value = min(value, values[depth, count])
        if value <= 0.0:
            break
        ranks[count], priors[count] = count, value
        count += 1
    return count
