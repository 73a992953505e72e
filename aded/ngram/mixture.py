"""Mixture of two predictions of the next token: from the tri-gram matrix and from a trained head that reads the target's states.

The head's predictions form a *lattice*. Medusa's heads (arXiv 2401.10774) predict the token at each depth, the same for all
paths; EAGLE's head (arXiv 2401.15077) predicts the tokens after each path that it has expanded. Both are accurate near the root.
The matrix reaches any depth, but depends only on the last tokens of a path. The probability of a successor is
``share * lattice + (1 - share) * matrix``. There is one share for each depth and each combination of the confidence levels of
both. The shares are learned from emitted tokens, with one step of expectation maximisation per token.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aded.core.compilation.jit import njit
from aded.ngram.session_counts import add, keep_best

KINDS = 6
"""Confidence levels of the matrix: 0 without successors, else by its highest probability."""
LATTICE_KINDS = 4
"""Confidence levels of the lattice at a depth, by its highest probability."""
LATTICE_BOUNDS = (0.25, 0.5, 0.8)
"""Highest probabilities that separate ``LATTICE_KINDS``."""
PRIOR_TOKENS = 30.0
"""Strength of the initial shares, in tokens."""
UNKNOWN_PROBABILITY = 1e-6
"""Probability of a token that a prediction does not contain."""


NO_SHARES = np.empty((0, KINDS))


class Lattice(NamedTuple):
    """Predictions of the tokens below the root: one row for each node, or group of nodes, with one; the root's first.

    Attributes:
        tokens: predicted token ids, most probable first, int32 ``[rows, ranks]``.
        probabilities: their probabilities, float64 ``[rows, ranks]``.
        below: the row of the child with each token, and of a child with any other one; -1 for none, int32 ``[rows, ranks + 1]``.
        depths: depth of the row's nodes, int64 ``[rows]``.
        shares: share of the lattice in the mixture, float64 ``[rows, KINDS]``.
    """

    tokens: np.ndarray
    probabilities: np.ndarray
    below: np.ndarray
    depths: np.ndarray
    shares: np.ndarray = NO_SHARES

    @classmethod
    def by_depth(cls, tokens: np.ndarray, probabilities: np.ndarray) -> Lattice:
        """A lattice of one row per depth, ``[depths, ranks]``, without shares."""
        depths = np.arange(len(tokens))
        below = np.where(depths + 1 < len(depths), depths + 1, -1).astype(np.int32)
        return cls(tokens, probabilities, np.repeat(below[:, None], tokens.shape[1] + 1, axis=1), depths)


NO_LATTICE = Lattice.by_depth(np.empty((0, 0), dtype=np.int32), np.empty((0, 0)))


class LogOdds(NamedTuple):
    """Initial shares of a lattice: the log-odds of a share are the sum of one term of each.

    Attributes:
        depth: terms by depth, as many as there are depths with a share each; deeper rows use the last.
        lattice, matrix: terms by confidence level, ``LATTICE_KINDS`` and ``KINDS``.
    """

    depth: tuple[float, ...]
    lattice: tuple[float, ...]
    matrix: tuple[float, ...]


class Shares:
    """The learned shares of the lattice; ``initial``: their initial values, fitted to text that a model wrote."""

    def __init__(self, initial: LogOdds) -> None:
        by_depth, by_lattice, by_matrix = (np.array(terms) for terms in initial)
        log_odds = by_depth[:, None, None] + by_lattice[:, None] + by_matrix
        self._credit = PRIOR_TOKENS / (1.0 + np.exp(-log_odds))
        self._uses = np.full(log_odds.shape, PRIOR_TOKENS)

    @property
    def values(self) -> np.ndarray:
        """The shares, float64 ``[depths, LATTICE_KINDS, KINDS]``."""
        return self._credit / self._uses

    def of(self, lattice: Lattice) -> Lattice:
        """A lattice with its shares."""
        depths = np.minimum(lattice.depths, len(self._uses) - 1)
        return lattice._replace(shares=self.values[depths, lattice_kinds(lattice.probabilities)])

    def learn(self, depth: int, lattice_kind: int, kind: int, lattice: float, matrix: float) -> None:
        """One step of expectation maximisation.

        Args:
            depth: depth of the node after which the token was emitted; the root is at depth 0.
            lattice_kind, kind: confidence levels of lattice and matrix, from `lattice_kinds` and `kind_of`.
            lattice, matrix: probability of the emitted token in each.
        """
        cell = min(depth, len(self._uses) - 1), lattice_kind, kind
        share = self._credit[cell] / self._uses[cell]
        from_lattice, from_matrix = share * max(lattice, UNKNOWN_PROBABILITY), (1 - share) * max(matrix, UNKNOWN_PROBABILITY)
        self._credit[cell] += from_lattice / (from_lattice + from_matrix)
        self._uses[cell] += 1


def lattice_kinds(probabilities: np.ndarray) -> np.ndarray:
    """The confidence level of each row, int64 ``[rows]``, of a lattice's probabilities ``[rows, ranks]``."""
    return np.searchsorted(LATTICE_BOUNDS, probabilities[:, 0], side="right")


@njit(cache=True)
def kind_of(weights, count):
    """The confidence level of the matrix, from the first ``count`` probabilities of its successors, highest first."""
    if count == 0:
        return 0
    top = weights[0]
    return 1 if top < 0.1 else 2 if top < 0.25 else 3 if top < 0.5 else 4 if top < 0.8 else 5


@njit(cache=True)
def row_below(lattice, row, token):
    """The row of the child with ``token`` of a node with ``row``; -1 for none."""
    if row < 0:
        return -1
    for rank in range(lattice.tokens.shape[1]):
        if lattice.tokens[row, rank] == token:
            return lattice.below[row, rank]
    return lattice.below[row, -1]


@njit(cache=True, inline="always")
def mix(lattice, lookup, row, count, keep):
    """Mix the lattice's predictions for the children of a node into the ``count`` successors in ``lookup``.

    Args:
        lattice: a `Lattice`.
        lookup: `aded.ngram.session_counts.Lookup` that holds the successors.
        row: row of the node.
        count: number of successors in ``lookup``.
        keep: maximum number of successors to keep, most probable first.

    Returns:
        The new number of successors.
    """
    tokens, weights = lookup.tokens, lookup.probabilities
    share = lattice.shares[row, kind_of(weights, count)]
    for i in range(count):
        weights[i] *= 1.0 - share
    for rank in range(lattice.tokens.shape[1]):
        count = add(tokens, weights, count, lattice.tokens[row, rank], share * lattice.probabilities[row, rank])
    return keep_best(lookup, count, keep)
