"""What a drafter can request from a step of the target model besides the verdict, and the output of a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from aded.core.errors import AdedError, check_type, first_line, shown
from aded.core.limits import is_whole

if TYPE_CHECKING:
    import torch

    from aded.engine.target_model import TargetModel


class StateReader(Protocol):
    """A drafter's function of the hidden state at the last accepted node, computed on the device as part of the step.

    Attributes:
        size: length of its output.
    """

    size: int

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        """Map a last hidden state ``[1, hidden]`` to float64 ``[size]``; must be capturable.

        See ``aded.core.compilation.cuda_graph``.
        """


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

    @property
    def all_layers(self) -> tuple[int, ...]:
        """The hidden layers, and the last one where only the reader needs it."""
        return self.hidden_layers if self.reader is None or -1 in self.hidden_layers else (*self.hidden_layers, -1)


def check_needs(needs: Any, target: TargetModel) -> None:
    """Check what a drafter needs against the target that must return it.

    Raises:
        AdedError: the needs are malformed, or name a layer that the model does not have.
    """
    check_type(needs, DrafterNeeds, "the drafter's needs are", "DrafterNeeds(...)")
    layers, chosen = int(target.config.num_hidden_layers), needs.hidden_layers
    if not is_whole(needs.top_k) or needs.top_k < 0:
        raise AdedError(f"the drafter needs the top {shown(needs.top_k)} tokens; give a whole number, 0 for none")
    if not isinstance(chosen, tuple) or not all(map(is_whole, chosen)):
        raise AdedError(f"the drafter's hidden layers are {shown(chosen)}; give a tuple of whole numbers, such as (1, 2, -1)")
    if wrong := [layer for layer in chosen if not -layers - 1 <= layer <= layers]:
        raise AdedError(f"the drafter reads hidden layer {wrong[0]}; this model has 0 (embedding) to {layers}, -1 is the last")
    if needs.reader is not None:
        target.shared_by_decodes(f"reader {id(needs.reader)}", lambda: _checked_reader(needs.reader, target))


def _checked_reader(reader: Any, target: TargetModel) -> StateReader:
    """The reader, after it has read a hidden state of zeros."""
    import torch

    with torch.inference_mode():
        state = torch.zeros(1, int(target.config.hidden_size), dtype=target.dtype, device=target.device)
        try:
            hash(reader)
            output, size = reader.forward(state), reader.size
        except (AttributeError, RuntimeError, TypeError, ValueError) as error:
            raise AdedError(f"the drafter's reader fails ({first_line(error)}); see StateReader for what it must have") from None
    if not isinstance(output, torch.Tensor) or output.shape != (size,) or output.dtype != torch.float64:
        raise AdedError(f"the drafter's reader must return a float64 tensor of its size, [{size}]; correct its forward")
    return reader


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
