"""What a drafter can show of itself: how a draft came about, what its matrix holds, what it would answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

Who = Literal["base", "overlay", "session"]


@dataclass(frozen=True)
class Answer:
    """One representative's successors of a context.

    Attributes:
        who: ``base``, ``overlay`` or ``session``.
        tokens: token ids, most probable first, int32 ``[k]``.
        probabilities: theirs, float64 ``[k]``; what they lack to 1 lies on no token.
        unseen: the pair of newest tokens has no row there.
    """

    who: Who
    tokens: np.ndarray
    probabilities: np.ndarray
    unseen: bool


@dataclass(frozen=True)
class MatrixRow:
    """One row of a drafter's matrix, for the record: the successors of a pair and their probabilities.

    Attributes:
        learned: the part of each probability that the session taught; the rest is the base matrix's.
    """

    key: tuple[int, int]
    tokens: tuple[int, ...]
    probabilities: tuple[float, ...]
    learned: tuple[float, ...]


@dataclass(frozen=True)
class MatrixSize:
    """Rows and bytes of memory of the base matrix and of the overlay; bytes of the overlay's free rows are not counted."""

    base_rows: int
    base_bytes: int
    overlay_rows: int
    overlay_bytes: int


@dataclass(frozen=True)
class Simulation:
    """One simulation of a tree search, for the page to replay.

    Nodes are those of the tree that the search returns; -1 stands for a node that did not get into the draft.
    """

    selected: tuple[int, ...]  # the path that selection took, from the root
    expanded: int  # the node that was evaluated (its children exist from here on)
    reward: float


@dataclass(frozen=True)
class Explanation:
    """How the last draft came about: made on request, outside all timing."""

    note: str | None = None  # why a draft is empty or smaller than asked for
    simulations: tuple[Simulation, ...] = field(default_factory=tuple)
