"""Blockwise parallel decoding (Stern et al. 2018, arXiv 1811.03115) with rescored drafts (Kim et al. 2024, arXiv 2404.09221).

The Medusa heads of the target predict a block of tokens. Each predicts its position independently of the others, so the block
of their most probable tokens is often not fluent: it repeats tokens, for example. A model that conditions on the tokens before
rescores the predictions, before the target verifies them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aded.core.inspection import Explanation, LatticeColumn
from aded.core.tree import DraftTree
from aded.draft_models.medusa_heads import HeadPredictions, HeadReader
from aded.drafters.base import Context, Drafter, Inspectable, Outcome
from aded.drafters.methods.medusa import NO_STATE
from aded.drafters.methods.rescoring import RescoredDraft, Rescoring
from aded.engine.outputs import DrafterNeeds

if TYPE_CHECKING:
    import torch


class BlockwiseDrafter(Drafter, Inspectable):
    """Drafts from the heads' predictions after they were rescored.

    Args:
        reader: the Medusa heads of the target.
        rescoring: how the draft is made of the predictions.
    """

    def __init__(self, reader: HeadReader, rescoring: Rescoring) -> None:
        self.needs = DrafterNeeds(reader=reader)
        self._reader, self._rescoring = reader, rescoring
        self._lattice: HeadPredictions | None = None  # for the tokens after the root
        self._draft: RescoredDraft | None = None  # the last one

    def start(self, prompt: Sequence[int], features: torch.Tensor | None = None) -> None:
        self._lattice = self._draft = None
        self._rescoring.start(prompt)
        self.notice = self._rescoring.notice

    def prepare(self, context: Context, budget: int) -> None:
        if self._lattice is not None and budget > 1:
            self._rescoring.prepare(context, min(budget - 1, len(self._lattice.tokens)))

    def propose(self, context: Context, budget: int) -> DraftTree:
        self._draft = None
        if self._lattice is None or budget == 1:
            return DraftTree.root_only(context.root)
        self._draft = self._rescoring.draft(context, self._lattice, budget)
        self.notice = self._rescoring.notice
        return self._draft.tree

    def observe(self, outcome: Outcome) -> None:
        self._lattice = self._reader.predictions(outcome.reader_output)
        self._rescoring.observe(outcome)

    def close(self) -> None:
        self._rescoring.close()

    def explain(self, context: Context, budget: int) -> Explanation:
        """The lattice that the last draft was made of, before and after rescoring."""
        if self._lattice is None or self._draft is None:
            return Explanation(note=NO_STATE if budget > 1 else None)
        rescored = self._draft.rescored
        columns = [
            LatticeColumn(tuple(tokens), tuple(heads), () if rescored is None or not rescored[at].any() else tuple(rescored[at]))
            for at, (tokens, heads) in enumerate(zip(self._lattice.tokens, self._lattice.probabilities))
        ]
        return Explanation(lattice=tuple(columns))

    def settings(self) -> dict[str, object]:
        return {"heads": len(self._reader.accuracy), **self._rescoring.settings()}
