"""Keys and values of one decode, preallocated: a step writes its nodes behind the committed ones and keeps the accepted.

The language model stays stock: this is the cache object that Transformers hands to every attention layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin


class SlotLayer(CacheLayerMixin):
    """One layer's keys and values, ``[batch, heads, capacity, head_dim]`` each; slots from the cache's length on are scratch."""

    is_sliding = False
    is_compileable = False
    supports_early_init = False

    def __init__(self, owner: KVCache) -> None:
        super().__init__()
        self.owner = owner

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.keys = self._room(key_states)
        self.values = self._room(value_states)
        self.is_initialized = True

    def _room(self, states: torch.Tensor) -> torch.Tensor:
        batch, heads, _, dim = states.shape
        return states.new_zeros(batch, heads, self.owner.capacity, dim)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write ``n`` new positions at the scratch slots; returns committed and new ones, ``[batch, heads, length + n, dim]``."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start = self.owner.length
        end = start + key_states.shape[-2]
        assert end <= self.keys.shape[-2], "the cache was not reserved for this many tokens"
        self.keys[:, :, start:end] = key_states
        self.values[:, :, start:end] = value_states
        return self.keys[:, :, :end], self.values[:, :, :end]

    def grow(self, capacity: int) -> None:
        """Move to a larger allocation."""
        if self.is_initialized and self.keys.shape[-2] < capacity:
            used = self.owner.length
            for name in ("keys", "values"):
                old = getattr(self, name)
                new = self._room(old)
                new[:, :, :used] = old[:, :, :used]
                setattr(self, name, new)

    def keep(self, slots: torch.Tensor, start: int) -> None:
        """Move the scratch ``slots`` (absolute, ``[a]``) to ``start, start + 1, …``."""
        if self.is_initialized:
            end = start + len(slots)
            self.keys[:, :, start:end] = self.keys[:, :, slots]
            self.values[:, :, start:end] = self.values[:, :, slots]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.owner.length + query_length, 0

    def get_seq_length(self) -> int:
        return self.owner.length

    def get_max_length(self) -> int:
        return -1


class KVCache(Cache):
    """The cache of one decode.

    Attributes:
        length: committed tokens; equal to the position of the next root.
        capacity: slots allocated a layer.
    """

    def __init__(self, capacity: int) -> None:
        self.length = 0
        self.capacity = capacity
        super().__init__(layer_class_to_replicate=lambda: SlotLayer(self))

    @torch.inference_mode()
    def reserve(self, tokens: int) -> None:
        """Make room for ``tokens`` more behind the committed ones; doubles, so a long decode copies little."""
        if self.length + tokens > self.capacity:
            self.capacity = max(self.length + tokens, 2 * self.capacity)
            for layer in self.layers:
                layer.grow(self.capacity)

    @torch.inference_mode()
    def commit(self, nodes: Sequence[int]) -> None:
        """Keep the last forward's ``nodes`` (ascending indices of its tokens) and drop its others."""
        if list(nodes) != list(range(len(nodes))):
            device = next(layer.keys.device for layer in self.layers if layer.is_initialized)
            slots = torch.tensor(nodes, device=device) + self.length
            for layer in self.layers:
                layer.keep(slots if layer.keys.device == device else slots.to(layer.keys.device), self.length)
        self.length += len(nodes)

    @property
    def bytes(self) -> int:
        """Memory allocated for keys and values."""
        held = [t for layer in self.layers if layer.is_initialized for t in (layer.keys, layer.values)]
        return sum(t.numel() * t.element_size() for t in held)
