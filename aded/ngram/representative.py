"""Successors that each LLM representative predicts, and their distance from the target model's distribution.

There are three LLM representatives, here with their names in records: the base counts (``base``), which are the row of the last
bigram or, if that bigram has no row, the row of the last token; the session counts (``overlay``); and the mixture of both
(``session``), which the tree searches use.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from aded.core.inspection import Prediction
from aded.ngram.session_counts import SessionCounts
from aded.ngram.trigram import EMPTY, SUCCESSORS_LIMIT, TrigramMatrix

TOP_KS = (1, 4, 12)
"""Values of k for the top-k agreement."""
MAX_CONTEXT = 8
"""Number of last tokens of a context that session counts read."""


def predictions(matrix: TrigramMatrix, session: SessionCounts, text: np.ndarray) -> Iterator[Prediction]:
    """The successors of ``text`` (token ids, int32 ``[length]``, ``length >= 1``) in each LLM representative."""
    first, second = (int(text[-2]) if len(text) > 1 else -1), int(text[-1])
    tokens, probabilities = matrix.row(first, second) if len(text) > 1 else (np.zeros(0, np.int32), np.zeros(0))
    unseen, unlearned = not len(tokens), not session.has_counts(text[-2:])
    if unseen:
        tokens, probabilities = matrix.row(-1, second)
    yield Prediction("base", tokens, probabilities, unseen)
    tokens, probabilities = session.successors(_empty_matrix(matrix.vocab_size), text[-MAX_CONTEXT:], 4 * SUCCESSORS_LIMIT)
    yield Prediction("overlay", tokens, probabilities, unlearned)
    tokens, probabilities = session.successors(matrix, text[-MAX_CONTEXT:], 4 * SUCCESSORS_LIMIT)
    yield Prediction("session", tokens, probabilities, unseen and unlearned)


def session_share(
    matrix: TrigramMatrix, session: SessionCounts, context: np.ndarray, tokens: np.ndarray, given: np.ndarray
) -> np.ndarray:
    """The share of the session's probabilities after ``context`` that was learned; the rest comes from the base counts.

    Mixture rule: the probability that the session counts give without base counts, as these only receive the weight that the
    rows of the session leave. Published rule: the amount added to the copy of the row of the base counts.

    Args:
        matrix: the base counts.
        session: the session counts.
        context: token ids, int32 ``[length]``, ``length >= 2`` for the published rule, else ``>= 1``.
        tokens: the session's successors, int32 ``[k]``.
        given: their probabilities, float64 ``[k]``.

    Returns:
        Float64 ``[k]``, from 0 to ``given``.
    """
    if session.arrays.published:
        base = _by_token(*matrix.row(int(context[-2]), int(context[-1])))
        return np.clip(given - np.array([base.get(token, 0.0) for token in tokens.tolist()]), 0.0, given)
    alone = _by_token(*session.successors(_empty_matrix(matrix.vocab_size), context, 4 * SUCCESSORS_LIMIT))
    return np.minimum(np.array([alone.get(token, 0.0) for token in tokens.tolist()]), given)


def _by_token(tokens: np.ndarray, probabilities: np.ndarray) -> dict[int, float]:
    return dict(zip(tokens.tolist(), probabilities.tolist()))


def session_size(session: SessionCounts) -> tuple[int, int]:
    """Number of rows in use, and their size in bytes."""
    keys = session.arrays.keys
    by_row = [array for array in session.arrays if isinstance(array, np.ndarray) and len(array) == len(keys)]
    rows = int(np.count_nonzero(keys != EMPTY))
    return rows, rows * sum(array.nbytes for array in by_row) // len(keys)


@lru_cache(maxsize=4)
def _empty_matrix(vocab_size: int) -> TrigramMatrix:
    """Base counts without rows, to query session counts alone; cached, as building the index takes time."""
    return TrigramMatrix.empty(vocab_size)


@dataclass(frozen=True, eq=False)
class TargetDistribution:
    """The target model's distribution, ``[vocab]``, with which all LLM representatives are compared."""

    probabilities: np.ndarray

    @cached_property
    def best(self) -> np.ndarray:
        """The most probable tokens, as many as the largest k of ``TOP_KS``."""
        return most_probable(self.probabilities, min(max(TOP_KS), len(self.probabilities)))


def agreement(tokens: np.ndarray, probabilities: np.ndarray, target: TargetDistribution) -> tuple[float, tuple[float, ...]]:
    """Total variation distance from the target, and the top-k agreement for each k of ``TOP_KS``.

    The top-k agreement is the share of the target's k most probable tokens that are also among the first k successors.

    Args:
        tokens, probabilities: the successors, most probable first, ``[k]``. If the probabilities sum to less than 1, the
            rest is on no token.
        target: the target's distribution.
    """
    best, of_target = target.best, target.probabilities[tokens].astype(np.float64)
    unassigned = max(0.0, 1.0 - float(probabilities.sum()))
    distance = (np.abs(of_target - probabilities).sum() + max(0.0, 1.0 - float(of_target.sum())) + unassigned) / 2
    shared = tuple(len({*best[:k].tolist()} & {*tokens[:k].tolist()}) / min(k, len(target.probabilities)) for k in TOP_KS)
    return float(distance), shared


def most_probable(target: np.ndarray, count: int) -> np.ndarray:
    """The ``count`` most probable token ids, most probable first, ties by lower id.

    Args:
        target: a distribution, ``[vocab]``, ``vocab >= count``.
    """
    threshold = np.partition(target, -count)[-count]
    candidates = np.flatnonzero(target >= threshold)
    return candidates[np.argsort(-target[candidates], kind="stable")][:count]
