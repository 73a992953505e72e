"""ADED with a trained head: one draft tree from a mixture of the tri-gram matrix and the head's predictions.

The head reads the target's states and is the more accurate for the next few tokens. The matrix reaches any depth, and knows what
the session has learned. A best-first search builds the tree from the mixture of both (``aded.ngram.mixture``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from aded.core.compilation.jit import njit
from aded.core.tree import DraftTree
from aded.drafters.aded_options import AdedOptions
from aded.drafters.base import Context, Outcome
from aded.drafters.methods.aded import AdedDrafter
from aded.ngram import tree_search
from aded.ngram.mixture import Lattice, LogOdds, Shares, kind_of, lattice_kinds, row_below
from aded.ngram.session_counts import new_lookup, successors
from aded.ngram.trigram import TrigramMatrix

if TYPE_CHECKING:
    import torch


class MixtureDrafter(AdedDrafter):
    """`AdedDrafter` whose search also uses a head's predictions.

    Args:
        matrix, vocab_size, options, seed: see `AdedDrafter`; ``options.search`` is ignored, the search is always best-first.
        initial_shares: of the head in the mixture.
    """

    def __init__(
        self,
        matrix: TrigramMatrix | None,
        vocab_size: int,
        initial_shares: LogOdds,
        options: AdedOptions | None = None,
        seed: int = 0,
    ) -> None:
        self._initial_shares = initial_shares
        self._shares = Shares(initial_shares)
        self._lattice: Lattice | None = None  # that the current draft was made from
        super().__init__(matrix, vocab_size, replace(options or AdedOptions.tuned(), search="best-first"), seed)

    @abstractmethod
    def predicted(self, context: Context) -> Lattice | None:
        """The head's predictions after ``context``, without shares; None if there are none."""

    def start(self, prompt: Sequence[int], features: torch.Tensor | None = None) -> None:
        self._shares, self._lattice = Shares(self._initial_shares), None
        super().start(prompt, features)

    def propose(self, context: Context, budget: int) -> DraftTree:
        lattice = self.predicted(context) if budget > 1 else None
        self._lattice = None if lattice is None else self._shares.of(lattice)
        return super().propose(context, budget)

    def observe(self, outcome: Outcome) -> None:
        """Update the mixture weights from the emitted tokens, then learn as `AdedDrafter` does."""
        if self._lattice is not None:
            self._learn_shares(outcome, self._lattice)
        self._lattice = None
        super().observe(outcome)

    def _search(self, context: Context, budget: int) -> DraftTree:
        if self._lattice is None or budget == 1:
            return super()._search(context, budget)
        source = replace(self._source_at(context), lattice=self._lattice)
        return tree_search.best_first(source, self._suffix(context), self._limits(budget))

    def _learn_shares(self, outcome: Outcome, lattice: Lattice) -> None:
        arrays, kinds = (self._base.arrays, self._session.arrays), lattice_kinds(lattice.probabilities)
        for row, matrix_kind, lattice_p, matrix_p in zip(
            *_predictions(*arrays, lattice, *self._emitted(outcome), self.options.successors)
        ):
            self._shares.learn(int(lattice.depths[row]), kinds[row], matrix_kind, lattice_p, matrix_p)

    def _warm_up(self) -> None:
        super()._warm_up()
        zeros, context = np.zeros((1, 1)), Context(np.zeros(3, dtype=np.int32), 3)
        self._lattice = self._shares.of(Lattice.by_depth(zeros.astype(np.int32), zeros))
        self._search(context, 2)
        self._learn_shares(Outcome(DraftTree.root_only(0), np.array([0]), context, np.array([0])), self._lattice)
        self._lattice, self._shares = None, Shares(self._initial_shares)


@njit(cache=True)
def _predictions(base, session, lattice, text, start, max_successors):
    """Probabilities that the lattice and the matrix gave to the tokens ``text[start:]``, as far as the lattice has rows for them.

    Returns:
        The lattice's row before each token and the kind of the matrix's prediction (``kind_of``), int64 ``[n]`` each; the
        probability of the token in the lattice and in the matrix, float64 ``[n]`` each.
    """
    longest, lookup, row, n = len(text) - start, new_lookup(base, session), np.int64(0), 0
    rows, matrix_kinds = np.empty(longest, np.int64), np.empty(longest, np.int64)
    lattice_p, matrix_p = np.zeros(longest), np.zeros(longest)
    while n < longest and row >= 0:
        token, count = text[start + n], successors(lookup, text, start + n, max_successors)
        rows[n], matrix_kinds[n] = row, kind_of(lookup.probabilities, count)
        for rank in range(lattice.tokens.shape[1]):
            lattice_p[n] += lattice.probabilities[row, rank] if lattice.tokens[row, rank] == token else 0.0
        for i in range(count):
            matrix_p[n] += lookup.probabilities[i] if lookup.tokens[i] == token else 0.0
        row = np.int64(row_below(lattice, row, token))
        n += 1
    return rows[:n], matrix_kinds[:n], lattice_p[:n], matrix_p[:n]
