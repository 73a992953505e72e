"""Token recycling (arXiv 2408.08696): what the target said at any node of a draft is kept, and drafted the next time.

An adjacency matrix holds, for every token, the target's eight most probable successors where the token last stood, in the
text or in a draft, accepted or not. A draft is a static tree of ranks filled in from the matrix: below a node that holds a
token stand its successors, as many and as deep as the tree has room for.

The paper goes on with the matrix of earlier requests. Sessions share nothing here: what stands for those requests is a corpus
of the model's own texts, in the form of the tri-gram matrix's rows for single tokens. The target's answers over the prompt are
not handed over; the prompt's own successors stand for them.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from functools import cache

import numpy as np

from aded.core.errors import AdedError
from aded.core.inspection import Explanation
from aded.core.jit import njit
from aded.core.tree import DraftTree
from aded.drafters.base import Context, Drafter, Knowledge, Outcome
from aded.engine.outputs import DrafterNeeds
from aded.ngram.trigram import TrigramMatrix

RANKS = 8
"""Successors kept of a token."""
ACCEPTED = (0.43, 0.11, 0.05, 0.035, 0.028, 0.018, 0.017, 0.016)
"""How often a successor of each rank is the next token of the text: of the bundled model, 800 tokens of eight answers."""
TEMPLATE = 256
"""Nodes of the static tree; drafts are its beginning. (The paper's has 80.)"""
UNKNOWN = -1
NO_SUCCESSOR = "the target has not answered after this token yet: plain step"


class TokenRecyclingDrafter(Drafter):
    """Drafts a static tree from the target's latest answers after each token.

    Args:
        vocab_size: token ids are below it; the matrix takes 32 bytes a token.
        corpus: what every decode begins with, see `corpus_successors`; None: an empty matrix.
        keep: go on with the matrix of the session's earlier decodes.

    Raises:
        AdedError: ``keep`` is neither true nor false.
    """

    needs = DrafterNeeds(top_k=RANKS)

    def __init__(self, vocab_size: int, corpus: np.ndarray | None = None, keep: bool = False) -> None:
        if not isinstance(keep, bool):
            raise AdedError(f"keep is {keep!r}; give true or false")
        self.keep = keep
        self._corpus = corpus
        self._successors = np.full((vocab_size, RANKS), UNKNOWN, dtype=np.int32)
        self._parents, self._ranks = template()
        self.propose(Context(np.zeros(1, dtype=np.int32), 1), 2)  # compile now, not in a timed step
        self._forget()

    def start(self, prompt: Sequence[int]) -> None:
        if not self.keep:
            self._forget()
        _read(self._successors, np.asarray(prompt, dtype=np.int32))

    def propose(self, context: Context, budget: int) -> DraftTree:
        tokens, parents, ranks = _fill(self._successors, self._parents, self._ranks, context.root, budget)
        return DraftTree(tokens, parents, {"prior": np.where(ranks < 0, np.nan, np.take(ACCEPTED, ranks))})

    def observe(self, outcome: Outcome) -> None:
        """Keep the target's answers at every node; where a token stands at several, those on the accepted path or the last."""
        assert outcome.top_tokens is not None, "token recycling needs the target's most probable tokens at every node"
        answers = outcome.top_tokens[:, :RANKS]
        self._successors[outcome.tree.tokens, : answers.shape[1]] = answers
        self._successors[outcome.tree.tokens[outcome.path], : answers.shape[1]] = answers[outcome.path]

    def explain(self, context: Context, budget: int) -> Explanation:
        known = self._successors[context.root, 0] != UNKNOWN
        return Explanation(None if known or budget == 1 else NO_SUCCESSOR)

    def knowledge(self) -> Knowledge:
        return {"successors": self._successors.copy()}

    def recall(self, knowledge: Knowledge) -> None:
        np.copyto(self._successors, knowledge["successors"])

    def settings(self) -> dict[str, object]:
        return {"keep": self.keep, "warm": self._corpus is not None}

    def _forget(self) -> None:
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
    """The static tree: each node's parent and its rank among the parent's successors, int32 ``[TEMPLATE]``; the root has -1.

    Best first: a node's worth is the product of ``ACCEPTED`` along its path, so that every beginning of the tree is the tree of
    that size with the highest expected number of accepted tokens.
    """
    parents, ranks = [-1], [-1]
    open_nodes = [(-share, 0, rank) for rank, share in enumerate(ACCEPTED)]  # worth (negative), parent, rank
    heapq.heapify(open_nodes)
    while len(parents) < TEMPLATE:
        worth, parent, rank = heapq.heappop(open_nodes)
        for below, share in enumerate(ACCEPTED):
            heapq.heappush(open_nodes, (worth * share, len(parents), below))
        parents.append(parent)
        ranks.append(rank)
    return np.array(parents, dtype=np.int32), np.array(ranks, dtype=np.int32)


@njit(cache=True)
def _read(successors, text):
    """Put each token's successor in ``text`` first in its row."""
    for i in range(len(text) - 1):
        row, token = successors[text[i]], text[i + 1]
        place = 0
        while place < len(row) - 1 and row[place] != token:
            place += 1
        while place > 0:
            row[place] = row[place - 1]
            place -= 1
        row[0] = token


@njit(cache=True)
def _fill(successors, parents, ranks, root, budget):
    """The first ``budget`` nodes of the static tree whose tokens are known: tokens, parents, ranks, int32 ``[n]`` each."""
    tokens, above, rank_of = np.empty((3, budget), dtype=np.int32)
    place = np.full(len(parents), -1, dtype=np.int32)  # of the static tree's nodes in the draft
    tokens[0], above[0], rank_of[0] = root, -1, -1
    place[0] = 0
    n = 1
    for node in range(1, len(parents)):
        parent = place[parents[node]]
        if n == budget:
            break
        if parent < 0:
            continue
        token = successors[tokens[parent], ranks[node]]
        if token < 0:
            continue
        tokens[n], above[n], rank_of[n] = token, parent, ranks[node]
        place[node] = n
        n += 1
    return tokens[:n], above[:n], rank_of[:n]
