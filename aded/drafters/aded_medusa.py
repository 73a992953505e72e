"""ADED with Medusa: one draft tree from a mixture of the Medusa heads and the tri-gram matrix.

The heads read the target's hidden state and are the more accurate for the next few tokens, but each head predicts
independently of the others. The matrix conditions on the path and reaches any depth. A best-first search builds the tree from
the mixture of both (``aded.ngram.medusa_mixture``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from aded.core.jit import njit
from aded.core.tree import DraftTree
from aded.draft_models.medusa_heads import HeadPredictions, HeadReader
from aded.drafters.aded import AdedDrafter
from aded.drafters.aded_options import AdedOptions
from aded.drafters.base import Context, Outcome
from aded.engine.outputs import DrafterNeeds
from aded.ngram import tree_search
from aded.ngram.medusa_mixture import Lattice, Shares, kind_of, lattice_kinds
from aded.ngram.session_counts import new_lookup, successors
from aded.ngram.trigram import TrigramMatrix

if TYPE_CHECKING:
    import torch


class AdedMedusaDrafter(AdedDrafter):
    """`AdedDrafter` whose search also uses Medusa heads.

    Args:
        matrix, vocab_size, options, seed: see `AdedDrafter`; ``options.search`` is ignored, the search is always best-first.
        reader: the Medusa heads of the target.
    """

    def __init__(
        self,
        matrix: TrigramMatrix | None,
        vocab_size: int,
        reader: HeadReader,
        options: AdedOptions | None = None,
        seed: int = 0,
    ) -> None:
        self._reader, self._depths = reader, len(reader.accuracy)
        self._shares = Shares(self._depths)
        self._head_predictions: HeadPredictions | None = None  # for the tokens after the root
        self._draft_predictions: HeadPredictions | None = None  # those that the current draft was made from
        super().__init__(matrix, vocab_size, replace(options or AdedOptions.tuned(), search="best-first"), seed)
        self.needs = DrafterNeeds(top_k=self.needs.top_k, reader=reader, optional=True)

    def start(self, prompt: Sequence[int], features: torch.Tensor | None = None) -> None:
        self._shares, self._head_predictions, self._draft_predictions = Shares(self._depths), None, None
        super().start(prompt, features)

    def propose(self, context: Context, budget: int) -> DraftTree:
        self._draft_predictions = self._head_predictions
        return super().propose(context, budget)

    def observe(self, outcome: Outcome) -> None:
        """Update the mixture weights from the emitted tokens, then learn as `AdedDrafter` does."""
        if self._draft_predictions is not None:
            self._learn_shares(outcome, self._draft_predictions)
        self._head_predictions, self._draft_predictions = self._reader.predictions(outcome.reader_output), None
        super().observe(outcome)

    def settings(self) -> dict[str, object]:
        return {**super().settings(), "heads": self._depths}

    def _search(self, context: Context, budget: int) -> DraftTree:
        if self._head_predictions is None or budget == 1:
            return super()._search(context, budget)
        lattice = Lattice(
            self._head_predictions.tokens,
            self._head_predictions.probabilities,
            self._shares.at(self._head_predictions.probabilities),
        )
        return tree_search.best_first(
            replace(self._source_at(context), lattice=lattice), self._suffix(context), self._limits(budget)
        )

    def _learn_shares(self, outcome: Outcome, head_predictions: HeadPredictions) -> None:
        arrays = (self._base.arrays, self._session.arrays)
        head_kinds = lattice_kinds(head_predictions.probabilities)
        predictions = _predictions(
            *arrays, head_predictions.tokens, head_predictions.probabilities, *self._emitted(outcome), self.options.successors
        )
        for depth, (matrix_kind, head_p, matrix_p) in enumerate(zip(*predictions)):
            self._shares.learn(depth, head_kinds[depth], matrix_kind, head_p, matrix_p)

    def _warm_up(self) -> None:
        super()._warm_up()
        zeros = HeadPredictions(np.zeros((self._depths, 1), dtype=np.int32), np.zeros((self._depths, 1)))
        self._head_predictions, context = zeros, Context(np.zeros(3, dtype=np.int32), 3)
        self._search(context, 2)
        self._learn_shares(Outcome(DraftTree.root_only(0), np.array([0]), context, np.array([0])), zeros)
        self._head_predictions, self._shares = None, Shares(self._depths)


@njit(cache=True)
def _predictions(base, session, head_predictions, probabilities, text, start, max_successors):
    """Probabilities that the heads and the matrix gave to the tokens ``text[start:]``, for at most as many as there are heads.

    Returns:
        The kind of the matrix's prediction (``kind_of``), int64 ``[n]``; the probability of each token by the heads and by the
        matrix, float64 ``[n]`` each.
    """
    n, lookup = min(len(text) - start, len(head_predictions)), new_lookup(base, session)
    matrix_kinds, head_p, matrix_p = np.empty(n, np.int64), np.zeros(n), np.zeros(n)
    for depth in range(n):
        token, count = text[start + depth], successors(lookup, text, start + depth, max_successors)
        matrix_kinds[depth] = kind_of(lookup.probabilities, count)
        for rank in range(head_predictions.shape[1]):
            head_p[depth] += probabilities[depth, rank] if head_predictions[depth, rank] == token else 0.0
        for i in range(count):
            matrix_p[depth] += lookup.probabilities[i] if lookup.tokens[i] == token else 0.0
    return matrix_kinds, head_p, matrix_p
