"""What a drafter can request from a step of the target model besides the verdict, and the output of a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    import torch


class StateReader(Protocol):
    """A drafter's function of the hidden state at the last accepted node, computed on the device as part of the step.

    Attributes:
        size: length of its output.
    """

    size: int

    def body(self, state: torch.Tensor) -> torch.Tensor:
        """Map a last hidden state ``[1, hidden]`` to float64 ``[size]``; must be capturable (see ``aded.core.cuda_graph``)."""


@dataclass(frozen=True)
class DrafterNeeds:
    """What the target must return after each step besides the verdict.

    Attributes:
        top_k: number of most probable tokens at every node.
        hidden: whether to return the last hidden states of all nodes.
        reader: function of the hidden state at the last accepted node. A captured step belongs to one reader, so decodes should
            share it.
        optional: whether the drafter also works without these, as on recorded text.
    """

    top_k: int = 0
    hidden: bool = False
    reader: StateReader | None = None
    optional: bool = False


@dataclass(frozen=True)
class TreeOutput:
    """Output of the target model for ``n`` tree nodes.

    Attributes:
        logits: ``[n, vocab]`` in the model's dtype; ``hidden``: last hidden states ``[n, hidden]``, or None.
        top_tokens, top_probabilities: most probable tokens, int32 and float32 ``[n, k]``, or None.
        read: output of the reader at the last accepted node, float64 ``[size]``, or None.
    """

    logits: torch.Tensor
    hidden: torch.Tensor | None = None
    top_tokens: np.ndarray | None = None
    top_probabilities: np.ndarray | None = None
    read: np.ndarray | None = None
