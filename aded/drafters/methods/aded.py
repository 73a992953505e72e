"""ADED: adaptive draft-verification decoding (arXiv 2407.12021).

A tri-gram matrix approximates the target model (the paper's LLM representative). A tree search over the matrix proposes the
draft, and the committed tokens update the matrix. ``AdedOptions.paper()`` follows the paper, with the bugs of its code fixed.
``AdedOptions.tuned()`` also uses longer contexts of the session and maximises the expected number of accepted tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import numpy as np

from aded.core.errors import AdedError
from aded.core.inspection import Explanation, MatrixRow, MatrixSize, Prediction
from aded.core.tree import DraftTree
from aded.drafters.aded_options import AdedOptions
from aded.drafters.base import Context, Inspectable, Outcome, Persistent, StateDict
from aded.drafters.coupled import CoupledDrafter
from aded.engine.outputs import DrafterNeeds
from aded.ngram import tree_search
from aded.ngram.coupling import learned_exponent
from aded.ngram.representative import predictions, rows, session_size
from aded.ngram.session_counts import OBSERVED_TOP_K, SessionCounts, within
from aded.ngram.trigram import TrigramMatrix

if TYPE_CHECKING:
    import torch

PUBLISHED_WINDOW = 16
"""Number of last prompt tokens that the paper's update counts."""
MAX_ROWS = 12
"""Largest number of matrix rows recorded per step."""
NO_SUCCESSOR = "no successor of this bigram is known: plain step"


class AdedDrafter(CoupledDrafter, Inspectable, Persistent):
    """Drafts a tree from a tri-gram matrix: fixed base counts and session counts, which are learned while decoding.

    Args:
        matrix: the base counts, shared and read-only; None: session counts only.
        vocab_size: size of the target's vocabulary.
        options: defaults to ``AdedOptions.tuned()``.
        seed: random seed of the tree search; the same seed gives the same drafts.

    Raises:
        AdedError: the matrix was built for another vocabulary size.
    """

    def __init__(self, matrix: TrigramMatrix | None, vocab_size: int, options: AdedOptions | None = None, seed: int = 0) -> None:
        if matrix is not None and matrix.vocab_size != vocab_size:
            raise AdedError(
                f"the tri-gram matrix is for {matrix.vocab_size} ids, the model has {vocab_size}; build one for this model"
            )
        self.options = options or AdedOptions.tuned()
        super().__init__(self.options.coupling)
        self.vocab_size = vocab_size
        self.seed = seed
        self._has_base = matrix is not None
        self._base = matrix if matrix is not None else TrigramMatrix.empty(vocab_size)
        if not self.options.higher_orders:
            self._base = self._base.without_higher_orders
        paper = self.options.preset == "paper"
        self._session = SessionCounts(published=True, slots=self.options.successors) if paper else SessionCounts()
        self._source = tree_search.Source(self._base, self._session)
        self._paper = paper
        self._learns_top_k = self.options.feedback and not paper
        self.needs = DrafterNeeds(top_k=OBSERVED_TOP_K if self._learns_top_k else 0, optional=True)
        self._warm_up()

    def start(self, prompt: Sequence[int], features: torch.Tensor | None = None) -> None:
        """Clear the session counts unless ``keep`` is set, then count the prompt (paper: its last 16 tokens)."""
        if not self.options.keep:
            self._session.clear()
        self._read(prompt)

    def propose(self, context: Context, budget: int) -> DraftTree:
        return self._search(context, budget)

    def observe(self, outcome: Outcome) -> None:
        """Count each emitted token once, then learn the target's top-k tokens at every node.

        Without ``top_tokens`` in the outcome, as in replayed texts, only the emitted tokens are counted.
        """
        text, start = self._emitted(outcome)
        if self._coupling.on:
            arrays = self._base.arrays, self._session.arrays
            exponent = learned_exponent(*arrays, self._coupled(outcome.context), text, start)
            self._coupling = self._coupling._replace(exponent=exponent)
        self._session.learn(self._base, text, start)
        if self._learns_top_k and outcome.top_tokens is not None and outcome.top_probabilities is not None:
            tokens = self._as_int32(outcome.top_tokens.ravel()).reshape(outcome.top_tokens.shape)
            probabilities = np.ascontiguousarray(outcome.top_probabilities, dtype=np.float32)
            self._session.observe_top_k(text[:start], outcome.tree, tokens, probabilities)

    def explain(self, context: Context, budget: int) -> Explanation:
        """Repeat the search of ``propose`` with the same state and seed, and record its simulations."""
        tree = self._search(context, budget)
        if len(tree) == 1 and budget > 1:
            return Explanation(note=NO_SUCCESSOR)
        note = f"{len(tree)} of {budget} nodes: the search found no more" if len(tree) < budget and not self._paper else None
        if self.options.search != "mcts" or budget == 1:
            return Explanation(note=note)
        limits, puct = self._limits(budget), self._puct(budget)
        steps = tree_search.record_mcts(self._source_at(context), self._suffix(context), limits, puct, self._seed_at(context))
        return Explanation(note, steps)

    def matrix_rows(self, outcome: Outcome) -> list[MatrixRow]:
        """The bigram rows that ``observe`` changes, base and session counts combined; at most ``MAX_ROWS``.

        Rows in which an emitted token was counted come first, then rows of draft nodes that receive the target's top-k tokens.
        The longer contexts of the tuned preset are not included.
        """
        text, start = self._emitted(outcome)
        bigrams = {(int(text[i - 2]), int(text[i - 1])): None for i in range(max(start, 2), len(text))}
        if self._learns_top_k and outcome.top_tokens is not None:
            tokens, parents = outcome.tree.tokens, outcome.tree.parents
            bigrams |= {(int(tokens[parents[node]]), int(tokens[node])): None for node in range(1, len(tokens))}
        return self._rows(list(bigrams)[:MAX_ROWS])

    def matrix_size(self) -> MatrixSize:
        base_bytes = sum(array.nbytes for array in self._base.arrays)
        return MatrixSize(len(self._base), base_bytes, *session_size(self._session))

    def predictions(self, context: Context) -> list[Prediction]:
        return list(predictions(self._base, self._session, self._suffix(context)))

    def state_dict(self) -> StateDict:
        return self._session.state_dict()

    def load_state_dict(self, state: StateDict) -> None:
        self._session.load_state_dict(state)

    def settings(self) -> dict[str, object]:
        counted = {"base_matrix": self._has_base, "datastore": len(self._base.higher_orders.entries) > 0}
        return {**asdict(self.options), "seed": self.seed, **counted}

    def _read(self, prompt: Sequence[int]) -> None:
        text = self._as_int32(np.asarray(prompt, dtype=np.int64))
        self._session.learn(self._base, text[-PUBLISHED_WINDOW:] if self._paper else text, 0)

    def _search(self, context: Context, budget: int) -> DraftTree:
        assert budget >= 1, "a draft contains at least its root"
        suffix = self._suffix(context)
        if budget == 1:
            return DraftTree.root_only(int(suffix[-1]))
        limits, source = self._limits(budget), self._source_at(context)
        if self.options.search == "mcts":
            return tree_search.mcts(source, suffix, limits, self._puct(budget), self._seed_at(context))
        searches = {"best-first": tree_search.best_first, "greedy": tree_search.greedy, "full": tree_search.full}
        return searches[self.options.search](source, suffix, limits)

    def _source_at(self, context: Context) -> tree_search.Source:
        return replace(self._source, coupling=self._coupled(context)) if self._coupling.on else self._source

    def _limits(self, budget: int) -> tree_search.Limits:
        return tree_search.Limits(budget, self.options.depth, self.options.successors)

    def _puct(self, budget: int) -> tree_search.Puct:
        return tree_search.Puct(
            self.options.simulations or 12 + 3 * budget // 8, float(self.options.c1), float(self.options.c2), self._paper
        )

    def _seed_at(self, context: Context) -> int:
        """A separate seed for every text position, so that the search of a step can be repeated."""
        return (self.seed * 0x9E3779B1 + len(context.tokens)) & 0x7FFFFFFFFFFFFFFF

    def _suffix(self, context: Context) -> np.ndarray:
        return self._as_int32(np.asarray(context.tokens[-tree_search.MAX_CONTEXT :]))

    def _emitted(self, outcome: Outcome) -> tuple[np.ndarray, int]:
        """The last committed tokens followed by the emitted ones, and the index of the first emitted one."""
        suffix = self._suffix(outcome.context)
        return np.concatenate([suffix, self._as_int32(np.asarray(outcome.emitted))]), len(suffix)

    def _as_int32(self, tokens: np.ndarray) -> np.ndarray:
        """Token ids as a contiguous int32 array of the same shape.

        Raises:
            AdedError: an id is outside the vocabulary.
        """
        if not within(tokens, self.vocab_size):
            raise AdedError(f"token ids must be from 0 to {self.vocab_size - 1}; tokenize with this model's tokenizer")
        return np.ascontiguousarray(tokens, dtype=np.int32)

    def _rows(self, bigrams: list[tuple[int, int]]) -> list[MatrixRow]:
        return rows(self._base, self._session, np.array(bigrams, dtype=np.int32).reshape(-1, 2), self.options.successors)

    def _warm_up(self) -> None:
        """Run the JIT compiler now, so that no timed step does."""
        text = np.zeros(3, dtype=np.int32)
        context = Context(text, 3)
        self._read([0, 0, 0])
        self.propose(context, 2)
        self.explain(context, 2)
        self._rows([(0, 0)])
        learned_exponent(self._base.arrays, self._session.arrays, self._coupling, text, 1)
        self.predictions(context)
        if self._learns_top_k:
            zeros = np.zeros((1, OBSERVED_TOP_K), dtype=np.int32)
            self._session.observe_top_k(text, DraftTree.root_only(0), zeros, zeros.astype(np.float32))
        self._session.clear()
