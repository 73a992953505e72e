"""A cache of the frozen target's hidden states, so that each row of the training text takes one forward pass over all epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from aded.engine.layers.prepacked_linear import free_bytes
from aded.train.dataset import Batch
from aded.train.objective import last_hidden

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel

MEMORY_SHARE = 0.4
"""Fraction of the device's free memory that the cache may use."""


class TargetStates:
    """Last hidden states at a batch's positions, cached by row if all rows fit the device's memory.

    Args:
        target: the target model, frozen.
        shape: rows and length of the training text; (0, 0) for no cache.
    """

    def __init__(self, target: TargetModel, shape: tuple[int, ...] = (0, 0)) -> None:
        self._model, self._dtype, device = target.model, target.dtype, target.device
        size = (*shape, target.config.hidden_size)
        fits = np.prod(size) * self._dtype.itemsize <= MEMORY_SHARE * free_bytes(device)
        self._cache = torch.empty(size if fits else (0,), dtype=self._dtype, device=device)
        self._cached = np.zeros(len(self._cache), dtype=bool)

    @torch.no_grad()
    def of(self, batch: Batch) -> torch.Tensor:
        """The target's last hidden states at the positions of a batch on the device, ``[m, hidden]``."""
        if batch.rows is None or not len(self._cache):
            return last_hidden(self._model, batch.ids).flatten(0, 1)[batch.positions]
        rows = torch.from_numpy(batch.rows).to(batch.ids.device)
        new = ~self._cached[batch.rows]
        if new.any():
            fresh = torch.from_numpy(np.flatnonzero(new)).to(batch.ids.device)
            self._cache[rows[fresh]] = last_hidden(self._model, batch.ids[fresh]).to(self._dtype)
            self._cached[batch.rows] = True
        length = batch.ids.shape[1]
        return self._cache[rows[batch.positions // length], batch.positions % length]
