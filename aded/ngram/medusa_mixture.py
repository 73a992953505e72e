"""Two opinions on the next token in one: a matrix's, which knows the path, and a lattice's, which knows the model's state.

A lattice guesses the token of every depth from the target's hidden state (Medusa's heads); it is good near the root and cannot
know which path it is on. The matrix knows the path, and cannot know more than the last few tokens. A successor's probability is
``share * lattice + (1 - share) * matrix``, with a share for every depth and for how certain each of both is; shares are
learned from the tokens that the target wrote, by one step of expectation maximisation each.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aded.core.jit import njit
from aded.ngram.session_overlay import add, keep_best

KINDS = 6
"""How certain a matrix is: no successor known, then by its best one's probability."""
LATTICE_KINDS = 4
"""How certain a lattice is of a depth, by its best guess's probability."""
LATTICE_BOUNDS = (0.25, 0.5, 0.8)
BY_DEPTH = (0.5, -0.4, -0.4, -0.5)
BY_LATTICE = (-2.1, -1.0, 0.1, 2.3)
BY_MATRIX = (2.6, 0.8, 0.5, -0.1, -1.1, -3.4)
"""First guess at the lattice's share: the log-odds are the sum of one of each, fitted to what a model wrote itself."""
EVIDENCE = 30.0
"""Tokens that a first guess is worth."""
UNKNOWN = 1e-6
"""Probability of a token that an opinion does not name."""


class Lattice(NamedTuple):
    """Guesses at the tokens below the root.

    Attributes:
        tokens: int32 ``[depths, ranks]``; probabilities: float64 ``[depths, ranks]``.
        shares: of the lattice in the mixture, float64 ``[depths, KINDS]``.
    """

    tokens: np.ndarray
    probabilities: np.ndarray
    shares: np.ndarray


NO_LATTICE = Lattice(np.empty((0, 0), dtype=np.int32), np.empty((0, 0)), np.empty((0, KINDS)))


class Shares:
    """The lattice's shares, learned. ``depths``: of the lattice."""

    def __init__(self, depths: int) -> None:
        at = np.minimum(np.arange(depths), len(BY_DEPTH) - 1)
        odds = np.array(BY_DEPTH)[at, None, None] + np.array(BY_LATTICE)[:, None] + np.array(BY_MATRIX)
        self._right = EVIDENCE / (1.0 + np.exp(-odds))
        self._asked = np.full(odds.shape, EVIDENCE)

    @property
    def values(self) -> np.ndarray:
        """Float64 ``[depths, LATTICE_KINDS, KINDS]``."""
        return self._right / self._asked

    def at(self, probabilities: np.ndarray) -> np.ndarray:
        """The shares of a lattice whose guesses have these probabilities, ``[depths, ranks]``: float64 ``[depths, KINDS]``."""
        return self.values[np.arange(len(probabilities)), lattice_kinds(probabilities)]

    def learn(self, depth: int, lattice_kind: int, kind: int, lattice: float, matrix: float) -> None:
        """Take in what both opinions gave to the token that came at a depth (0 is right below the root)."""
        place = depth, lattice_kind, kind
        share = self._right[place] / self._asked[place]
        of_lattice, of_matrix = share * max(lattice, UNKNOWN), (1 - share) * max(matrix, UNKNOWN)
        self._right[place] += of_lattice / (of_lattice + of_matrix)
        self._asked[place] += 1


def lattice_kinds(probabilities: np.ndarray) -> np.ndarray:
    """The kind of a lattice's opinion at each depth: of guesses' probabilities ``[depths, ranks]``, int64 ``[depths]``."""
    return np.searchsorted(LATTICE_BOUNDS, probabilities[:, 0], side="right")


@njit(cache=True)
def kind_of(weights, count):
    """The kind of a matrix's opinion: the ``count`` weights of its successors, highest first."""
    if count == 0:
        return 0
    top = weights[0]
    return 1 if top < 0.1 else 2 if top < 0.25 else 3 if top < 0.5 else 4 if top < 0.8 else 5


@njit(cache=True, inline="always")
def mix(lattice, depth, count, keep, room):
    """Mix the lattice's guesses below a node of this depth into the ``count`` successors in ``room``; the number after.

    Args:
        lattice: of guesses; beyond its depths nothing changes.
        keep: at most so many, most probable first.
        room: of ``aded.ngram.session_overlay.make_room``.
    """
    guesses, probabilities, shares = lattice
    if depth >= len(guesses):
        return count
    tokens, weights = room[0], room[1]
    share = shares[depth, kind_of(weights, count)]
    for i in range(count):
        weights[i] *= 1.0 - share
    for rank in range(guesses.shape[1]):
        count = add(tokens, weights, count, guesses[depth, rank], share * probabilities[depth, rank])
    return keep_best(room, count, keep)
