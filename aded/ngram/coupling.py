"""Coupled search: ADED's search with the probabilities that successors are drawn (see `aded.sampling.coupling`)."""

from __future__ import annotations

from aded.core.compilation.jit import njit
from aded.ngram.session_counts import keep_best, new_lookup, successors
from aded.sampling.coupling import couple_weights, key_at, next_exponent

WIDTH = 32
"""Successors of a node, most probable first, among which the draw is predicted; more if more are to be kept."""


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
    couple_weights(lookup.probabilities, lookup.tokens, count, key_at(coupling, depth), coupling.exponent)
    return keep_best(lookup, count, keep)


@njit(cache=True)
def learned_exponent(base, session, coupling, text, start):
    """The exponent after the emitted tokens ``text[start:]``, the first of which is at ``coupling.position``."""
    lookup, exponent = new_lookup(base, session), coupling.exponent
    for at in range(start, len(text)):
        count, key = successors(lookup, text, at, WIDTH), key_at(coupling, at - start)
        couple_weights(lookup.probabilities, lookup.tokens, count, key, exponent)
        exponent = next_exponent(exponent, lookup.probabilities, lookup.tokens, count, key, text[at])
    return exponent
