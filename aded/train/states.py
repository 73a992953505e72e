"""The frozen target's states of the training text: each row goes through the target once, however many epochs there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from aded.engine.layers.prepacked_linear import free_bytes
from aded.train.data import Batch
from aded.train.objective import last_hidden

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel

MEMORY_SHARE = 0.4
"""Of the device's free memory that kept states may take."""


class TargetStates:
    """Last hidden states at a batch's positions, kept by row where the device has the memory for all rows.

    Args:
        target: frozen.
        shape: rows and length of the training text; (0, 0) to keep nothing.
    """

    def __init__(self, target: TargetModel, shape: tuple[int, ...] = (0, 0)) -> None:
        self._model, self._dtype, device = target.model, target.dtype, target.device
        wanted = (*shape, target.config.hidden_size)
        fits = np.prod(wanted) * self._dtype.itemsize <= MEMORY_SHARE * free_bytes(device)
        self._kept = torch.empty(wanted if fits else (0,), dtype=self._dtype, device=device)
        self._known = np.zeros(len(self._kept), dtype=bool)

    @torch.no_grad()
    def of(self, batch: Batch) -> torch.Tensor:
        """The target's last hidden states at a batch's positions, ``[m, hidden]``; the batch is on the device."""
        if batch.rows is None or not len(self._kept):
            return last_hidden(self._model, batch.ids).flatten(0, 1)[batch.places]
        rows = torch.from_numpy(batch.rows).to(batch.ids.device)
        new = ~self._known[batch.rows]
        if new.any():
            fresh = torch.from_numpy(np.flatnonzero(new)).to(batch.ids.device)
            self._kept[rows[fresh]] = last_hidden(self._model, batch.ids[fresh]).to(self._dtype)
            self._known[batch.rows] = True
        length = batch.ids.shape[1]
        return self._kept[rows[batch.places // length], batch.places % length]
