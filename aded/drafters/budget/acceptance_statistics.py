"""Estimates how probable it is that drafted tokens are accepted, from drafts that were verified.

`AcceptanceRates` needs only the position of a node in the tree, so it can estimate before a draft is made. `AcceptanceCurve`
calibrates the probabilities that a draft predicts for its own nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aded.core.compilation.jit import njit
from aded.core.tree import DraftTree

MAX_OBSERVATIONS = 400.0
"""When a depth has more observations than this, its counts are halved, so that older ones weigh less."""
BINS = 16
"""Number of bins of an acceptance curve."""
WEIGHT = 12.0
"""Predicted acceptances at which the observed and the initial correction factor of a bin weigh equally."""
MAX_PREDICTED = 4000.0
"""When the sum of an acceptance curve's predictions exceeds this, its counts are halved, so that older ones weigh less."""


class AcceptanceRates:
    """Acceptance rates by depth and by rank among siblings.

    Args:
        initial: initial rates, float64 ``[depths, ranks]``; the last depth and the last rank count for all further ones too.
        weight: number of observations that the initial rates count as.

    Attributes:
        counts: observed and accepted nodes, float64 ``[2, depths, ranks]``.
    """

    def __init__(self, initial: np.ndarray, weight: float) -> None:
        self.counts = weight * np.stack([np.ones_like(initial), initial])

    @property
    def values(self) -> np.ndarray:
        """Estimated probability that a node is accepted if its parent is, float64 ``[depths, ranks]``."""
        return self.counts[1] / self.counts[0]

    def observe(self, tree: DraftTree, path: Sequence[int] | np.ndarray, judged: int) -> None:
        """Count the children of the first ``judged`` nodes of the accepted path, without the required nodes of the draft."""
        count_children(tree.parents, tree.required, np.asarray(path, dtype=np.int64), judged, self.counts)


class AcceptanceCurve:
    """Calibrates predicted acceptance probabilities with the observed acceptance rates.

    Predictions are binned by their logarithm. Each bin has a correction factor, observed over predicted acceptances, that starts
    at the factor of all bins together, which itself starts at 1.

    Attributes:
        counts: sums of predictions and of acceptances, float64 ``[2, BINS]``.
    """

    def __init__(self) -> None:
        self.counts = np.zeros((2, BINS))

    def __call__(self, predicted: np.ndarray) -> np.ndarray:
        """Calibrated probabilities, float64 ``[n]``."""
        return calibrate(predicted, self.counts)

    def observe(self, predicted: np.ndarray, accepted: np.ndarray) -> None:
        """Count verified nodes: predicted probability, float64, and whether the node was accepted, bool, ``[n]`` each."""
        count_predictions(predicted, accepted, self.counts)


@njit(cache=True)
def calibrate(predicted, counts):
    """As `AcceptanceCurve`, for compiled code."""
    overall = (counts[1].sum() + WEIGHT) / (counts[0].sum() + WEIGHT)
    calibrated = np.empty(len(predicted))
    for i in range(len(predicted)):
        j = _bin(predicted[i])
        ratio = (counts[1, j] + WEIGHT * overall) / (counts[0, j] + WEIGHT)
        calibrated[i] = min(max(predicted[i] * ratio, 0.0), 1.0)
    return calibrated


@njit(cache=True)
def _bin(predicted):
    return min(max(int(-2.0 * np.log2(max(predicted, 1e-6))), 0), BINS - 1)


@njit(cache=True)
def count_predictions(predicted, accepted, counts):
    """As `AcceptanceCurve.observe`, for compiled code."""
    for i in range(len(predicted)):
        j = _bin(predicted[i])
        counts[0, j] += predicted[i]
        counts[1, j] += accepted[i]
    if counts[0].sum() > MAX_PREDICTED:
        counts *= 0.5


@njit(cache=True)
def count_children(parents, required, path, judged, counts):
    """As `AcceptanceRates.observe`, for compiled code."""
    accepted = np.zeros(len(parents), dtype=np.bool_)
    accepted[path] = True
    _, depths, ranks = counts.shape
    for level in range(min(judged, len(path))):
        depth, rank = min(level, depths - 1), 0
        for node in range(max(required, path[level]) + 1, len(parents)):
            if parents[node] == path[level]:
                counts[0, depth, min(rank, ranks - 1)] += 1.0
                counts[1, depth, min(rank, ranks - 1)] += accepted[node]
                rank += 1
        if counts[0, depth, 0] > MAX_OBSERVATIONS:
            counts[:, depth] *= 0.5
