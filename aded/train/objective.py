"""What training minimises: a loss over the whole vocabulary, computed in pieces that fit the memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import nn

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel
    from aded.train.data import Batch

PIECE = 4096
"""Rows of logits at a time."""


class Objective(Protocol):
    """What the loop trains.

    Attributes:
        trained: the module whose parameters it trains, in float32.
        ahead: how many tokens after a position it predicts.
        uniform: the loss of a uniform guess, or a bound above it.
    """

    trained: nn.Module
    ahead: int
    uniform: float

    def backward(self, batch: Batch) -> torch.Tensor:
        """Add the gradients of a batch, which is on the device, to the parameters'; the loss, a scalar on the device."""

    def evaluate(self, batches: Iterable[Batch]) -> dict[str, Any]:
        """Figures on text that was held out, as JSON values."""

    def loss(self, figures: dict[str, Any]) -> float:
        """What training minimises, of the figures of ``evaluate``."""


def last_hidden(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """A Transformers causal model's last hidden states ``[rows, length, hidden]``: what its vocabulary projection takes."""
    return model.base_model(input_ids=ids, use_cache=False).last_hidden_state


def precision(target: TargetModel) -> AbstractContextManager[Any]:
    """bfloat16 products on a GPU and where the target is in half precision itself, float32 elsewhere."""
    half = target.device.type == "cuda" or target.dtype != torch.float32
    return torch.autocast(target.device.type, torch.bfloat16, enabled=half)


def backward_in_pieces(states: torch.Tensor, loss_of: Callable[[torch.Tensor, slice], torch.Tensor]) -> torch.Tensor:
    """Backpropagate a sum over rows whose logits would not fit the memory all at once.

    Args:
        states: ``[n, hidden]``, the result of what is trained.
        loss_of: the loss of some rows (their states, which rows) as a scalar.

    Returns:
        The loss of all rows.
    """
    gradient, total = torch.empty_like(states), states.new_zeros((), dtype=torch.float32)
    for start in range(0, len(states), PIECE):
        rows = slice(start, start + PIECE)
        piece = states.detach()[rows].requires_grad_()
        loss = loss_of(piece, rows)
        loss.backward()
        assert piece.grad is not None
        gradient[rows] = piece.grad
        total += loss.detach()
    states.backward(gradient)
    return total


def ranks_of(logits: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """How many tokens each row holds more probable than the wanted one, int64 ``[n]``; logits ``[n, vocab]``, wanted ``[n]``."""
    return (logits > logits.gather(1, wanted[:, None])).sum(1)
