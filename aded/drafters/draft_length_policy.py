"""How long and how wide a draft pays when making it costs passes of a draft model: decided before anything is drawn.

Expected tokens of a shape are the sum over its nodes of the products of acceptance rates along their paths; its cost is one pass
of the draft model a level and one of the target over all nodes. For a chain of one rate this is the choice of the draft's
length in speculative decoding (Leviathan et al., arXiv 2211.17192, section 3.5). Rates come from verdicts and costs
from a table that was measured once, not from a clock, so that sampled runs repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from aded.core.tree import DraftTree
from aded.core.tree_shape import Shape, best_shape

FIRST_RATES = (0.6, 0.12, 0.05, 0.03)
"""First guesses at the acceptance of the best child, the second, and so on."""
EVIDENCE = 8.0
"""Verdicts that a first guess is worth."""
MEMORY = 400.0
"""Verdicts of a level after which older ones count half."""
RETRY, LONGEST_RETRY = 16, 256
"""Steps without a draft before one is tried again: at first, and at most, for each time in vain doubles them."""
ALIKE = 0.02
"""Drafts that pay within this share of the best pay alike; the largest is made, for what it tells of deeper levels."""

Cost = Callable[[int, int], np.ndarray]
"""(context tokens, most nodes) to seconds of a pass over 1, 2, … nodes, float64 ``[nodes]``."""
LevelCost = Callable[[bool], float]
"""Whether drafts are greedy, to seconds that one more level of them takes: drawing from a distribution costs more."""


class ShapePolicy:
    """Learns acceptance by depth and rank, and chooses the shape that makes most tokens a second.

    Args:
        depth: deepest level of a draft.
        ranks: most children of a node; 1 makes chains.
        target: seconds of a pass of the target.
        level: seconds that one more level takes the draft model; None: drafts as large as is allowed.
    """

    def __init__(self, depth: int, ranks: int, target: Cost | None = None, level: float | None = None) -> None:
        first = np.array([*FIRST_RATES, *[FIRST_RATES[-1]] * ranks])[:ranks]
        self._tried = np.full((depth, ranks), EVIDENCE)
        self._accepted = EVIDENCE * np.tile(first, (depth, 1))
        self._target, self._level = target, level
        self._without, self._retry = 0, RETRY

    @property
    def rates(self) -> np.ndarray:
        """Estimated probability that a child of each depth and rank is accepted if its parent is, float64 ``[depth, ranks]``."""
        return self._accepted / self._tried

    def shape(self, context: int, budget: int, depth: int | None = None) -> Shape:
        """The shape of at most ``budget`` nodes, the root included, that pays best over ``context`` committed tokens.

        ``depth``: of its deepest level at most, where that is less than the policy's own.
        """
        shape = best_shape(self.rates[:depth], budget)
        nodes = self._best_size(shape, context)
        if nodes > 1:
            self._retry = RETRY
        elif self._without >= self._retry:
            nodes = min(2, len(shape.parents))
        return Shape(*(column[:nodes] for column in shape))

    def observe(self, tree: DraftTree, path: Sequence[int] | np.ndarray, judged: int) -> None:
        """Learn from a verdict: the verified draft, its accepted path, and at how many nodes of that the target had its say."""
        if len(tree) > 1 and self._without >= self._retry:
            self._retry = min(2 * self._retry, LONGEST_RETRY)
        self._without = 0 if len(tree) > 1 else self._without + 1
        accepted = {int(node) for node in path}
        for level, node in enumerate(list(path)[: min(judged, len(self._tried))]):
            children = np.flatnonzero(tree.parents == node)[: self._tried.shape[1]]
            self._tried[level, : len(children)] += 1
            self._accepted[level, : len(children)] += [int(child) in accepted for child in children]
            if self._tried[level, 0] > MEMORY:
                self._tried[level] *= 0.5
                self._accepted[level] *= 0.5

    def _best_size(self, shape: Shape, context: int) -> int:
        if self._target is None or self._level is None:
            return len(shape.parents)
        levels = np.maximum.accumulate(shape.depths)
        total = self._target(context, len(shape.parents)) + levels * self._level
        pays = shape.values.cumsum() / total
        if pays.argmax() == 0:
            return 1
        return int(np.flatnonzero(pays >= (1 - ALIKE) * pays.max())[-1]) + 1
