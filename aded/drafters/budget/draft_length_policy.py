"""Chooses the throughput-optimal shape of a draft that a draft model makes, before any token is sampled.

The expected number of tokens of a shape is the sum over its nodes of the product of acceptance rates along the node's path. Its
cost is one forward pass of the draft model per level and one forward pass of the target over all nodes. For a chain with one
acceptance rate this is the optimal draft length of speculative decoding (Leviathan et al., arXiv 2211.17192, section 3.5).
Acceptance rates are learned from verification. Costs come from a table that is measured once, not from the clock, so that
sampled runs are reproducible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from aded.core.tree import DraftTree
from aded.core.tree_shape import Shape, best_shape
from aded.drafters.budget.acceptance_statistics import AcceptanceRates

INITIAL_RATES = (0.6, 0.12, 0.05, 0.03)
"""Initial acceptance rates by the child's rank; the last one also applies to all further ranks."""
INITIAL_WEIGHT = 8.0
"""Number of observations that the initial rates count as."""
RETRY, MAX_RETRY = 16, 256
"""Steps without a draft before drafting is tried again: at first, and at most. Each unsuccessful try doubles the number."""
TOLERANCE = 0.02
"""Sizes whose throughput is within this fraction of the best count as equal; the largest is used, to observe deeper levels."""

Cost = Callable[[int, int], np.ndarray]
"""(context tokens, maximum nodes) to seconds of a forward pass over 1, 2, … nodes, float64 ``[nodes]``."""
LevelCost = Callable[[bool], float]
"""Whether drafts are greedy, to seconds per level of a draft; sampled drafts cost more than greedy ones."""


class ShapePolicy:
    """Chooses the shape with the highest expected tokens per second by the acceptance rates so far.

    Args:
        depth: maximum depth of a draft.
        ranks: maximum number of children of a node; 1 gives chains.
        target: seconds of a forward pass of the target.
        level: seconds that the draft model takes per level; None: always use the whole budget.

    Attributes:
        rates: the acceptance rates by depth and rank.
    """

    def __init__(self, depth: int, ranks: int, target: Cost | None = None, level: float | None = None) -> None:
        initial = np.array([*INITIAL_RATES, *[INITIAL_RATES[-1]] * ranks])[:ranks]
        self.rates = AcceptanceRates(np.tile(initial, (depth, 1)), INITIAL_WEIGHT)
        self._target_cost, self._level_cost = target, level
        self._steps_without_draft, self._retry = 0, RETRY

    def shape(self, context: int, budget: int, depth: int | None = None) -> Shape:
        """The throughput-optimal shape.

        Args:
            context: number of committed tokens.
            budget: maximum number of nodes, the root included.
            depth: maximum depth, if less than the policy's.
        """
        shape = best_shape(self.rates.values[:depth], budget)
        nodes = self._best_size(shape, context)
        if nodes > 1:
            self._retry = RETRY
        elif self._steps_without_draft >= self._retry:
            nodes = min(2, len(shape.parents))
        return Shape(*(column[:nodes] for column in shape))

    def observe(self, tree: DraftTree, path: Sequence[int] | np.ndarray, judged: int) -> None:
        """Update the acceptance rates from a verified draft and its accepted path; only the first ``judged`` path nodes count."""
        if len(tree) > 1 and self._steps_without_draft >= self._retry:
            self._retry = min(2 * self._retry, MAX_RETRY)
        self._steps_without_draft = 0 if len(tree) > 1 else self._steps_without_draft + 1
        self.rates.observe(tree, path, judged)

    def _best_size(self, shape: Shape, context: int) -> int:
        if self._target_cost is None or self._level_cost is None:
            return len(shape.parents)
        levels = np.maximum.accumulate(shape.depths)
        total = self._target_cost(context, len(shape.parents)) + levels * self._level_cost
        throughput = shape.values.cumsum() / total
        if throughput.argmax() == 0:
            return 1
        return int(np.flatnonzero(throughput >= (1 - TOLERANCE) * throughput.max())[-1]) + 1
