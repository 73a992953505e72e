"""Medusa heads (arXiv 2401.10774): predict the next tokens from the target's last hidden state.

Each head consists of residual blocks x + SiLU(W x + b), followed by a vocabulary projection. Heads that are trained here share
the target's, which is not stored; published heads may have separate ones. Four heads for hidden size 576 take 2.7 MB per block
in bfloat16.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import nn

from aded.core.errors import AdedError
from aded.draft_models import checkpoints
from aded.sampling import sampler

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel

RANKS = 10
"""Number of top tokens of each head that can enter a draft, as in the paper."""
LATTICE_RANKS = 16
"""The same for a lattice that is rescored, as in arXiv 2404.09221."""


class MedusaHeads(nn.Module):
    """All heads, computed together.

    Initially all parameters are 0 and every head returns the target's hidden state unchanged.

    Args:
        heads, blocks, hidden: sizes.
        vocabulary: number of tokens of a separate vocabulary projection for each head; 0: they share the target's.

    Attributes:
        weight: ``[heads, blocks, hidden, hidden]``; bias: ``[heads, blocks, hidden]``.
        vocabulary_weight: the separate projections, ``[heads, vocabulary, hidden]``, or None.
    """

    def __init__(self, heads: int, blocks: int, hidden: int, vocabulary: int = 0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(heads, blocks, hidden, hidden))
        self.bias = nn.Parameter(torch.zeros(heads, blocks, hidden))
        self.vocabulary_weight = nn.Parameter(torch.zeros(heads, vocabulary, hidden)) if vocabulary else None

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """The target's last hidden states ``[n, hidden]`` to the heads' ``[heads, n, hidden]``."""
        x = states.expand(len(self.weight), *states.shape)
        for weight, bias in zip(self.weight.unbind(1), self.bias.unbind(1)):
            x = x + nn.functional.silu(x @ weight.transpose(1, 2) + bias[:, None])
        return x

    def logits(self, state: torch.Tensor, project: nn.Module) -> torch.Tensor:
        """Logits ``[heads, vocabulary]`` from a hidden state ``[1, hidden]``; ``project``: the target's vocabulary projection."""
        outputs = self(state)[:, 0]
        if self.vocabulary_weight is None:
            return project(outputs)
        return (self.vocabulary_weight @ outputs[:, :, None])[:, :, 0]


@dataclass(frozen=True)
class HeadPredictions:
    """The most probable tokens of each head, in decreasing order.

    Attributes:
        tokens: int32 ``[heads, ranks]``; probabilities: float64 ``[heads, ranks]``.
    """

    tokens: np.ndarray
    probabilities: np.ndarray


class HeadReader:
    """The Medusa heads of a target as a ``StateReader`` of its hidden states; shared by all decodes.

    Args:
        accuracy: see below.
        ranks: number of top tokens of each head.

    Attributes:
        accuracy: how often the token of each head and rank was correct on held-out text, float64 ``[heads, ranks]``.
        size: number of outputs: a token and a probability for every head and rank.
    """

    def __init__(self, target: TargetModel, heads: MedusaHeads, accuracy: np.ndarray, ranks: int = RANKS) -> None:
        self._project = target.model.get_output_embeddings()
        self._weight = self._project.weight
        self._heads = heads.to(self._weight.device, self._weight.dtype).requires_grad_(False)
        self.accuracy = accuracy
        self._ranks = min(ranks, target.vocab_size)
        self.size = 2 * len(heads.weight) * self._ranks

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        """The heads' predictions from a hidden state ``[1, hidden]``, float64 ``[size]``: tokens, then probabilities."""
        logits = self._heads.logits(state.to(self._weight), self._project)
        tokens, probabilities = sampler.top(logits, self._ranks)
        return torch.stack([tokens.double(), probabilities.double()]).flatten()  # float64 represents every token id exactly

    def predictions(self, read: np.ndarray | None) -> HeadPredictions | None:
        """The output of ``forward`` as ``HeadPredictions``; None for None."""
        if read is None:
            return None
        tokens, probabilities = read.reshape(2, -1, self._ranks)
        return HeadPredictions(tokens.astype(np.int32), probabilities)


def load(path: str | Path, target: TargetModel) -> tuple[MedusaHeads, np.ndarray]:
    """Heads and their held-out accuracy, float64 ``[heads, ranks]``.

    Raises:
        AdedError: as ``checkpoints.read``, or the model has no vocabulary projection.
    """
    checkpoint, width = checkpoints.read(path, "medusa", target), target.config.hidden_size
    if target.model.get_output_embeddings() is None:
        raise AdedError(f"{target.label} has no vocabulary projection that the heads can share; use another method")
    weight, bias, accuracy = (checkpoint.tensors.get(name) for name in ("weight", "bias", "accuracy"))
    if weight is None or bias is None or accuracy is None or not _are_heads(weight, bias, accuracy, width):
        raise AdedError(
            f"{path} does not hold heads of width {width}; make them with {checkpoints.command('medusa', target.spec)}"
        )
    heads = MedusaHeads(len(weight), weight.shape[1], width)
    heads.load_state_dict({"weight": weight.float(), "bias": bias.float()})
    return heads, accuracy.double().numpy()


def _are_heads(weight: torch.Tensor, bias: torch.Tensor, accuracy: torch.Tensor, width: int) -> bool:
    consistent = weight.dim() == 4 and accuracy.dim() == 2 and len(accuracy) == len(weight)
    return consistent and weight.shape[2:] == (width, width) and bias.shape == weight.shape[:3]


_READERS: WeakKeyDictionary[Any, dict[tuple[str, int], HeadReader]] = WeakKeyDictionary()


def reader_for(
    target: TargetModel,
    path: str | None = None,
    ranks: int = RANKS,
    read: Callable[[Path, TargetModel], tuple[MedusaHeads, np.ndarray]] = load,
) -> HeadReader:
    """The heads at ``path``, or else the default ones of the target; loaded once per target and number of top tokens.

    Args:
        read: reads the heads and their accuracy.

    Raises:
        AdedError: there are none, or as ``read``.
    """
    file = path or checkpoints.find("medusa", target)
    if file is None:
        raise AdedError(checkpoints.missing("medusa", target) or "the Medusa heads were removed; give --heads FILE")
    loaded, key = _READERS.setdefault(target, {}), (str(file), ranks)
    if key not in loaded:
        loaded[key] = HeadReader(target, *read(Path(file), target), ranks)
    return loaded[key]
