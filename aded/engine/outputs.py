"""What a drafter may ask of a step of the target beside its verdict, and how it is handed over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch


class StateReader(Protocol):
    """What a drafter makes of the hidden state that chose the newest token, on the device: where there is a graph, inside it.

    Attributes:
        size: how many numbers it makes.
    """

    size: int

    def body(self, state: torch.Tensor) -> torch.Tensor:
        """A last hidden state ``[1, hidden]`` to float64 ``[size]``: as fit for a graph as a body of ``aded.core.cuda_graph``."""


@dataclass(frozen=True)
class DrafterNeeds:
    """What the target must hand over after each step, beside the verdict.

    Attributes:
        top_k: its k most probable tokens at every node.
        hidden: its last hidden states at every node.
        reader: what is to be read from the hidden state at the last accepted node alone. Steps are captured for the reader that
            they hold, so decodes should share it.
        optional: the drafter also works without them, as on recorded text.
    """

    top_k: int = 0
    hidden: bool = False
    reader: StateReader | None = None
    optional: bool = False


@dataclass(frozen=True)
class TreeOutput:
    """What the target says at every node.

    Attributes:
        logits: ``[n, vocab]`` in the model's dtype; ``hidden``: last hidden states ``[n, hidden]``, or None.
        top_tokens, top_probabilities: its most probable tokens, int32 and float32 ``[n, k]``, or None.
        read: what a reader made of the hidden state at the last accepted node, float64 ``[size]``, or None.
    """

    logits: torch.Tensor
    hidden: torch.Tensor | None = None
    top_tokens: np.ndarray | None = None
    top_probabilities: np.ndarray | None = None
    read: np.ndarray | None = None
