"""Token recycling (arXiv 2408.08696): store the target's top-k tokens at every verified node, and draft them later.

An adjacency matrix stores, for every token, the target's eight most probable successors at the last occurrence of the token, in
the text or in a draft, accepted or rejected. The draft is a static tree of ranks, filled from the matrix: the children of a node
are the stored successors of its token. If the target samples, the successors are ranked by the probability that they are drawn
(`aded.sampling.coupling`), with the acceptance rate of a stored rank as its weight.

The paper reuses the matrix of earlier requests. Here sessions share nothing. A corpus of texts that the model wrote takes the
place of earlier requests, as the unigram rows of the tri-gram matrix. The target's top-k tokens over the prompt are not
available; the prompt's actual successors are stored instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from aded.core.compilation.jit import njit
from aded.core.inspection import Explanation
from aded.core.limits import check_flags
from aded.core.tree import DraftTree
from aded.core.tree_shape import best_shape
from aded.drafters.base import Context, Inspectable, Outcome, Persistent, StateDict
from aded.drafters.coupled import CoupledDrafter
from aded.engine.outputs import DrafterNeeds
from aded.ngram.trigram import TrigramMatrix
from aded.sampling.coupling import couple_weights, key_at

if TYPE_CHECKING:
    import torch

RANKS = 8
"""Number of stored successors per token."""
ACCEPTED = (0.43, 0.11, 0.05, 0.035, 0.028, 0.018, 0.017, 0.016)
"""Acceptance rate by rank of the successor, measured on 8 answers of the bundled model, 800 tokens in all."""
TEMPLATE = 256
"""Number of nodes of the static tree; a draft is a prefix of it. (The paper's tree has 80 nodes.)"""
UNKNOWN = -1
NO_SUCCESSOR = "the target has not been observed after this token yet: plain step"


class TokenRecyclingDrafter(CoupledDrafter, Inspectable, Persistent):
    """Drafts a static tree from the target's last top-k tokens after each token.

    Args:
        vocab_size: size of the target's vocabulary; the matrix takes 32 bytes per token.
        corpus: initial matrix of every decode, see `corpus_successors`; None: an empty matrix.
        keep: keep the matrix from one decode to the next.
        coupling: if the target samples, draft the tokens that it will draw.

    Raises:
        AdedError: ``keep`` or ``coupling`` is neither true nor false.
    """

    needs = DrafterNeeds(top_k=RANKS)

    def __init__(self, vocab_size: int, corpus: np.ndarray | None = None, keep: bool = False, coupling: bool = True) -> None:
        super().__init__(coupling)
        check_flags({"keep": keep})
        self.keep = keep
        self._corpus = corpus
        self._successors = np.full((vocab_size, RANKS), UNKNOWN, dtype=np.int32)
        self._parents, self._ranks = template()
        self.propose(Context(np.zeros(1, dtype=np.int32), 1), 2)  # JIT-compile now
        self._reset()

    def start(self, prompt: Sequence[int], features: torch.Tensor | None = None) -> None:
        if not self.keep:
            self._reset()
        _learn_prompt(self._successors, np.asarray(prompt, dtype=np.int32))

    def propose(self, context: Context, budget: int) -> DraftTree:
        tree = _fill(self._successors, self._parents, self._ranks, context.root, budget, self._coupled(context))
        tokens, parents, priors = tree
        return DraftTree(tokens, parents, {"prior": priors})

    def observe(self, outcome: Outcome) -> None:
        """Store the target's top-k tokens at every node; of nodes with the same token, the accepted or last one counts."""
        self._learn_exponent(outcome)
        assert outcome.top_tokens is not None, "token recycling needs the target's most probable tokens at every node"
        top = outcome.top_tokens[:, :RANKS]
        self._successors[outcome.tree.tokens, : top.shape[1]] = top
        self._successors[outcome.tree.tokens[outcome.path], : top.shape[1]] = top[outcome.path]

    def explain(self, context: Context, budget: int) -> Explanation:
        known = self._successors[context.root, 0] != UNKNOWN
        return Explanation(None if known or budget == 1 else NO_SUCCESSOR)

    def state_dict(self) -> StateDict:
        return {"successors": self._successors.copy()}

    def load_state_dict(self, state: StateDict) -> None:
        np.copyto(self._successors, state["successors"])

    def settings(self) -> dict[str, object]:
        return {"keep": self.keep, "warm": self._corpus is not None, "coupling": self.coupling}

    def _reset(self) -> None:
        self._successors[:] = UNKNOWN if self._corpus is None else self._corpus


def corpus_successors(matrix: TrigramMatrix) -> np.ndarray:
    """The most frequent successors of every token in the matrix's corpus, -1 where there are fewer: int32 ``[vocab, RANKS]``."""
    lengths = np.diff(matrix.starts)
    rank = np.arange(len(matrix.successors)) - np.repeat(matrix.starts[:-1], lengths)
    context = np.repeat(matrix.contexts, lengths, axis=0)
    kept = (context[:, 0] < 0) & (rank < RANKS)
    successors = np.full((matrix.vocab_size, RANKS), UNKNOWN, dtype=np.int32)
    successors[context[kept, 1], rank[kept]] = matrix.successors[kept]
    return successors


@cache
def template() -> tuple[np.ndarray, np.ndarray]:
    """The static tree: each node's parent, and its rank among the parent's successors, int32 ``[TEMPLATE]``; -1 at the root.

    Nodes are sorted by acceptance probability, the product of ``ACCEPTED`` along the path, so that every prefix of the tree is
    the tree of that size with the highest expected number of accepted tokens.
    """
    shape = best_shape(np.tile(ACCEPTED, (TEMPLATE, 1)), TEMPLATE)
    shape.ranks[0] = -1
    return shape.parents, shape.ranks


@njit(cache=True)
def _learn_prompt(successors, text):
    """Move the successor of each token in ``text`` to the front of the token's row."""
    for i in range(len(text) - 1):
        row, token = successors[text[i]], text[i + 1]
        rank = 0
        while rank < len(row) - 1 and row[rank] != token:
            rank += 1
        while rank > 0:
            row[rank] = row[rank - 1]
            rank -= 1
        row[0] = token


@njit(cache=True)
def _fill(successors, parents, ranks, root, budget, coupling):
    """The first ``budget`` nodes of the static tree whose tokens are known.

    Returns:
        Tokens, parents, int32 ``[n]`` each; probabilities of the nodes among their parents' children, float64 ``[n]``.
    """
    tokens, draft_parents, depths = np.empty((3, budget), dtype=np.int32)
    draft_priors = np.empty(budget)
    ranked_tokens, ranked_priors = np.empty((budget, RANKS), dtype=np.int32), np.empty((budget, RANKS))  # of a node's children
    ranked = np.zeros(budget, dtype=np.bool_)  # nodes whose children are there
    index = np.full(len(parents), -1, dtype=np.int32)  # of each static node in the draft, -1 if it is not included
    tokens[0], draft_parents[0], depths[0], draft_priors[0] = root, -1, 0, np.nan
    index[0] = 0
    n = 1
    for node in range(1, len(parents)):
        parent, rank = index[parents[node]], ranks[node]
        if n == budget:
            break
        if parent < 0:
            continue
        if not ranked[parent]:
            ranked_tokens[parent] = successors[tokens[parent]]
            _rank(ranked_tokens[parent], ranked_priors[parent], coupling, depths[parent])
            ranked[parent] = True
        if ranked_tokens[parent, rank] < 0:
            continue
        tokens[n], draft_parents[n], depths[n] = ranked_tokens[parent, rank], parent, depths[parent] + 1
        draft_priors[n] = ranked_priors[parent, rank]
        index[node] = n
        n += 1
    return tokens[:n], draft_parents[:n], draft_priors[:n]


@njit(cache=True)
def _rank(tokens, priors, coupling, depth):
    """Write the probabilities of the stored successors ``tokens`` of a node; with coupling, sort both by them."""
    for rank in range(RANKS):
        priors[rank] = ACCEPTED[rank]
    if not coupling.on:
        return
    known = 0
    while known < RANKS and tokens[known] >= 0:
        known += 1
    couple_weights(priors, tokens, known, key_at(coupling, depth), coupling.exponent)
    order = np.argsort(-priors[:known], kind="mergesort")
    tokens[:known], priors[:known] = tokens[order], priors[order]
