"""The interface of draft networks that read the target's features instead of token ids only, such as EAGLE's."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import torch


class FeatureOutput(NamedTuple):
    """Output of a feature network for ``n`` positions.

    Attributes:
        logits: of the token after each position's token, ``[n, vocab]``.
        features: predicted features at each position's token, ``[n, width]``: the input for drafting one token further.
    """

    logits: torch.Tensor
    features: torch.Tensor


class FeatureNetwork(Protocol):
    """A draft network over pairs of a feature and the token after it (EAGLE, arXiv 2401.15077, section 3).

    Position ``i`` holds the features at token ``i`` and the id of token ``i + 1``. Features of committed tokens come from the
    target (``Drafter.start`` for the prompt, ``Outcome.accepted_features`` after a step), those of drafted tokens from the
    network.

    Attributes:
        hidden_layers: layers of the target whose hidden states are the features (see ``DrafterNeeds``).
    """

    hidden_layers: tuple[int, ...]

    def start(self) -> None:
        """Forget all positions."""

    def read(self, features: torch.Tensor, tokens: torch.Tensor) -> FeatureOutput:
        """Read committed positions after those read before; drafted positions are dropped.

        Args:
            features: the target's, ``[n, layers * hidden]``.
            tokens: the token after each, int64 ``[n]``.
        """

    def draft(self, features: torch.Tensor, tokens: torch.Tensor, parents: torch.Tensor) -> FeatureOutput:
        """Read drafted positions, which see the committed ones and their ancestors.

        Args:
            features: predicted by the network, ``[n, width]``.
            tokens: drafted token ids, int64 ``[n]``.
            parents: index of each position's parent among all drafted positions since ``read``, int64 ``[n]``; -1: the last
                committed position.
        """
