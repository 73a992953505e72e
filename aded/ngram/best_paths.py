"""The best paths through a lattice of head predictions, rescored with the tri-gram matrix (Kim et al. 2024, arXiv 2404.09221).

The heads of blockwise parallel decoding predict each position independently of the others; the predictions form a *lattice*. The
score of a path is the sum of log p_head + alpha · log p_matrix over its tokens, where the matrix conditions on the tokens before
(global n-gram rescoring). With alpha = 0 the paths are those of the heads alone ("0-gram").
"""

from __future__ import annotations

import numpy as np

from aded.core.best_first import start, take_best
from aded.core.compilation.jit import njit
from aded.core.tree import DraftTree
from aded.ngram.session_counts import SessionCounts, insert, mixture_successors, new_lookup
from aded.ngram.tree_search import MAX_CONTEXT, write_suffix
from aded.ngram.trigram import TrigramMatrix

UNSEEN_PROBABILITY = 1e-4
"""Lowest probability that the matrix gives to a token."""
MAX_EXPANDED = 4096
"""Maximum number of nodes that a search takes; a search for 16 paths through four heads takes about 200."""


def best_paths(
    matrix: TrigramMatrix,
    session: SessionCounts,
    context: np.ndarray,
    tokens: np.ndarray,
    probabilities: np.ndarray,
    alpha: float,
    paths: int,
    budget: int,
) -> tuple[DraftTree, np.ndarray]:
    """The tree of the ``paths`` best paths.

    Args:
        matrix, session: base counts and session counts (not by the published rule); not read if ``alpha`` is 0.
        context: the last tokens of the text, the root last, int32 ``[length]``, ``length >= 1``.
        tokens, probabilities: the lattice, int32 and float64 ``[depths, ranks]``, most probable first.
        alpha: weight of the matrix, at least 0.
        paths: number of paths, at least 1.
        budget: maximum number of nodes; the last path that does not fit ends earlier.

    Returns:
        The tree, whose column ``prior`` is the rescored probability of a node among the tokens of the lattice, whose sum stays
        that of the heads; and the rescored probabilities of the lattice's tokens along the best path, float64
        ``[depths, ranks]``.
    """
    arrays = matrix.arrays, session.arrays
    found, parents, prior, rescored = _best_paths(*arrays, context, tokens, probabilities, alpha, paths, budget)
    return DraftTree.unchecked(found, parents, {"prior": prior}), rescored


@njit(cache=True)
def _best_paths(base, session, context, tokens, probabilities, alpha, paths, budget):
    """Best-first search for complete paths.

    The weight of a token is divided by the highest head probability at its depth. All complete paths are divided by the same
    number, and no weight exceeds 1, so the search takes complete paths in the order of their scores (as A* does).
    """
    depths, ranks = tokens.shape
    lookup, suffix = new_lookup(base, session), np.empty(MAX_CONTEXT, np.int32)
    nodes, children, weights, frontier = start(context[-1], MAX_EXPANDED, ranks)
    scale = np.zeros(MAX_EXPANDED)  # from the weight of a node's children to their probabilities
    ends, found, count = np.zeros(paths, np.int64), 0, 1
    while True:
        node = count - 1
        depth = nodes[node].depth
        nodes[node].children = 0
        if depth < depths:
            known = 0
            if alpha > 0.0:
                known = mixture_successors(lookup, suffix, write_suffix(context, nodes, node, suffix))
            nodes[node].children, scale[node] = _rescore(
                lookup, known, tokens[depth], probabilities[depth], alpha, children[node], weights[node]
            )
        else:
            ends[found] = node
            found += 1
        if found == paths or count == MAX_EXPANDED or not take_best(nodes, children, weights, frontier, count, 1.0):
            break
        count += 1
    if found < paths:  # too few complete paths: the nodes of highest value
        for node in range(min(count, paths - found)):
            ends[found] = node
            found += 1
    rescored = _along(nodes, children, weights, scale, ends[0], tokens)
    found_tokens, parents, prior = _tree(nodes, scale, ends[:found], count, budget)
    return found_tokens, parents, prior, rescored


@njit(cache=True)
def _rescore(lookup, known, tokens, probabilities, alpha, children, weights):
    """Write the children of a node, highest weight first, ties by lower id.

    Args:
        lookup: holds the ``known`` successors by the matrix.
        tokens, probabilities: the lattice at the depth of the children, ``[ranks]``.
        alpha: weight of the matrix.
        children, weights: receive the tokens and their weights, ``[ranks]``.

    Returns:
        Number of children, and the factor that makes their weights probabilities.
    """
    count, total, mass = 0, 0.0, 0.0
    for rank in range(len(tokens)):
        if not probabilities[rank] > 0.0:
            break
        weight = probabilities[rank] / probabilities[0]
        if alpha > 0.0:
            p = UNSEEN_PROBABILITY
            for i in range(known):
                if lookup.tokens[i] == tokens[rank]:
                    p = min(max(p, lookup.probabilities[i]), 1.0)
                    break
            weight *= p**alpha
        count = insert(children, weights, count, len(tokens), tokens[rank], weight)
        total, mass = total + weight, mass + probabilities[rank]
    return count, mass / total if total > 0.0 else 0.0


@njit(cache=True)
def _along(nodes, children, weights, scale, end, tokens):
    """Rescored probabilities of the lattice's tokens along the path to ``end``, float64 like ``tokens``."""
    rescored = np.zeros(tokens.shape)
    node = nodes[end].parent
    while node >= 0:
        depth = nodes[node].depth
        for i in range(nodes[node].children):
            for rank in range(tokens.shape[1]):
                if tokens[depth, rank] == children[node, i]:
                    rescored[depth, rank] = weights[node, i] * scale[node]
        node = nodes[node].parent
    return rescored


@njit(cache=True)
def _tree(nodes, scale, ends, count, budget):
    """Tokens, parents and priors of the paths to ``ends``, as many nodes as fit."""
    kept, size = np.zeros(count, np.bool_), 1
    kept[0] = True
    for end in ends:
        while size < budget and not kept[end]:
            node = end
            while not kept[nodes[node].parent]:
                node = nodes[node].parent
            kept[node] = True
            size += 1
    index, tokens, parents = np.zeros(count, np.int32), np.empty(size, np.int32), np.full(size, -1, np.int32)
    prior, at = np.full(size, np.nan), 0
    for node in range(count):
        if not kept[node]:
            continue
        index[node], tokens[at] = at, nodes[node].token
        if node > 0:
            parent = nodes[node].parent
            parents[at], prior[at] = index[parent], nodes[node].prior * scale[parent]
        at += 1
    return tokens, parents, prior
