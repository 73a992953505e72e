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

from aded.core.compilation.jit import njit
from aded.core.inspection import MatrixRow, Prediction
from aded.ngram.session_counts import SessionCounts, copy_base_row, new_lookup, successors
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


def rows(matrix: TrigramMatrix, session: SessionCounts, bigrams: np.ndarray, keep: int) -> list[MatrixRow]:
    """The successors of bigrams that a tree search uses, and the share of each probability that was learned.

    The learned share: by the mixture rule, the probability that the session counts give without base counts, as these only
    receive the weight that the rows of the session leave; by the published rule, the amount added to the copy of the row of the
    base counts.

    Args:
        matrix: the base counts.
        session: the session counts.
        bigrams: int32 ``[n, 2]``.
        keep: maximum number of successors of a row.
    """
    empty = _empty_matrix(matrix.vocab_size)
    found = _rows(matrix.arrays, empty.arrays, session.arrays, bigrams, keep)
    return [
        MatrixRow(tuple(bigram), tuple(tokens[:count]), tuple(probabilities[:count]), tuple(learned[:count]))
        for bigram, count, tokens, probabilities, learned in zip(bigrams.tolist(), *(array.tolist() for array in found))
    ]


@njit(cache=True)
def _rows(base, empty, session, bigrams, keep):
    """Number of successors, int64 ``[n]``, their tokens, probabilities and learned shares, ``[n, keep]``."""
    lookup, other = new_lookup(base, session), new_lookup(empty, session)
    counts, tokens = np.zeros(len(bigrams), np.int64), np.zeros((len(bigrams), keep), np.int32)
    probabilities, learned = np.zeros((len(bigrams), keep)), np.zeros((len(bigrams), keep))
    for row in range(len(bigrams)):
        bigram = bigrams[row]
        count = counts[row] = successors(lookup, bigram, 2, keep)
        if session.published:
            compared = copy_base_row(base, bigram[0], bigram[1], other.tokens, other.probabilities)
        else:
            compared = successors(other, bigram, 2, 4 * SUCCESSORS_LIMIT)
        for i in range(count):
            tokens[row, i], probabilities[row, i] = lookup.tokens[i], lookup.probabilities[i]
            share = 0.0
            for j in range(compared):
                if other.tokens[j] == tokens[row, i]:
                    share = other.probabilities[j]
            share = probabilities[row, i] - share if session.published else share
            learned[row, i] = min(max(share, 0.0), probabilities[row, i])
    return counts, tokens, probabilities, learned


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
