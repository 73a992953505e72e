"""What stands in for the model, asked what comes next, and how far its answer is from the model's own.

Three representatives: the *base* alone (the row of the last pair, or where that pair is unseen the row of the last
token), the *overlay* alone (what this session has learned), and the *session*, which is what a search draws from: both.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from aded.core.inspection import Answer
from aded.ngram.session_overlay import Overlay
from aded.ngram.trigram import EMPTY, MOST_SUCCESSORS, TrigramMatrix

TOPS = (1, 4, 12)
NEWEST = 8
"""Tokens of a context that an overlay reads."""


def answers(matrix: TrigramMatrix, overlay: Overlay, text: np.ndarray) -> Iterator[Answer]:
    """What each representative says would follow ``text``, int32 ``[length]``, ``length >= 1``."""
    first, second = (int(text[-2]) if len(text) > 1 else -1), int(text[-1])
    tokens, probabilities = matrix.row(first, second) if len(text) > 1 else (np.zeros(0, np.int32), np.zeros(0))
    unseen, unheard = not len(tokens), not overlay.knows(text[-2:])
    if unseen:
        tokens, probabilities = matrix.row(-1, second)
    yield Answer("base", tokens, probabilities, unseen)
    tokens, probabilities = overlay.successors(_nothing(matrix.vocab_size), text[-NEWEST:], 4 * MOST_SUCCESSORS)
    yield Answer("overlay", tokens, probabilities, unheard)
    tokens, probabilities = overlay.successors(matrix, text[-NEWEST:], 4 * MOST_SUCCESSORS)
    yield Answer("session", tokens, probabilities, unseen and unheard)


def learned(matrix: TrigramMatrix, overlay: Overlay, context: np.ndarray, tokens: np.ndarray, given: np.ndarray) -> np.ndarray:
    """The part of a session's probabilities after ``context`` that the overlay holds; the rest is the base's.

    By the mixture, that is what the overlay gives without a base: the base shares only what all overlay rows have left.
    By the published rule, it is what was added to the copy of the base's row.

    Args:
        tokens: the session's successors, int32 ``[k]``.
        given: their probabilities, float64 ``[k]``.

    Returns:
        Float64 ``[k]``, from 0 to ``given``.
    """
    if overlay.arrays.published:
        base = _by_token(*matrix.row(int(context[-2]), int(context[-1])))
        return np.clip(given - np.array([base.get(token, 0.0) for token in tokens.tolist()]), 0.0, given)
    alone = _by_token(*overlay.successors(_nothing(matrix.vocab_size), context, 4 * MOST_SUCCESSORS))
    return np.minimum(np.array([alone.get(token, 0.0) for token in tokens.tolist()]), given)


def _by_token(tokens: np.ndarray, probabilities: np.ndarray) -> dict[int, float]:
    return dict(zip(tokens.tolist(), probabilities.tolist()))


def overlay_size(overlay: Overlay) -> tuple[int, int]:
    """Rows in use and the bytes that they take."""
    keys = overlay.arrays.keys
    by_row = [array for array in overlay.arrays if isinstance(array, np.ndarray) and len(array) == len(keys)]
    rows = int(np.count_nonzero(keys != EMPTY))
    return rows, rows * sum(array.nbytes for array in by_row) // len(keys)


@lru_cache(maxsize=4)
def _nothing(vocab_size: int) -> TrigramMatrix:
    """The base of an overlay that is asked alone: one for all positions."""
    return TrigramMatrix.empty(vocab_size)


def agreement(tokens: np.ndarray, probabilities: np.ndarray, target: np.ndarray) -> tuple[float, tuple[float, ...]]:
    """Total variation from the target, and the share of its 1, 4 and 12 most probable tokens that are also the matrix's.

    Args:
        tokens, probabilities: the matrix's successors, most probable first, ``[k]``; what they lack to 1 lies on no token.
        target: the model's distribution, ``[vocab]``.
    """
    known = target[tokens].astype(np.float64)
    lacking = max(0.0, 1.0 - float(probabilities.sum()))
    distance = (np.abs(known - probabilities).sum() + max(0.0, 1.0 - float(known.sum())) + lacking) / 2
    best = most_probable(target, min(max(TOPS), len(target)))
    return float(distance), tuple(len(np.intersect1d(best[:k], tokens[:k])) / min(k, len(target)) for k in TOPS)


def most_probable(target: np.ndarray, count: int) -> np.ndarray:
    """The most probable ids, most probable first, lower id first among equals."""
    least = np.partition(target, -count)[-count]
    candidates = np.flatnonzero(target >= least)
    return candidates[np.argsort(-target[candidates], kind="stable")][:count]
