"""Mixture of two predictions of the next token: from the tri-gram matrix and from Medusa heads (arXiv 2401.10774).

The heads predict the token at each depth from the target's hidden state; these predictions form a *lattice*. They are
accurate near the root but the same for all paths. The matrix depends on the path but only on its last tokens. The probability
of a successor is ``share * lattice + (1 - share) * matrix``. There is one share for each depth and each combination of the
confidence levels of both. The shares are learned from emitted tokens, with one step of expectation maximisation per token.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aded.core.jit import njit
from aded.ngram.session_counts import add, keep_best

KINDS = 6
"""Confidence levels of the matrix: 0 without successors, else by its highest probability."""
LATTICE_KINDS = 4
"""Confidence levels of the lattice at a depth, by its highest probability."""
LATTICE_BOUNDS = (0.25, 0.5, 0.8)
"""Highest probabilities that separate ``LATTICE_KINDS``."""
LOG_ODDS_BY_DEPTH = (0.5, -0.4, -0.4, -0.5)
LOG_ODDS_BY_LATTICE = (-2.1, -1.0, 0.1, 2.3)
LOG_ODDS_BY_MATRIX = (2.6, 0.8, 0.5, -0.1, -1.1, -3.4)
"""Initial share of the lattice: its log-odds are the sum of one term of each, fitted to text that a model wrote."""
PRIOR_TOKENS = 30.0
"""Strength of the initial shares, in tokens."""
UNKNOWN_PROBABILITY = 1e-6
"""Probability of a token that a prediction does not contain."""


class Lattice(NamedTuple):
    """Predictions of the tokens below the root, one row per depth.

    Attributes:
        tokens: predicted token ids, most probable first, int32 ``[depths, ranks]``.
        probabilities: their probabilities, float64 ``[depths, ranks]``.
        shares: share of the lattice in the mixture, float64 ``[depths, KINDS]``.
    """

    tokens: np.ndarray
    probabilities: np.ndarray
    shares: np.ndarray


NO_LATTICE = Lattice(np.empty((0, 0), dtype=np.int32), np.empty((0, 0)), np.empty((0, KINDS)))


class Shares:
    """The learned shares of the lattice.

    Args:
        depths: number of depths of the lattice.
    """

    def __init__(self, depths: int) -> None:
        column = np.minimum(np.arange(depths), len(LOG_ODDS_BY_DEPTH) - 1)
        by_depth = np.array(LOG_ODDS_BY_DEPTH)[column, None, None]
        log_odds = by_depth + np.array(LOG_ODDS_BY_LATTICE)[:, None] + np.array(LOG_ODDS_BY_MATRIX)
        self._credit = PRIOR_TOKENS / (1.0 + np.exp(-log_odds))
        self._uses = np.full(log_odds.shape, PRIOR_TOKENS)

    @property
    def values(self) -> np.ndarray:
        """The shares, float64 ``[depths, LATTICE_KINDS, KINDS]``."""
        return self._credit / self._uses

    def at(self, probabilities: np.ndarray) -> np.ndarray:
        """The shares, float64 ``[depths, KINDS]``, of a lattice with these probabilities, ``[depths, ranks]``."""
        return self.values[np.arange(len(probabilities)), lattice_kinds(probabilities)]

    def learn(self, depth: int, lattice_kind: int, kind: int, lattice: float, matrix: float) -> None:
        """One step of expectation maximisation.

        Args:
            depth: depth of the emitted token; 0 is the first token below the root.
            lattice_kind, kind: confidence levels of lattice and matrix, from `lattice_kinds` and `kind_of`.
            lattice, matrix: probability of the emitted token in each.
        """
        cell = depth, lattice_kind, kind
        share = self._credit[cell] / self._uses[cell]
        from_lattice, from_matrix = share * max(lattice, UNKNOWN_PROBABILITY), (1 - share) * max(matrix, UNKNOWN_PROBABILITY)
        self._credit[cell] += from_lattice / (from_lattice + from_matrix)
        self._uses[cell] += 1


def lattice_kinds(probabilities: np.ndarray) -> np.ndarray:
    """The confidence level at each depth, int64 ``[depths]``, of a lattice's probabilities ``[depths, ranks]``."""
    return np.searchsorted(LATTICE_BOUNDS, probabilities[:, 0], side="right")


@njit(cache=True)
def kind_of(weights, count):
    """The confidence level of the matrix, from the first ``count`` probabilities of its successors, highest first."""
    if count == 0:
        return 0
    top = weights[0]
    return 1 if top < 0.1 else 2 if top < 0.25 else 3 if top < 0.5 else 4 if top < 0.8 else 5


@njit(cache=True, inline="always")
def mix(lattice, lookup, depth, count, keep):
    """Mix the lattice's predictions for the children of a node into the ``count`` successors in ``lookup``.

    Args:
        lattice: a `Lattice`.
        lookup: `aded.ngram.session_counts.Lookup` that holds the successors.
        depth: depth of the node, less than the number of depths of the lattice.
        count: number of successors in ``lookup``.
        keep: maximum number of successors to keep, most probable first.

    Returns:
        The new number of successors.
    """
    tokens, weights = lookup.tokens, lookup.probabilities
    share = lattice.shares[depth, kind_of(weights, count)]
    for i in range(count):
        weights[i] *= 1.0 - share
    for rank in range(lattice.tokens.shape[1]):
        count = add(tokens, weights, count, lattice.tokens[depth, rank], share * lattice.probabilities[depth, rank])
    return keep_best(lookup, count, keep)
