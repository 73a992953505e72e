"""Trees over a lattice: for each depth a list of ranked guesses, whatever stands above it.

Medusa's heads make such a lattice (a token k steps ahead is guessed from now, not from what comes between), and so does a
table of how often the guess of each rank was right. The tree of ``n`` nodes that is expected to bring most accepted
tokens holds the n nodes whose values, multiplied along their paths, are highest (Medusa, arXiv 2401.10774, appendix on
sparse trees).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aded.core.jit import njit


class Shape(NamedTuple):
    """A tree of ranks in topological order, the likeliest node first.

    Attributes:
        ranks: of each node among its siblings, int32 ``[n]``, 0 is the best; the root's means nothing.
        parents: int32 ``[n]``, -1 for the root.
        depths: int32 ``[n]``.
        values: product of the values along each node's path, float64 ``[n]``, 1 for the root; never rising.
    """

    ranks: np.ndarray
    parents: np.ndarray
    depths: np.ndarray
    values: np.ndarray


def best_shape(values: np.ndarray, budget: int) -> Shape:
    """The ``budget`` nodes (root included) of the highest products.

    Args:
        values: of the guess of each rank at each depth, float64 ``[depths, ranks]``, from 0 to 1. Where they rise with the rank,
            they are taken to stay level: a guess is never drafted before a better-ranked sibling.
    """
    return Shape(*_best_shape(np.minimum.accumulate(np.clip(values, 0.0, 1.0), axis=1), budget))


@njit(cache=True)
def _best_shape(values, budget):
    ranks, parents, depths = np.zeros(budget, np.int32), np.full(budget, -1, np.int32), np.zeros(budget, np.int32)
    joint = np.ones(budget)
    # Two offers a node at most: its first child and its next sibling. They are few, so a plain search for the best is quick.
    offer_parent, offer_rank, offer_value = np.empty(2 * budget, np.int32), np.empty(2 * budget, np.int32), np.empty(2 * budget)
    offers, count = 0, 1
    if values.shape[0] > 0:
        offer_parent[0], offer_rank[0], offer_value[0] = 0, 0, values[0, 0]
        offers = 1
    while count < budget and offers > 0:
        best = 0
        for i in range(1, offers):
            if offer_value[i] > offer_value[best]:
                best = i
        parent, rank, value = offer_parent[best], offer_rank[best], offer_value[best]
        offers -= 1
        offer_parent[best], offer_rank[best], offer_value[best] = offer_parent[offers], offer_rank[offers], offer_value[offers]
        if value <= 0.0:
            break
        depth = depths[parent] + 1
        parents[count], ranks[count], depths[count], joint[count] = parent, rank, depth, value
        if rank + 1 < values.shape[1]:
            offer_parent[offers], offer_rank[offers] = parent, rank + 1
            offer_value[offers] = joint[parent] * values[depth - 1, rank + 1]
            offers += 1
        if depth < values.shape[0]:
            offer_parent[offers], offer_rank[offers], offer_value[offers] = count, 0, value * values[depth, 0]
            offers += 1
        count += 1
    return ranks[:count], parents[:count], depths[:count], joint[:count]
