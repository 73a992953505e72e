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

from aded import choosing, parts
from aded.drafters.base import Outcome
from aded.errors import AdedError
from aded.graphs import Replay, host_buffer

if TYPE_CHECKING:
    from aded.model import TargetModel

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


class HeadRunner:
    """Heads on a target: hidden state in, guesses out; one CUDA graph on a card. Decodes may share it.

    Attributes:
        accuracy: how often the guess of each head and rank was right on held-out text, float64 ``[heads, ranks]``.
    """

    def __init__(self, target: TargetModel, heads: MedusaHeads, accuracy: np.ndarray) -> None:
        self._project = target.model.get_output_embeddings()
        weight = self._project.weight
        self._heads = heads.to(weight.device, weight.dtype).requires_grad_(False)
        self.accuracy = accuracy
        count, ranks = len(heads.weight), min(RANKS, target.vocab_size)
        self._state = torch.zeros(1, target.config.hidden_size, dtype=weight.dtype, device=weight.device)
        self._found = torch.zeros(2, count, ranks, dtype=torch.float64, device=weight.device)
        self._read = host_buffer(self._found)
        self._run = Replay(self._body, weight.device)

    def __call__(self, state: torch.Tensor) -> Guesses:
        """The guesses after a hidden state ``[hidden]``."""
        self._state.copy_(state[None])
        self._run()
        tokens, probabilities = self._read.numpy().copy()
        return Guesses(tokens.astype(np.int32), probabilities)

    def _body(self) -> None:
        logits = self._project(self._heads(self._state)[:, 0])
        tokens, probabilities = choosing.top(logits, self._found.shape[2])
        self._found[0].copy_(tokens)  # as floating-point numbers, which hold every token id: one copy brings all to the host
        self._found[1].copy_(probabilities)
        self._read.copy_(self._found, non_blocking=True)


_RUNNERS: WeakKeyDictionary[Any, dict[str, HeadRunner]] = WeakKeyDictionary()


def runner_for(target: TargetModel, path: str | None = None) -> HeadRunner:
    """The heads at ``path``, or the bundled ones, on a target: loaded once for all its decodes.

    Raises:
        AdedError: there are none, the file is damaged or of another model, or the model has no vocabulary projection to share.
    """
    file = path or parts.find("medusa", target)
    if file is None:
        raise AdedError(parts.missing("medusa", target) or "the Medusa heads are gone; give --heads FILE")
    kept = _RUNNERS.setdefault(target, {})
    if str(file) not in kept:
        kept[str(file)] = HeadRunner(target, *load(file, target))
    return kept[str(file)]


def load(path: str | Path, target: TargetModel) -> tuple[MedusaHeads, np.ndarray]:
    """Heads and their held-out accuracy, float64 ``[heads, ranks]``.

    Raises:
        AdedError: as ``parts.read``, or the model has no vocabulary projection to share.
    """
    part, width = parts.read(path, "medusa", target), target.config.hidden_size
    if target.model.get_output_embeddings() is None:
        raise AdedError(f"{target.label} has no vocabulary projection that heads can share; use another method")
    weight, bias, accuracy = (part.tensors.get(name) for name in ("weight", "bias", "accuracy"))
    if weight is None or bias is None or accuracy is None or not _are_heads(weight, bias, accuracy, width):
        raise AdedError(f"{path} does not hold heads of width {width}; make them with {parts.command('medusa', target.spec)}")
    heads = MedusaHeads(len(weight), weight.shape[1], width)
    heads.load_state_dict({"weight": weight.float(), "bias": bias.float()})
    return heads, accuracy.double().numpy()


def _are_heads(weight: torch.Tensor, bias: torch.Tensor, accuracy: torch.Tensor, width: int) -> bool:
    right = weight.dim() == 4 and accuracy.dim() == 2 and len(accuracy) == len(weight)
    return right and weight.shape[2:] == (width, width) and bias.shape == weight.shape[:3]


class HeadState:
    """What a drafter keeps of a decode for its heads: the hidden state that they look ahead from."""

    def __init__(self, runner: HeadRunner) -> None:
        self.runner = runner
        self._state: torch.Tensor | None = None

    @property
    def known(self) -> bool:
        return self._state is not None

    def forget(self) -> None:
        """Before the first step there is no hidden state, and no guess."""
        self._state = None

    @torch.inference_mode()
    def observe(self, outcome: Outcome) -> None:
        """Keep the state at the newest accepted node, which the new root was chosen from."""
        hidden = outcome.hidden
        if isinstance(hidden, torch.Tensor):
            self._state = hidden[int(outcome.path[-1])].clone()  # the next pass, of any decode, writes over it

    def guesses(self) -> Guesses | None:
        """Of the tokens after the root; None where no hidden state is known."""
        return None if self._state is None else self.runner(self._state)
