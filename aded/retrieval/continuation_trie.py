"""A trie of the continuations of a context, weighted by occurrence, and the draft tree of its nodes of highest weight.

Used by REST (arXiv 2311.08252) and suffix decoding (arXiv 2411.04975). The caller finds the occurrences of the context.
With coupling (`aded.sampling.coupling`), the children of a node share its weight by the probability that they are drawn.
Compiled code on flat arrays.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from aded.core.best_first import highest
from aded.core.compilation.jit import njit
from aded.core.tree import DraftTree
from aded.sampling.coupling import UNCOUPLED, Coupling, couple_weights, key_at


class ContinuationTrie:
    """A trie of continuations in arrays of fixed size, rebuilt for each context.

    Args:
        nodes: capacity in nodes, the root included.
        depth: maximum length of a continuation, in tokens.
        vocab_size: a continuation ends before a token id outside the vocabulary.
        stop: a continuation ends after this token id; -1 for none.
        decay: factor on the weight of a continuation for each of its tokens.
    """

    def __init__(self, nodes: int, depth: int, vocab_size: int, stop: int = -1, decay: float = 1.0) -> None:
        self._limits = (depth, decay, vocab_size, stop)
        tokens, parents, children, siblings = np.zeros((4, nodes), dtype=np.int32)
        self._weights = np.zeros(nodes)
        self._trie = (self._weights, tokens, parents, children, siblings)
        self._coupled_weights = np.zeros(nodes)
        self._chosen_by = self._weights  # the weights by which `best` has chosen
        self.clear()
        _best_coupled(self._trie, self._coupled_weights, UNCOUPLED, 1, 0.0)  # JIT-compile now

    def clear(self) -> None:
        """Remove all continuations."""
        self._nodes = _clear(self._trie)

    def count(self, text: np.ndarray, starts: np.ndarray, weight: float = 1.0) -> None:
        """Add the continuations that begin at ``starts``; nodes beyond the capacity are dropped.

        Args:
            text: token ids, any integer type ``[length]``.
            starts: start positions of continuations, int64 ``[k]``; positions outside the text are ignored.
            weight: weight of each continuation, before decay.
        """
        self._nodes = _count(text, starts, weight, *self._limits, self._trie, self._nodes)

    def best(self, budget: int, min_share: float = 0.0, coupling: Coupling = UNCOUPLED) -> tuple[np.ndarray, float]:
        """The nodes of highest weight, ties by lower index.

        Args:
            budget: maximum number of nodes, the root included.
            min_share: minimum weight of a node, as a share of the root's weight.
            coupling: the coupling with the target's draws after the context.

        Returns:
            Node indices, sorted, with the parents of all nodes and the root first, int64 ``[k]``; and the expected number
            of accepted draft tokens: the sum of the nodes' shares of the root's weight, without the root.
        """
        total = self._weights[0]
        if coupling.on:
            self._chosen_by = self._coupled_weights
            nodes = _best_coupled(self._trie, self._chosen_by, coupling, budget, min_share * total)
        else:
            self._chosen_by = self._weights
            nodes = _best(self._weights, self._nodes, budget, min_share * total)
        return nodes, float(self._chosen_by[nodes[1:]].sum() / total) if total else 0.0

    def tree(self, root: int, nodes: np.ndarray) -> DraftTree:
        """The draft tree of the nodes that `best` has just chosen; a node's prior is its share of its parent's weight.

        Args:
            root: token id of the root.
            nodes: node indices from `best`, int64 ``[k]``.
        """
        _, tokens, parents, _, _ = self._trie
        weights, chosen = self._chosen_by, nodes[1:]
        prior = np.concatenate([[np.nan], weights[chosen] / weights[parents[chosen]]])
        draft_parents = np.concatenate([[-1], np.searchsorted(nodes, parents[chosen])])
        return DraftTree(np.concatenate([[root], tokens[chosen]]), draft_parents, {"prior": prior})


@njit(cache=True)
def _clear(trie):
    weights, _, _, child_of, _ = trie
    weights[0], child_of[0] = 0.0, -1
    return 1


@njit(cache=True)
def _count(text, starts, weight, depth, decay, vocab_size, stop, trie, nodes):
    """Add continuations to ``trie``: weight, token, parent, first child, next sibling of each node. Returns its size.

    The newest child comes first in the list of children. If ``starts`` are in suffix order, the search for a child then
    succeeds at once.
    """
    weights, tokens, parents, child_of, sibling_of = trie
    for start in starts:
        if not 0 <= start < len(text):
            continue
        node = 0
        weights[0] += weight
        decayed = weight
        for position in range(start, min(start + depth, len(text))):
            token = np.int64(text[position])
            if not 0 <= token < vocab_size:
                break
            child = child_of[node]
            while child >= 0 and tokens[child] != token:
                child = sibling_of[child]
            if child < 0:
                if nodes == len(tokens):
                    break
                child = nodes
                nodes += 1
                weights[child], tokens[child], parents[child] = 0.0, token, node
                child_of[child], sibling_of[child] = -1, child_of[node]
                child_of[node] = child
            decayed *= decay
            weights[child] += decayed
            node = child
            if token == stop:
                break
    return nodes


@njit(cache=True)
def _best(weights, nodes, budget, min_weight):
    return np.sort(highest(weights[:nodes], budget, min_weight))


@njit(cache=True)
def _best_coupled(trie, coupled, coupling, budget, min_weight):
    """As ``_best``, for coupled weights, which are written for the root and all children of the chosen nodes.

    The trie is expanded best-first, so that only the children of chosen nodes are weighted.
    """
    weights, tokens, _, child_of, sibling_of = trie
    coupled[0] = weights[0]
    nodes, taken = np.empty(budget, np.int64), 0
    frontier = [(-coupled[0], np.int64(0), np.int64(0))]  # negative weight, node, depth
    while taken < budget and len(frontier) > 0:
        _, node, depth = heappop(frontier)
        nodes[taken] = node
        taken += 1
        count, child = 0, child_of[node]
        while child >= 0:
            count, child = count + 1, sibling_of[child]
        child_tokens, shares = np.empty(count, np.int32), np.empty(count)
        count, child = 0, child_of[node]
        while child >= 0:
            child_tokens[count], shares[count] = tokens[child], weights[child] / weights[node]
            count, child = count + 1, sibling_of[child]
        couple_weights(shares, child_tokens, count, key_at(coupling, depth), coupling.exponent)
        count, child = 0, child_of[node]
        while child >= 0:
            coupled[child] = shares[count] * coupled[node]
            if coupled[child] >= min_weight:
                heappush(frontier, (-coupled[child], np.int64(child), depth + 1))
            count, child = count + 1, sibling_of[child]
    return np.sort(nodes[:taken])
