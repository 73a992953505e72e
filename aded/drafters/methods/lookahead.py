"""Lookahead decoding (arXiv 2402.02057): the target generates the n-grams that it verifies, by Jacobi iteration.

Window and pool are those of `aded.ngram.lookahead`. The draft is not coupled with the draws of a target that samples
(`aded.sampling.coupling`): the n-grams of the pool have no weights, and each recurs at another position, where other random
numbers decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aded.core.inspection import Explanation, PhrasePool
from aded.core.tree import DraftTree
from aded.drafters.base import Context, Drafter, Inspectable, Outcome
from aded.engine.outputs import DrafterNeeds
from aded.ngram.lookahead import Lookahead

if TYPE_CHECKING:
    import torch


class LookaheadDrafter(Drafter, Inspectable):
    """Drafts the window and the guesses, and collects the n-grams that the window generates.

    Args:
        ngram, window, guesses, seed: see `Lookahead`.
        pool_from_prompt: add the n-grams of the prompt to the pool.

    Window and guesses take ``(window + guesses) * (ngram - 1)`` nodes, the root included. With a smaller budget
    both are reduced in proportion; the window keeps at least one column.

    Raises:
        AdedError: a value is out of range.
    """

    needs = DrafterNeeds(top_k=1)

    def __init__(self, ngram: int = 4, window: int = 10, guesses: int = 10, pool_from_prompt: bool = True, seed: int = 0) -> None:
        self._lookahead = Lookahead(ngram, window, guesses, seed)
        self.pool_from_prompt = pool_from_prompt

    def start(self, prompt: Sequence[int], features: torch.Tensor | None = None) -> None:
        self._lookahead.start(prompt)
        self._lookahead.pool.clear()
        if self.pool_from_prompt:
            self._lookahead.pool.add_all(prompt, self._lookahead.ngram)

    def propose(self, context: Context, budget: int) -> DraftTree:
        return self._lookahead.draft(context.root, budget)

    def observe(self, outcome: Outcome) -> None:
        """Advance the window by one level with the target's predictions, for the columns that the verified tree contains."""
        assert outcome.top_tokens is not None, "lookahead needs the target's most probable token at every node"
        self._lookahead.advance(outcome.tree, outcome.top_tokens[:, 0])

    def explain(self, context: Context, budget: int) -> Explanation:
        columns, guesses = self._lookahead.sizes(context.root, budget)
        pool, known = self._lookahead.pool, tuple(self._lookahead.pool.beginning_with(context.root))
        note = (
            f"a window of {columns} columns and {len(self._lookahead.levels)} levels, "
            f"{guesses} guesses from a pool of {len(pool)} n-grams"
        )
        return Explanation(note, pool=PhrasePool(len(pool), context.root, known, guesses))

    def settings(self) -> dict[str, object]:
        names = ("ngram", "window", "guesses")
        known = {name: getattr(self._lookahead, name) for name in names}
        return {**known, "pool_from_prompt": self.pool_from_prompt, "seed": self._lookahead.seed}
