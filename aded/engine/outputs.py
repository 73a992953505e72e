"""What a drafter can request from a step of the target model besides the verdict, and the output of a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from aded.core.errors import AdedError

if TYPE_CHECKING:
    import torch


class StateReader(Protocol):
    """A drafter's function of the hidden state at the last accepted node, computed on the device as part of the step.

    Attributes:
        size: length of its output.
    """

    size: int

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        """Map a last hidden state ``[1, hidden]`` to float64 ``[size]``; must be capturable (see ``aded.core.cuda_graph``)."""


@dataclass(frozen=True)
class DrafterNeeds:
    """What the target must return after each step besides the verdict.

    Attributes:
        top_k: number of most probable tokens at every node.
        hidden_layers: layers whose hidden states the drafter reads, for the prompt and for all nodes: 0 is the embedding, ``i``
            the output of layer ``i``, and -1 the last one, after the final norm. Side by side, they are the target's *features*.
        reader: function of the hidden state at the last accepted node. A captured step belongs to one reader, so decodes should
            share it.
        optional: whether the drafter also works without these, as on recorded text.
    """

    top_k: int = 0
    hidden_layers: tuple[int, ...] = ()
    reader: StateReader | None = None
    optional: bool = False

    def check(self, layers: int) -> None:
        """Check the hidden layers for a model of ``layers`` layers.

        Raises:
            AdedError: a layer that the model does not have.
        """
        wrong = [layer for layer in self.hidden_layers if not -layers - 1 <= layer <= layers]
        if wrong:
            raise AdedError(
                f"the drafter reads hidden layer {wrong[0]}; this model has 0 (embedding) to {layers}, -1 is the last"
            )

    @property
    def all_layers(self) -> tuple[int, ...]:
        """The hidden layers, and the last one where only the reader needs it."""
        return self.hidden_layers if self.reader is None or -1 in self.hidden_layers else (*self.hidden_layers, -1)


@dataclass(frozen=True)
class TreeOutput:
    """Output of the target model for ``n`` tree nodes.

    Attributes:
        logits: ``[n, vocab]`` in the model's dtype.
        features: hidden states of the requested layers, ``[n, layers * hidden]``, or None.
        top_tokens, top_probabilities: most probable tokens, int32 and float32 ``[n, k]``, or None.
        reader_output: output of the reader at the last accepted node, float64 ``[size]``, or None.
    """

    logits: torch.Tensor
    features: torch.Tensor | None = None
    top_tokens: np.ndarray | None = None
    top_probabilities: np.ndarray | None = None
    reader_output: np.ndarray | None = None
