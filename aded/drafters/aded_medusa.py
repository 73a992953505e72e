"""ADED with Medusa: one tree from two opinions, the heads' on what comes next and the matrix's on what follows from that.

The heads see the target's state and are right most often for the next few tokens, but each guesses without knowing the
others; the matrix knows the path and goes on as deep as one likes. Their mixture (``aded.mixing``) is searched best-first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from aded import search
from aded.drafters.aded import AdedDrafter, AdedOptions
from aded.drafters.base import Context, DrafterNeeds, Outcome
from aded.heads import Guesses, HeadRunner, HeadState
from aded.mixing import Lattice, Shares, kind_of
from aded.tree import DraftTree
from aded.trigram import TrigramMatrix


class AdedMedusaDrafter(AdedDrafter):
    """`AdedDrafter` whose search asks the heads too (a drafter of two methods is the one that may know another drafter).

    Args:
        matrix, vocab_size, options, seed: as of `AdedDrafter`; the search is best-first whatever the options say.
        runner: the heads on the target.
    """

    def __init__(
        self,
        matrix: TrigramMatrix | None,
        vocab_size: int,
        runner: HeadRunner,
        options: AdedOptions | None = None,
        seed: int = 0,
    ) -> None:
        self._state = HeadState(runner)
        self._depths = len(runner.accuracy)
        self._shares = Shares(self._depths)
        self._guesses: Guesses | None = None
        super().__init__(matrix, vocab_size, replace(options or AdedOptions.tuned(), search="best-first"), seed)
        self.needs = DrafterNeeds(top_k=self.needs.top_k, hidden=True, optional=True)

    def start(self, prompt: Sequence[int]) -> None:
        self._state.forget()
        self._shares, self._guesses = Shares(self._depths), None
        super().start(prompt)

    def propose(self, context: Context, budget: int) -> DraftTree:
        self._guesses = self._state.guesses()
        return super().propose(context, budget)

    def observe(self, outcome: Outcome) -> None:
        """Learn the shares from the tokens that came, then what `AdedDrafter` learns."""
        if self._guesses is not None:
            self._learn_shares(outcome, self._guesses)
        self._guesses = None
        self._state.observe(outcome)
        super().observe(outcome)

    def settings(self) -> dict[str, object]:
        return {**super().settings(), "heads": self._depths}

    def _search(self, context: Context, budget: int) -> DraftTree:
        if self._guesses is None or budget == 1:
            return super()._search(context, budget)
        lattice = Lattice(self._guesses.tokens, self._guesses.probabilities, self._shares.values)
        return search.best_first(replace(self._source, lattice=lattice), self._newest(context), self._limits(budget))

    def _learn_shares(self, outcome: Outcome, guesses: Guesses) -> None:
        text, start = self._emitted(outcome)
        for depth in range(min(len(outcome.emitted), self._depths)):
            token = text[start + depth]
            known, weights = self._overlay.successors(self._base, text[: start + depth], self.options.successors)
            lattice = float(guesses.probabilities[depth][guesses.tokens[depth] == token].sum())
            self._shares.learn(depth, kind_of(weights, len(weights)), lattice, float(weights[known == token].sum()))

    def _warm_up(self) -> None:
        super()._warm_up()
        none = Guesses(np.zeros((self._depths, 1), dtype=np.int32), np.zeros((self._depths, 1)))
        self._guesses = none
        self._search(Context(np.zeros(3, dtype=np.int32), 3), 2)
        self._guesses = None
