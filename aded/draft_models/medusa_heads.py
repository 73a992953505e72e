"""Medusa's heads (arXiv 2401.10774): guesses at the tokens to come from the target's newest hidden state alone.

Head k is a few residual blocks, x + SiLU(W x + b), whose result goes through the target's own vocabulary projection, which
is shared and not stored: four heads on a model of width 576 are 2.7 MB a block in bfloat16.
"""

from __future__ import annotations

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
"""Guesses of a head that may get into a draft, as published."""


class MedusaHeads(nn.Module):
    """All heads at once.

    A new one changes nothing: every head's state is the target's own.

    Attributes:
        weight: ``[heads, blocks, hidden, hidden]``; bias: ``[heads, blocks, hidden]``.
    """

    def __init__(self, heads: int, blocks: int, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(heads, blocks, hidden, hidden))
        self.bias = nn.Parameter(torch.zeros(heads, blocks, hidden))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """The target's last hidden states ``[n, hidden]`` to the heads' ``[heads, n, hidden]``."""
        guesses = states.expand(len(self.weight), *states.shape)
        for weight, bias in zip(self.weight.unbind(1), self.bias.unbind(1)):
            guesses = guesses + nn.functional.silu(guesses @ weight.transpose(1, 2) + bias[:, None])
        return guesses


@dataclass(frozen=True)
class Guesses:
    """What the heads say, each its likeliest tokens, best first.

    Attributes:
        tokens: int32 ``[heads, ranks]``; probabilities: float64 ``[heads, ranks]``.
    """

    tokens: np.ndarray
    probabilities: np.ndarray


class HeadReader:
    """Heads on a target, as what is read from a hidden state (see ``StateReader``). Decodes share it.

    Attributes:
        accuracy: how often the guess of each head and rank was right on held-out text, float64 ``[heads, ranks]``.
        size: numbers that it makes: token and probability of every guess.
    """

    def __init__(self, target: TargetModel, heads: MedusaHeads, accuracy: np.ndarray) -> None:
        self._project = target.model.get_output_embeddings()
        self._weight = self._project.weight
        self._heads = heads.to(self._weight.device, self._weight.dtype).requires_grad_(False)
        self.accuracy = accuracy
        self._ranks = min(RANKS, target.vocab_size)
        self.size = 2 * len(heads.weight) * self._ranks

    def body(self, state: torch.Tensor) -> torch.Tensor:
        """The guesses after a hidden state ``[1, hidden]``, as float64 ``[size]``: tokens, then probabilities."""
        logits = self._project(self._heads(state.to(self._weight))[:, 0])
        tokens, probabilities = sampler.top(logits, self._ranks)
        return torch.stack([tokens.double(), probabilities.double()]).flatten()  # float64 holds every token id

    def guesses(self, read: np.ndarray | None) -> Guesses | None:
        """What ``body`` read, with names; None where nothing was read."""
        if read is None:
            return None
        tokens, probabilities = read.reshape(2, -1, self._ranks)
        return Guesses(tokens.astype(np.int32), probabilities)


_READERS: WeakKeyDictionary[Any, dict[str, HeadReader]] = WeakKeyDictionary()


def reader_for(target: TargetModel, path: str | None = None) -> HeadReader:
    """The heads at ``path``, or the bundled ones, on a target: loaded once for all its decodes.

    Raises:
        AdedError: there are none, the file is damaged or of another model, or the model has no vocabulary projection to share.
    """
    file = path or checkpoints.find("medusa", target)
    if file is None:
        raise AdedError(checkpoints.missing("medusa", target) or "the Medusa heads are gone; give --heads FILE")
    kept = _READERS.setdefault(target, {})
    if str(file) not in kept:
        kept[str(file)] = HeadReader(target, *load(file, target))
    return kept[str(file)]


def load(path: str | Path, target: TargetModel) -> tuple[MedusaHeads, np.ndarray]:
    """Heads and their held-out accuracy, float64 ``[heads, ranks]``.

    Raises:
        AdedError: as ``parts.read``, or the model has no vocabulary projection to share.
    """
    part, width = checkpoints.read(path, "medusa", target), target.config.hidden_size
    if target.model.get_output_embeddings() is None:
        raise AdedError(f"{target.label} has no vocabulary projection that heads can share; use another method")
    weight, bias, accuracy = (part.tensors.get(name) for name in ("weight", "bias", "accuracy"))
    if weight is None or bias is None or accuracy is None or not _are_heads(weight, bias, accuracy, width):
        raise AdedError(
            f"{path} does not hold heads of width {width}; make them with {checkpoints.command('medusa', target.spec)}"
        )
    heads = MedusaHeads(len(weight), weight.shape[1], width)
    heads.load_state_dict({"weight": weight.float(), "bias": bias.float()})
    return heads, accuracy.double().numpy()


def _are_heads(weight: torch.Tensor, bias: torch.Tensor, accuracy: torch.Tensor, width: int) -> bool:
    right = weight.dim() == 4 and accuracy.dim() == 2 and len(accuracy) == len(weight)
    return right and weight.shape[2:] == (width, width) and bias.shape == weight.shape[:3]
