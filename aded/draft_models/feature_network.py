"""The interface of draft networks that read the target's features instead of token ids only, such as EAGLE's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    import torch


class Children(NamedTuple):
    """The most probable tokens after ``n`` positions, in decreasing order.

    Attributes:
        tokens: target token ids, int64 ``[n, ranks]``; probabilities: float64 ``[n, ranks]``.
    """

    tokens: np.ndarray
    probabilities: np.ndarray


class FeatureNetwork(Protocol):
    """A draft network over pairs of a feature and the token after it (EAGLE, arXiv 2401.15077, section 3).

    Position ``i`` holds the features at token ``i`` and the id of token ``i + 1``. Features of committed tokens come from the
    target (``Drafter.start`` for the prompt, ``Outcome.accepted_features`` after a step). At a drafted token the network's
    prediction at the parent takes their place, which the network keeps.

    Attributes:
        hidden_layers: layers of the target whose hidden states are the features (see ``DrafterNeeds``).
    """

    hidden_layers: tuple[int, ...]

    def start(self) -> None:
        """Forget all positions."""

    def read(self, features: torch.Tensor, tokens: Sequence[int]) -> Children:
        """Read committed positions after those read before; drafted positions are dropped.

        Args:
            features: the target's, ``[n, layers * hidden]``, ``n >= 1``.
            tokens: the token after each, ``[n]``.

        Returns:
            The tokens after the last position, one row.
        """

    def draft(self, tokens: np.ndarray, parents: np.ndarray) -> Children:
        """Read drafted positions, which see the committed ones and their ancestors.

        Args:
            tokens: drafted token ids, int ``[n]``.
            parents: index of each position's parent among all drafted positions since ``read``, int ``[n]``; -1: the last
                committed position.

        Returns:
            The tokens after each position.
        """
