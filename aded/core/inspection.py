"""What a drafter reports for display: the search or lattice behind a draft, matrix rows, predicted distributions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

Who = Literal["base", "overlay", "session"]


@dataclass(frozen=True)
class Prediction:
    """The next-token distribution that one LLM representative gives for a context.

    Attributes:
        who: ``base`` (base counts), ``overlay`` (session counts) or ``session`` (both together).
        tokens: token ids, most probable first, int32 ``[k]``.
        probabilities: float64 ``[k]``; the sum may be below 1.
        unseen: whether the matrix has no row for the last bigram of the context.
    """

    who: Who
    tokens: np.ndarray
    probabilities: np.ndarray
    unseen: bool


@dataclass(frozen=True)
class MatrixRow:
    """One row of the tri-gram matrix: the successors of a bigram and their probabilities.

    Attributes:
        key: the bigram.
        tokens: successors.
        probabilities: one per successor.
        learned: share of each probability that comes from session counts; the rest comes from base counts.
    """

    key: tuple[int, int]
    tokens: tuple[int, ...]
    probabilities: tuple[float, ...]
    learned: tuple[float, ...]


@dataclass(frozen=True)
class MatrixSize:
    """Rows and bytes of the base counts and of the session counts (``overlay``), without their unused capacity."""

    base_rows: int
    base_bytes: int
    overlay_rows: int
    overlay_bytes: int


@dataclass(frozen=True)
class Simulation:
    """One simulation of the tree search (MCTS), for replay on the page.

    Node indices refer to the returned draft tree; -1 is a node that is not in the draft.
    """

    selected: tuple[int, ...]  # path of the selection, from the root
    expanded: int  # the node that was expanded and evaluated
    reward: float  # the value that was backed up


@dataclass(frozen=True)
class LatticeColumn:
    """What one head predicts for its position, before and after rescoring.

    Attributes:
        tokens: most probable first; ``heads``: their probabilities by the head.
        rescored: their probabilities after rescoring, given the best path before them; empty without rescoring.
    """

    tokens: tuple[int, ...]
    heads: tuple[float, ...]
    rescored: tuple[float, ...] = ()


@dataclass(frozen=True)
class PhrasePool:
    """The n-grams of a pool that begin with the last token of the chain, which they continue.

    Attributes:
        size: number of n-grams in the pool.
        first: the token.
        phrases: the other tokens of each n-gram, latest first.
        drafted: how many of them, from the first on, are in the draft, before it is cut to a budget.
    """

    size: int
    first: int
    phrases: tuple[tuple[int, ...], ...]
    drafted: int


@dataclass(frozen=True)
class AttendedSlots:
    """The slots of the target's KV cache to which a head attended most when it drafted a token.

    Attributes:
        slots: positions in the text, most attended first.
        weights: attention weights, means over the heads.
    """

    slots: tuple[int, ...]
    weights: tuple[float, ...]


@dataclass(frozen=True)
class BeamLevel:
    """The most probable candidates of one level of a beam search.

    Attributes:
        candidates: number of candidates of the level.
        tokens: by cumulative draft probability, highest first; ``parents``: the token before each.
        cumulative: their cumulative draft probabilities.
        kept: whether the draft contains them.
    """

    candidates: int
    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    cumulative: tuple[float, ...]
    kept: tuple[bool, ...]


@dataclass(frozen=True)
class Explanation:
    """How the last draft was made. Built on request, outside the timed parts of a step."""

    note: str | None = None  # why the draft is empty or smaller than its budget
    simulations: tuple[Simulation, ...] = field(default_factory=tuple)
    lattice: tuple[LatticeColumn, ...] = ()  # predictions of heads, one column per position after the root
    pool: PhrasePool | None = None
    levels: tuple[BeamLevel, ...] = ()  # of a beam search, the first below the root
    attended: tuple[AttendedSlots, ...] = ()  # for each token of a drafted chain
