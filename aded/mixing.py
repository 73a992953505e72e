"""Two opinions on the next token in one: a matrix's, which knows the path, and a lattice's, which knows the model's state.

A lattice guesses the token of every depth from the target's hidden state (Medusa's heads); it is good near the root and cannot
know which path it is on. The matrix knows the path, and cannot know more than the last few tokens. A successor's probability is
``share * lattice + (1 - share) * matrix``, with a share for every depth and for how certain the matrix is; shares are
learned from the tokens that the target wrote, by one step of expectation maximisation each.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from aded.overlay import add, keep_best

KINDS = 6
"""How certain a matrix is: no successor known, then by its best one's probability."""
FIRST_SHARES = (0.9, 0.5, 0.4, 0.3, 0.2, 0.1)
"""First guess at the lattice's share at the first depth, by kind."""
DEEPER = 0.7
"""What is left of that guess one level deeper; where the matrix knows nothing, all of it."""
EVIDENCE = 10.0
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
        first = np.array(FIRST_SHARES) * DEEPER ** np.arange(depths)[:, None]
        first[:, 0] = FIRST_SHARES[0]
        self._right, self._asked = EVIDENCE * first, np.full((depths, KINDS), EVIDENCE)

    @property
    def values(self) -> np.ndarray:
        """Float64 ``[depths, KINDS]``."""
        return self._right / self._asked

    def learn(self, depth: int, kind: int, lattice: float, matrix: float) -> None:
        """Take in what both opinions gave to the token that came at a depth (0 is right below the root)."""
        share = self._right[depth, kind] / self._asked[depth, kind]
        of_lattice, of_matrix = share * max(lattice, UNKNOWN), (1 - share) * max(matrix, UNKNOWN)
        self._right[depth, kind] += of_lattice / (of_lattice + of_matrix)
        self._asked[depth, kind] += 1


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
        room: of ``aded.overlay.make_room``.
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
