"""ADED with Medusa: one tree from two opinions, the heads' on what comes next and the matrix's on what follows from that.

The heads see the target's state and are right most often for the next few tokens, but each guesses without knowing the
others; the matrix knows the path and goes on as deep as one likes. Their mixture (``aded.ngram.medusa_mixture``) is searched
best-first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from aded.core.jit import njit
from aded.core.tree import DraftTree
from aded.draft_models.medusa_heads import Guesses, HeadReader
from aded.drafters.aded import AdedDrafter, AdedOptions
from aded.drafters.base import Context, Outcome
from aded.engine.outputs import DrafterNeeds
from aded.ngram import tree_search
from aded.ngram.medusa_mixture import Lattice, Shares, kind_of, lattice_kinds
from aded.ngram.session_overlay import make_room, successors
from aded.ngram.trigram import TrigramMatrix


class AdedMedusaDrafter(AdedDrafter):
    """`AdedDrafter` whose search asks the heads too (a drafter of two methods is the one that may know another drafter).

    Args:
        matrix, vocab_size, options, seed: as of `AdedDrafter`; the search is best-first whatever the options say.
        reader: the heads on the target.
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
        self._guesses: Guesses | None = None  # of the tokens after the root
        self._drafted: Guesses | None = None  # those that the draft in flight was made with
        super().__init__(matrix, vocab_size, replace(options or AdedOptions.tuned(), search="best-first"), seed)
        self.needs = DrafterNeeds(top_k=self.needs.top_k, reader=reader, optional=True)

    def start(self, prompt: Sequence[int]) -> None:
        self._shares, self._guesses, self._drafted = Shares(self._depths), None, None
        super().start(prompt)

    def propose(self, context: Context, budget: int) -> DraftTree:
        self._drafted = self._guesses
        return super().propose(context, budget)

    def observe(self, outcome: Outcome) -> None:
        """Learn the shares from the tokens that came, then what `AdedDrafter` learns."""
        if self._drafted is not None:
            self._learn_shares(outcome, self._drafted)
        self._guesses, self._drafted = self._reader.guesses(outcome.read), None
        super().observe(outcome)

    def settings(self) -> dict[str, object]:
        return {**super().settings(), "heads": self._depths}

    def _search(self, context: Context, budget: int) -> DraftTree:
        if self._guesses is None or budget == 1:
            return super()._search(context, budget)
        lattice = Lattice(self._guesses.tokens, self._guesses.probabilities, self._shares.at(self._guesses.probabilities))
        return tree_search.best_first(replace(self._source, lattice=lattice), self._newest(context), self._limits(budget))

    def _learn_shares(self, outcome: Outcome, guesses: Guesses) -> None:
        arrays, keep = (self._base.arrays, self._overlay.arrays), self.options.successors
        sure = lattice_kinds(guesses.probabilities)
        opinions = _opinions(*arrays, guesses.tokens, guesses.probabilities, *self._emitted(outcome), keep)
        for depth, (kind, lattice, matrix) in enumerate(zip(*opinions)):
            self._shares.learn(depth, sure[depth], kind, lattice, matrix)

    def _warm_up(self) -> None:
        super()._warm_up()
        none = Guesses(np.zeros((self._depths, 1), dtype=np.int32), np.zeros((self._depths, 1)))
        self._guesses, context = none, Context(np.zeros(3, dtype=np.int32), 3)
        self._search(context, 2)
        self._learn_shares(Outcome(DraftTree.root_only(0), np.array([0]), context, np.array([0])), none)
        self._guesses, self._shares = None, Shares(self._depths)


@njit(cache=True)
def _opinions(base, overlay, guesses, probabilities, text, start, keep):
    """What matrix and lattice thought of the tokens ``text[start:]`` before they came, as far as the lattice reaches.

    Returns:
        The kind of the matrix's opinion, int64 ``[n]``; what the lattice and what the matrix gave to each token, float64 ``[n]``.
    """
    n, room = min(len(text) - start, len(guesses)), make_room()
    kinds, lattice, matrix = np.empty(n, np.int64), np.zeros(n), np.zeros(n)
    for depth in range(n):
        token, count = text[start + depth], successors(base, overlay, text, start + depth, keep, room)
        kinds[depth] = kind_of(room[1], count)
        for rank in range(guesses.shape[1]):
            lattice[depth] += probabilities[depth, rank] if guesses[depth, rank] == token else 0.0
        for i in range(count):
            matrix[depth] += room[1][i] if room[0][i] == token else 0.0
    return kinds, lattice, matrix
