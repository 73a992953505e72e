"""Rescores head predictions with a draft model along a chain (local rescoring, Kim et al. 2024, arXiv 2404.09221)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from aded.draft_models.tree_runner import Sampler
from aded.sampling.settings import SamplingSettings

if TYPE_CHECKING:
    import torch

    from aded.draft_models.medusa_heads import HeadPredictions


class LatticeSampler(Sampler):
    """Takes at each depth the token of the head with the highest log p_head + alpha · log p_draft.

    Args:
        lattice: the heads' predictions for the tokens after the root.
        alpha: weight of the draft model.
        position: text position of the first token after the root.

    Attributes:
        rescored: the rescored probabilities of the lattice's tokens, whose sum stays that of the head, float64
            ``[depths, ranks]``; 0 at depths that are not drafted.
    """

    def __init__(self, lattice: HeadPredictions, alpha: float, position: int) -> None:
        super().__init__(SamplingSettings(), coupled=False, replacement=False)
        self._lattice, self._alpha, self._position = lattice, alpha, position
        self.rescored = np.zeros(lattice.probabilities.shape)

    def draw(
        self, logits: torch.Tensor, width: int, position: int, parents: Sequence[int] | np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, torch.Tensor | None]:
        """The token at ``position``; see ``Sampler.draw``. ``logits``: those of one node, ``[1, vocab]``."""
        depth = position - self._position
        tokens, heads = self._lattice.tokens[depth].astype(np.int64), self._lattice.probabilities[depth]
        known = tokens < logits.shape[1]
        chosen = logits[0].double().log_softmax(-1)[np.where(known, tokens, 0)].cpu().numpy()
        with np.errstate(divide="ignore"):
            score = np.where(known, np.log(heads) + self._alpha * chosen, -np.inf)
        weights = np.exp(score - score.max())
        self.rescored[depth] = weights * (heads.sum() / weights.sum())
        best = int(score.argmax())
        return tokens[None, [best]], self.rescored[depth][None, [best]], None
