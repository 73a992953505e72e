"""A cache of the frozen target's hidden states, so that each row of the training text takes one forward pass over all epochs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from aded.engine.layers.prepacked_linear import free_bytes
from aded.train.dataset import Batch
from aded.train.objective import last_hidden

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel

MEMORY_SHARE = 0.6
"""Fraction of the device's free memory that the cache may use."""
LAST = (-1,)


class TargetStates:
    """Hidden states of some layers for a batch, cached by row if all rows fit the device's memory.

    Args:
        target: the target model, frozen.
        shape: rows and length of the training text; (0, 0) for no cache.
        layers: the layers, see ``DrafterNeeds.hidden_layers``; their states are side by side.
    """

    def __init__(self, target: TargetModel, shape: tuple[int, ...] = (0, 0), layers: Sequence[int] = LAST) -> None:
        self._model, self._dtype, self._layers, device = target.model, target.dtype, tuple(layers), target.device
        size = (*shape, len(layers) * target.config.hidden_size)
        fits = np.prod(size) * self._dtype.itemsize <= MEMORY_SHARE * free_bytes(device)
        self._cache = torch.empty(size if fits else (0,), dtype=self._dtype, device=device)
        self._cached = np.zeros(len(self._cache), dtype=bool)

    @torch.no_grad()
    def of(self, batch: Batch) -> torch.Tensor:
        """The states at the positions of a batch on the device, ``[m, layers * hidden]``."""
        rows = self._rows(batch)
        if rows is None:
            return hidden(self._model, batch.ids, self._layers).flatten(0, 1)[batch.positions]
        length = batch.ids.shape[1]
        return self._cache[rows[batch.positions // length], batch.positions % length]

    @torch.no_grad()
    def whole(self, batch: Batch) -> torch.Tensor:
        """The states of all tokens of a batch on the device, ``[rows, length, layers * hidden]``."""
        rows = self._rows(batch)
        return hidden(self._model, batch.ids, self._layers) if rows is None else self._cache[rows]

    def _rows(self, batch: Batch) -> torch.Tensor | None:
        """The batch's rows in the cache, int64 ``[rows]``, after computing the new ones; None without a cache."""
        if batch.rows is None or not len(self._cache):
            return None
        rows = torch.from_numpy(batch.rows).to(batch.ids.device)
        new = ~self._cached[batch.rows]
        if new.any():
            fresh = torch.from_numpy(np.flatnonzero(new)).to(batch.ids.device)
            self._cache[rows[fresh]] = hidden(self._model, batch.ids[fresh], self._layers).to(self._dtype)
            self._cached[batch.rows] = True
        return rows


def hidden(model: Any, ids: torch.Tensor, layers: tuple[int, ...]) -> torch.Tensor:
    """A Transformers causal model's hidden states of some layers, side by side, ``[rows, length, layers * hidden]``."""
    if layers == LAST:
        return last_hidden(model, ids)
    states = model.base_model(input_ids=ids, use_cache=False, output_hidden_states=True).hidden_states
    return torch.cat([states[layer] for layer in layers], dim=-1)
