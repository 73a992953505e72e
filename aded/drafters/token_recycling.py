"""Token recycling (arXiv 2408.08696): store the target's top-k tokens at every verified node, and draft them later.

An adjacency matrix stores, for every token, the target's eight most probable successors at the last occurrence of the token, in
the text or in a draft, accepted or rejected. The draft is a static tree of ranks, filled from the matrix: the children of a node
are the stored successors of its token.

The paper reuses the matrix of earlier requests. Here sessions share nothing. A corpus of texts that the model wrote takes the
place of earlier requests, as the unigram rows of the tri-gram matrix. The target's top-k tokens over the prompt are not
available; the prompt's actual successors are stored instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from aded.core.inspection import Explanation
from aded.core.jit import njit
from aded.core.limits import check_flags
from aded.core.tree import DraftTree
from aded.core.tree_shape import best_shape
from aded.drafters.base import Context, Drafter, Inspectable, Outcome, Persistent, StateDict
from aded.engine.outputs import DrafterNeeds
from aded.ngram.trigram import TrigramMatrix

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


class TokenRecyclingDrafter(Drafter, Inspectable, Persistent):
    """Drafts a static tree from the target's last top-k tokens after each token.

    Args:
        vocab_size: size of the target's vocabulary; the matrix takes 32 bytes per token.
        corpus: initial matrix of every decode, see `corpus_successors`; None: an empty matrix.
        keep: keep the matrix from one decode to the next.

    Raises:
        AdedError: ``keep`` is neither true nor false.
    """

    needs = DrafterNeeds(top_k=RANKS)

    def __init__(self, vocab_size: int, corpus: np.ndarray | None = None, keep: bool = False) -> None:
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
        tokens, parents, ranks = _fill(self._successors, self._parents, self._ranks, context.root, budget)
        return DraftTree(tokens, parents, {"prior": np.where(ranks < 0, np.nan, np.take(ACCEPTED, ranks))})

    def observe(self, outcome: Outcome) -> None:
        """Store the target's top-k tokens at every node; of nodes with the same token, the accepted or last one counts."""
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
        return {"keep": self.keep, "warm": self._corpus is not None}

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
def _fill(successors, parents, ranks, root, budget):
    """The first ``budget`` nodes of the static tree whose tokens are known: tokens, parents, ranks, int32 ``[n]`` each."""
    tokens, draft_parents, draft_ranks = np.empty((3, budget), dtype=np.int32)
    index = np.full(len(parents), -1, dtype=np.int32)  # of each static node in the draft, -1 if it is not included
    tokens[0], draft_parents[0], draft_ranks[0] = root, -1, -1
    index[0] = 0
    n = 1
    for node in range(1, len(parents)):
        parent = index[parents[node]]
        if n == budget:
            break
        if parent < 0:
            continue
        token = successors[tokens[parent], ranks[node]]
        if token < 0:
            continue
        tokens[n], draft_parents[n], draft_ranks[n] = token, parent, ranks[node]
        index[node] = n
        n += 1
    return tokens[:n], draft_parents[:n], draft_ranks[:n]
