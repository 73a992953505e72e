"""The training objective: a loss over the full vocabulary, computed in chunks to limit memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import nn

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel
    from aded.train.dataset import Batch

CHUNK_ROWS = 4096
"""Rows of logits computed at a time."""


class Objective(Protocol):
    """A trainable module with its loss.

    Attributes:
        trained: the module whose parameters are trained, in float32.
        ahead: number of tokens predicted after a position.
        uniform: the loss of a uniform distribution, or an upper bound of it.
    """

    trained: nn.Module
    ahead: int
    uniform: float

    def backward(self, batch: Batch) -> torch.Tensor:
        """Accumulate the gradients of a batch on the device; returns the loss, a scalar on the device."""

    def evaluate(self, batches: Iterable[Batch]) -> dict[str, Any]:
        """Metrics on held-out text, as JSON values; ``acceptance_length`` is that of the function of this name."""

    def loss(self, figures: dict[str, Any]) -> float:
        """The training loss, from the result of ``evaluate``."""


def last_hidden(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """A Transformers causal model's last hidden states ``[rows, length, hidden]``, the input of its vocabulary projection."""
    return model.base_model(input_ids=ids, use_cache=False).last_hidden_state


def precision(target: TargetModel) -> AbstractContextManager[Any]:
    """Autocast to bfloat16 on a GPU or if the target is in half precision; otherwise float32."""
    half = target.device.type == "cuda" or target.dtype != torch.float32
    return torch.autocast(target.device.type, torch.bfloat16, enabled=half)


def backward_in_chunks(states: torch.Tensor, loss_of: Callable[[torch.Tensor, slice], torch.Tensor]) -> torch.Tensor:
    """Backpropagate a sum over rows, one chunk of rows at a time, so that the logits fit the memory.

    Args:
        states: ``[n, hidden]``, the output of the trained module.
        loss_of: the loss of a chunk, from its states and its slice of rows, as a scalar.

    Returns:
        The loss of all rows, a float32 scalar.
    """
    gradient, total = torch.empty_like(states), states.new_zeros((), dtype=torch.float32)
    for start in range(0, len(states), CHUNK_ROWS):
        rows = slice(start, start + CHUNK_ROWS)
        chunk = states.detach()[rows].requires_grad_()
        loss = loss_of(chunk, rows)
        loss.backward()
        assert chunk.grad is not None
        gradient[rows] = chunk.grad
        total += loss.detach()
    states.backward(gradient)
    return total


def ranks_of(logits: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """The rank, from 0, of token ``wanted`` in each row, int64 ``[n]``; logits ``[n, vocab]``, wanted int64 ``[n]``."""
    return (logits > logits.gather(1, wanted[:, None])).sum(1)


def acceptance_length(matches: Sequence[torch.Tensor]) -> float:
    """Simulated mean acceptance length of greedily drafted chains on a text: tokens per step, the bonus token included.

    Args:
        matches: whether the draft's most probable token after a position, and after each of the text's tokens that follow it, is
            the text's next token, bool ``[depth, m]`` each.
    """
    lengths = [chain.cumprod(0).sum(0) for chain in matches]
    positions = sum(map(len, lengths))
    return 1.0 + sum(float(length.sum()) for length in lengths) / max(positions, 1)
