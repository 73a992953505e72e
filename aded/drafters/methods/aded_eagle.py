"""ADED with EAGLE: one draft tree from a mixture of the tri-gram matrix and an EAGLE head (arXiv 2503.01840).

The head predicts the tokens after every path that its beam search expands; the matrix adds what the session has learned, and
reaches further.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from aded.draft_models.tree_runner import Beam
from aded.drafters.aded_options import AdedOptions
from aded.drafters.base import Context, Outcome
from aded.drafters.methods.eagle import EagleDrafter
from aded.drafters.methods.mixture import MixtureDrafter
from aded.engine.outputs import DrafterNeeds
from aded.ngram.mixture import Lattice, LogOdds
from aded.ngram.trigram import TrigramMatrix

if TYPE_CHECKING:
    import torch

    from aded.engine.target_view import TargetView

INITIAL_SHARES = LogOdds(
    depth=(0.4, 0.4, -0.1, -0.2, 0.2, 0.4), lattice=(-1.1, 0.1, 1.0, 2.1), matrix=(3.2, 1.7, 0.4, 0.1, -1.0, -1.5)
)


class AdedEagleDrafter(MixtureDrafter):
    """A `MixtureDrafter` with an EAGLE head.

    Args:
        matrix, vocab_size, options, seed: see `MixtureDrafter`.
        eagle: drafts with the head, without the matrix.
    """

    def __init__(
        self,
        matrix: TrigramMatrix | None,
        vocab_size: int,
        eagle: EagleDrafter,
        options: AdedOptions | None = None,
        seed: int = 0,
    ) -> None:
        self._eagle = eagle
        super().__init__(matrix, vocab_size, INITIAL_SHARES, options, seed)
        self.needs = DrafterNeeds(top_k=self.needs.top_k, hidden_layers=eagle.needs.hidden_layers)

    def bind(self, target: TargetView) -> None:
        super().bind(target)
        self._eagle.bind(target)

    def start(self, prompt: Sequence[int], features: torch.Tensor | None = None) -> None:
        self._eagle.start(prompt, features)
        super().start(prompt, features)

    def prepare(self, context: Context, budget: int) -> None:
        self._eagle.prepare(context, budget)

    def predicted(self, context: Context) -> Lattice | None:
        beam = self._eagle.candidates(context)
        self.notice = self._eagle.notice
        return None if beam is None else _lattice(beam)

    def observe(self, outcome: Outcome) -> None:
        super().observe(outcome)
        self._eagle.observe(outcome)

    def close(self) -> None:
        self._eagle.close()

    def settings(self) -> dict[str, object]:
        return {**super().settings(), "head": self._eagle.settings()}


def _lattice(beam: Beam) -> Lattice:
    """The candidates of a beam search as a lattice, without shares."""
    tokens, probabilities, below, depths = beam.expansions()
    below = np.append(below, np.full((len(below), 1), -1), axis=1)
    return Lattice(tokens.astype(np.int32), probabilities, below.astype(np.int32), depths)
