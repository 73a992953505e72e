"""What followed the places where a context stood: a trie of their continuations with counts, and its most frequent part.

The draft of retrieval (REST, arXiv 2311.08252) and of suffix decoding (arXiv 2411.04975) alike. Compiled code on flat arrays;
knows nothing of how the places were found.
"""

from __future__ import annotations

import numpy as np

from aded.core.jit import njit
from aded.core.tree import DraftTree


class Continuations:
    """A trie of continuations, made anew for every context in arrays of fixed size.

    Args:
        nodes: room for so many.
        depth: most tokens of a continuation.
        vocab_size: a continuation ends before an id outside it.
        stop: a continuation ends behind this id; -1 for none.
        fade: what a continuation's weight is multiplied with for every token.
    """

    def __init__(self, nodes: int, depth: int, vocab_size: int, stop: int = -1, fade: float = 1.0) -> None:
        self._limits = (depth, fade, vocab_size, stop)
        tokens, parents, children, siblings = np.zeros((4, nodes), dtype=np.int32)
        self._weights = np.zeros(nodes)
        self._trie = (self._weights, tokens, parents, children, siblings)
        self.clear()

    def clear(self) -> None:
        """Forget all continuations."""
        self._nodes = _clear(self._trie)

    def count(self, text: np.ndarray, places: np.ndarray, weight: float = 1.0) -> None:
        """Count what stands at ``places``; what there is no room for is passed over.

        Args:
            text: token ids, any integer type ``[length]``.
            places: where continuations begin, int64 ``[k]``; those outside the text are passed over.
            weight: of each, before it fades.
        """
        self._nodes = _count(text, places, weight, *self._limits, self._trie, self._nodes)

    def best(self, budget: int, least: float = 0.0) -> tuple[np.ndarray, float]:
        """The nodes of highest weight, earlier ones first among equals.

        Args:
            budget: most nodes, the root included.
            least: smallest share of the whole weight that a node must have.

        Returns:
            Node indices, ascending and closed under parents, the root first, int32 ``[k]``; and the expected number of
            accepted tokens where the shares are right: their sum, the root's apart.
        """
        whole = self._weights[0]
        nodes = _heaviest(self._weights, self._nodes, budget, least * whole)
        return nodes, float(self._weights[nodes[1:]].sum() / whole) if whole else 0.0

    def tree(self, root: int, nodes: np.ndarray) -> DraftTree:
        """Chosen nodes as a draft; a node's prior is its share of its parent's weight."""
        weights, tokens, parents, _, _ = self._trie
        chosen = nodes[1:]
        prior = np.concatenate([[np.nan], weights[chosen] / weights[parents[chosen]]])
        places = np.concatenate([[-1], np.searchsorted(nodes, parents[chosen])])
        return DraftTree(np.concatenate([[root], tokens[chosen]]), places, {"prior": prior})


@njit(cache=True)
def _clear(trie):
    weights, _, _, child_of, _ = trie
    weights[0], child_of[0] = 0.0, -1
    return 1


@njit(cache=True)
def _count(text, places, weight, depth, fade, vocab_size, stop, trie, nodes):
    """Add to ``trie``: weight, token, parent, first child, next sibling of each node. Returns its number of nodes.

    The newest child is the first: where places come in the order of what stands there, it is the one looked for.
    """
    weights, tokens, parents, child_of, sibling_of = trie
    for place in places:
        if not 0 <= place < len(text):
            continue
        node = 0
        weights[0] += weight
        gain = weight
        for at in range(place, min(place + depth, len(text))):
            token = np.int64(text[at])
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
            gain *= fade
            weights[child] += gain
            node = child
            if token == stop:
                break
    return nodes


@njit(cache=True)
def _heaviest(weights, nodes, keep, least):
    """The ``keep`` nodes of highest weight, the root among them: parents stand before their children and weigh no less."""
    best = np.zeros(keep, dtype=np.int32)
    kept = 1
    for node in range(1, nodes):
        weight = weights[node]
        if weight < least or (kept == keep and (keep == 1 or weight <= weights[best[kept - 1]])):
            continue
        place = min(kept, keep - 1)
        while place > 1 and weights[best[place - 1]] < weight:
            best[place] = best[place - 1]
            place -= 1
        best[place] = node
        kept = min(kept + 1, keep)
    return np.sort(best[:kept])
