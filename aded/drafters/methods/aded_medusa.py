"""ADED with Medusa: one draft tree from a mixture of the tri-gram matrix and the Medusa heads (arXiv 2401.10774).

Each head predicts independently of the others: its prediction is the same for all paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aded.draft_models.medusa_heads import HeadPredictions, HeadReader
from aded.drafters.aded_options import AdedOptions
from aded.drafters.base import Context, Outcome
from aded.drafters.methods.mixture import MixtureDrafter
from aded.engine.outputs import DrafterNeeds
from aded.ngram.mixture import Lattice, LogOdds
from aded.ngram.trigram import TrigramMatrix

if TYPE_CHECKING:
    import torch

INITIAL_SHARES = LogOdds(depth=(0.5, -0.4, -0.4, -0.5), lattice=(-2.1, -1.0, 0.1, 2.3), matrix=(2.6, 0.8, 0.5, -0.1, -1.1, -3.4))


class AdedMedusaDrafter(MixtureDrafter):
    """A `MixtureDrafter` with Medusa heads.

    Args:
        matrix, vocab_size, options, seed: see `MixtureDrafter`.
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
        self._reader = reader
        self._predictions: HeadPredictions | None = None  # for the tokens after the root
        super().__init__(matrix, vocab_size, INITIAL_SHARES, options, seed)
        self.needs = DrafterNeeds(top_k=self.needs.top_k, reader=reader, optional=True)

    def start(self, prompt: Sequence[int], features: torch.Tensor | None = None) -> None:
        self._predictions = None
        super().start(prompt, features)

    def predicted(self, context: Context) -> Lattice | None:
        found = self._predictions
        return None if found is None else Lattice.by_depth(found.tokens, found.probabilities)

    def observe(self, outcome: Outcome) -> None:
        super().observe(outcome)
        self._predictions = self._reader.predictions(outcome.reader_output)

    def settings(self) -> dict[str, object]:
        return {**super().settings(), "heads": len(self._reader.accuracy)}
