"""Caches what heads read of the frozen target, so that each row of training text takes one forward pass and not one per epoch."""

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
"""The last hidden state only, after the final norm."""


class TargetStates:
    """The target's states at the tokens of a batch, cached by row if all rows fit the device's memory.

    The states of a token are a vector: its keys and values in the last layer (if requested), then its hidden states.

    Args:
        target: the target model, frozen.
        shape: number of rows of the training text, and their length in tokens; (0, 0) for no cache.
        layers: layers of the hidden states, see ``DrafterNeeds.hidden_layers``.
        kv_width: number of key and value elements per token, ``2 * kv_heads * head_dim``; 0: they are not requested. Only with
            ``layers`` = ``LAST``.
    """

    def __init__(
        self, target: TargetModel, shape: tuple[int, ...] = (0, 0), layers: Sequence[int] = LAST, kv_width: int = 0
    ) -> None:
        self._model, self._dtype, self._layers, device = target.model, target.dtype, tuple(layers), target.device
        self._kv = kv_width > 0
        size = (*shape, kv_width + len(layers) * target.config.hidden_size)
        fits = np.prod(size) * self._dtype.itemsize <= MEMORY_SHARE * free_bytes(device)
        self._cache = torch.empty(size if fits else (0,), dtype=self._dtype, device=device)
        self._cached = np.zeros(len(self._cache), dtype=bool)

    @torch.no_grad()
    def of(self, batch: Batch) -> torch.Tensor:
        """The states at the ``m`` positions of a batch on the device, ``[m, width]``."""
        rows = self._rows(batch)
        if rows is None:
            return self._states(batch.ids).flatten(0, 1)[batch.positions]
        length = batch.ids.shape[1]
        return self._cache[rows[batch.positions // length], batch.positions % length]

    @torch.no_grad()
    def whole(self, batch: Batch) -> torch.Tensor:
        """The states of all tokens of a batch on the device, ``[rows, length, width]``."""
        rows = self._rows(batch)
        return self._states(batch.ids) if rows is None else self._cache[rows]

    def _states(self, ids: torch.Tensor) -> torch.Tensor:
        if not self._kv:
            return hidden(self._model, ids, self._layers)
        assert self._layers == LAST, "keys and values are read together with the last hidden state only"
        result = self._model.base_model(input_ids=ids, use_cache=True)
        last = result.past_key_values.layers[-1]
        by_token = (states.transpose(1, 2).flatten(2) for states in (last.keys, last.values))
        return torch.cat([*by_token, result.last_hidden_state], dim=-1)

    def _rows(self, batch: Batch) -> torch.Tensor | None:
        """The batch's rows in the cache, int64 ``[rows]``, after computing the new ones; None without a cache."""
        if batch.rows is None or not len(self._cache):
            return None
        rows = torch.from_numpy(batch.rows).to(batch.ids.device)
        new = ~self._cached[batch.rows]
        if new.any():
            fresh = torch.from_numpy(np.flatnonzero(new)).to(batch.ids.device)
            self._cache[rows[fresh]] = self._states(batch.ids[fresh]).to(self._dtype)
            self._cached[batch.rows] = True
        return rows


def hidden(model: Any, ids: torch.Tensor, layers: tuple[int, ...]) -> torch.Tensor:
    """Hidden states of some layers of a causal model of Transformers, concatenated, ``[rows, length, layers * hidden]``.

    Args:
        ids: token ids, int64 ``[rows, length]``.
        layers: see ``DrafterNeeds.hidden_layers``.
    """
    if layers == LAST:
        return last_hidden(model, ids)
    states = model.base_model(input_ids=ids, use_cache=False, output_hidden_states=True).hidden_states
    return torch.cat([states[layer] for layer in layers], dim=-1)
