"""Sparse draft trees from acceptance rates that depend only on depth and rank, not on the parent node.

Medusa's heads give such candidates: head k predicts the token k steps ahead without seeing the tokens in between. The
tree of ``n`` nodes with the most expected accepted tokens holds the n nodes with the highest product of acceptance rates
along their paths (Medusa, arXiv 2401.10774, appendix on sparse trees).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aded.core.jit import njit


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
    """The tree of at most ``budget`` nodes (including the root) with the highest path products.

    Args:
        values: acceptance rate, or its estimate, of each rank at each depth, float64 ``[depths, ranks]``, from 0 to 1. A
            value above that of a better rank is lowered to it, so that no node is drafted before a better-ranked sibling.
        budget: maximum number of nodes.
    """
    return Shape(*_best_shape(np.minimum.accumulate(np.clip(values, 0.0, 1.0), axis=1), budget))


@njit(cache=True)
def _best_shape(values, budget):
    ranks, parents, depths = np.zeros(budget, np.int32), np.full(budget, -1, np.int32), np.zeros(budget, np.int32)
    joint = np.ones(budget)
    # Each node adds at most two candidates, its first child and its next sibling: few enough for a linear search.
    queue_parent, queue_rank, queue_value = np.empty(2 * budget, np.int32), np.empty(2 * budget, np.int32), np.empty(2 * budget)
    queued, count = 0, 1
    if values.shape[0] > 0:
        queue_parent[0], queue_rank[0], queue_value[0] = 0, 0, values[0, 0]
        queued = 1
    while count < budget and queued > 0:
        best = 0
        for i in range(1, queued):
            if queue_value[i] > queue_value[best]:
                best = i
        parent, rank, value = queue_parent[best], queue_rank[best], queue_value[best]
        queued -= 1
        queue_parent[best], queue_rank[best], queue_value[best] = queue_parent[queued], queue_rank[queued], queue_value[queued]
        if value <= 0.0:
            break
        depth = depths[parent] + 1
        parents[count], ranks[count], depths[count], joint[count] = parent, rank, depth, value
        if rank + 1 < values.shape[1]:
            queue_parent[queued], queue_rank[queued] = parent, rank + 1
            queue_value[queued] = joint[parent] * values[depth - 1, rank + 1]
            queued += 1
        if depth < values.shape[0]:
            queue_parent[queued], queue_rank[queued], queue_value[queued] = count, 0, value * values[depth, 0]
            queued += 1
        count += 1
    return ranks[:count], parents[:count], depths[:count], joint[:count]
