"""Coupled search: when the target samples, draft the token that it will draw rather than the most probable one.

The target draws token i where E_i / p_i is smallest (see `aded.sampling.rng`), and E_i is known before the draw: it depends on
the seed, the position and the token only. With q for p, a search can thus rank successors by E_i / q_i. As q is not p, the
probability that i is drawn is modelled as a conditional logit: proportional to q_i · E_i^-b. The exponent b is learned from the
emitted tokens: 0 if q says nothing of p, the larger the nearer q is to p. Lossless, as the draw of the target does not change.
Compare the drafter-invariant coupling of arXiv 2408.07978, for draft models.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aded.core.jit import njit
from aded.ngram.session_counts import keep_best, new_lookup, successors
from aded.sampling.rng import key_of_compiled, uniform_compiled

WIDTH = 32
"""Successors of a node, most probable first, among which the draw is predicted; more if more are to be kept."""
INITIAL_EXPONENT, MAX_EXPONENT = 0.6, 2.0
RATE = 0.02
"""Step of the gradient ascent, per token."""


class Coupling(NamedTuple):
    """What is known of the target's draws.

    Attributes:
        on: whether the target samples and the search is coupled.
        seed: seed of the draws.
        position: position of the first token after the root.
        exponent: b.
    """

    on: bool
    seed: np.uint64
    position: int
    exponent: float


UNCOUPLED = Coupling(False, np.uint64(0), 0, INITIAL_EXPONENT)


@njit(cache=True)
def drawn_successors(lookup, coupling, context, length, depth, keep):
    """As ``successors``, but by the probability that they are drawn.

    Args:
        lookup: see ``successors``; receives the successors.
        coupling: a `Coupling`.
        context, length, keep: see ``successors``.
        depth: depth of the node whose children they are.

    Returns:
        Number of successors.
    """
    return couple(lookup, coupling, successors(lookup, context, length, candidates(coupling, keep)), depth, keep)


@njit(cache=True, inline="always")
def candidates(coupling, keep):
    """Number of successors to find if ``keep`` are wanted."""
    return max(WIDTH, keep) if coupling.on else keep


@njit(cache=True)
def couple(lookup, coupling, count, depth, keep):
    """Replace the probabilities of the ``count`` successors in ``lookup``, whose sum stays; returns the number of those kept.

    Without coupling, nothing changes.
    """
    if not coupling.on:
        return count
    weights, total, highest, norm = lookup.probabilities, 0.0, -np.inf, 0.0
    key = key_of_compiled(coupling.seed, coupling.position + depth)
    for i in range(count):
        total += weights[i]
        weights[i] = np.log(max(weights[i], 1e-30)) - coupling.exponent * _log_exponential(key, lookup.tokens[i])
        highest = max(highest, weights[i])
    for i in range(count):
        weights[i] = np.exp(weights[i] - highest)
        norm += weights[i]
    for i in range(count):
        weights[i] *= min(total, 1.0) / norm
    return keep_best(lookup, count, keep)


@njit(cache=True)
def learned_exponent(base, session, coupling, text, start):
    """The exponent after the emitted tokens ``text[start:]``, the first of which is at ``coupling.position``."""
    lookup, exponent = new_lookup(base, session), coupling.exponent
    for at in range(start, len(text)):
        count = successors(lookup, text, at, WIDTH)
        key = key_of_compiled(coupling.seed, coupling.position + at - start)
        drawn, norm, expected = np.nan, 0.0, 0.0
        for i in range(count):
            race = _log_exponential(key, lookup.tokens[i])
            weight = max(lookup.probabilities[i], 1e-30) * np.exp(-exponent * race)
            norm += weight
            expected += weight * race
            if lookup.tokens[i] == text[at]:
                drawn = race
        if not np.isnan(drawn):
            exponent = min(max(exponent + RATE * (expected / norm - drawn), 0.0), MAX_EXPONENT)
    return exponent


@njit(cache=True, inline="always")
def _log_exponential(key, token):
    return np.log(-np.log(uniform_compiled(key, token)))
