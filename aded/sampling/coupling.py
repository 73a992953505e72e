"""Coupled drafts: when the target samples, draft the token that it will draw rather than the most probable one.

The target draws token i where E_i / p_i is smallest (see `aded.sampling.rng`), and E_i is known before the draw: it depends on
the seed, the position and the token only. With q for p, a draft can thus rank successors by E_i / q_i. As q is not p, the
probability that i is drawn is modelled as a conditional logit: proportional to q_i · E_i^-b. The exponent b is learned from the
emitted tokens: it is 0 if q is unrelated to p, and the larger the closer q is to p. Coupling is lossless, because the target's
draw does not change.
Compare the drafter-invariant coupling of arXiv 2408.07978, for draft models.

Any weights of successors can be q: probabilities of a matrix, counts of continuations, acceptance rates by rank.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aded.core.compilation.jit import njit
from aded.sampling.rng import key_of_compiled, uniform_compiled
from aded.sampling.settings import SamplingSettings

INITIAL_EXPONENT, MAX_EXPONENT = 0.6, 2.0
RATE = 0.02
"""Step of the gradient ascent, per token."""


class Coupling(NamedTuple):
    """What is known of the target's draws.

    Attributes:
        on: whether the target samples and the draft is coupled.
        seed: seed of the draws.
        position: position of the first token after the root.
        exponent: b.
    """

    on: bool
    seed: np.uint64
    position: int
    exponent: float


UNCOUPLED = Coupling(False, np.uint64(0), 0, INITIAL_EXPONENT)


def coupling_with(settings: SamplingSettings) -> Coupling:
    """The coupling with the draws of a target with these settings; none if it is greedy."""
    return UNCOUPLED if settings.greedy else UNCOUPLED._replace(on=True, seed=np.uint64(settings.seed & (2**64 - 1)))


@njit(cache=True, inline="always")
def key_at(coupling, depth):
    """The key of the random numbers for the children of a node at ``depth``, 0 for those of the root."""
    return key_of_compiled(coupling.seed, coupling.position + depth)


@njit(cache=True)
def couple_weights(weights, tokens, count, key, exponent):
    """Replace q by the probabilities of being drawn, in place; their sum stays, at most 1.

    Args:
        weights: q of each successor, float64; the first ``count`` are replaced.
        tokens: token ids of the successors, int32.
        count: number of successors.
        key: see `key_at`.
        exponent: b.
    """
    total, highest, norm = 0.0, -np.inf, 0.0
    for i in range(count):
        total += weights[i]
        weights[i] = np.log(max(weights[i], 1e-30)) - exponent * _log_exponential(key, tokens[i])
        highest = max(highest, weights[i])
    for i in range(count):
        weights[i] = np.exp(weights[i] - highest)
        norm += weights[i]
    for i in range(count):
        weights[i] *= min(total, 1.0) / norm


@njit(cache=True)
def next_exponent(exponent, weights, tokens, count, key, drawn):
    """The exponent after one draw; unchanged if the drawn token is not among the successors.

    Args:
        exponent: b before the draw.
        weights: coupled weights of the successors (see `couple_weights`), not necessarily normalised, float64.
        tokens, count, key: see `couple_weights`.
        drawn: the token id that the target has drawn.
    """
    race_of_drawn, norm, expected = np.nan, 0.0, 0.0
    for i in range(count):
        race = _log_exponential(key, tokens[i])
        norm += weights[i]
        expected += weights[i] * race
        if tokens[i] == drawn:
            race_of_drawn = race
    if np.isnan(race_of_drawn) or norm == 0.0:
        return exponent
    return min(max(exponent + RATE * (expected / norm - race_of_drawn), 0.0), MAX_EXPONENT)


@njit(cache=True)
def exponent_after(coupling, tokens, parents, priors, path, emitted):
    """The exponent after a verified draft whose priors are coupled.

    The siblings of a drafted node that were not drafted do not matter: a conditional logit restricted to some of its
    alternatives is one too.

    Args:
        coupling: the coupling with which the draft was made.
        tokens, parents: the draft tree, int32 ``[n]`` each.
        priors: probability of each node among its parent's children, float64 ``[n]``.
        path: the accepted path, node indices from the root on, int32 ``[a + 1]``.
        emitted: the emitted tokens, int32 ``[e]``.
    """
    exponent, children, weights = coupling.exponent, np.empty(len(tokens), np.int32), np.empty(len(tokens))
    for depth in range(min(len(path), len(emitted))):
        count = 0
        for node in range(path[depth] + 1, len(tokens)):
            if parents[node] == path[depth]:
                children[count], weights[count] = tokens[node], priors[node]
                count += 1
        exponent = next_exponent(exponent, weights, children, count, key_at(coupling, depth), emitted[depth])
    return exponent


@njit(cache=True, inline="always")
def _log_exponential(key, token):
    return np.log(-np.log(uniform_compiled(key, token)))
