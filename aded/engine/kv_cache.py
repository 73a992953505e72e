"""Preallocated KV cache of one decode: a step appends the keys and values of all tree nodes, then keeps the accepted ones.

The language model is stock: Transformers passes this cache object to every attention layer. Slots from ``length`` on are
scratch. A forward pass has one of two kinds of shape. *Dynamic*: any number of new tokens; attention sees exactly the keys
that are held. *Fixed*: the caller sets the slots and the number of keys, so every tensor has a constant shape and address
and the forward pass can be captured in a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin


class KVCacheLayer(CacheLayerMixin):
    """Keys and values of one layer, ``[batch, heads, capacity, head_dim]`` each."""

    is_sliding = False
    is_compileable = False
    supports_early_init = False
    keys: Any
    values: Any

    def __init__(self, cache: KVCache) -> None:
        super().__init__()
        self.cache = cache
        self.is_initialized = False

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.keys, self.values = self.cache.allocate(self, key_states, value_states)
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write new keys and values into scratch slots; returns all that attention sees, ``[batch, heads, n_keys, dim]``."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        if self.cache.fixed is not None:
            slots, n_keys = self.cache.fixed
            self.keys.index_copy_(2, slots, key_states)
            self.values.index_copy_(2, slots, value_states)
            return self.keys[:, :, :n_keys], self.values[:, :, :n_keys]
        start = self.cache.length
        end = start + key_states.shape[-2]
        assert end <= self.keys.shape[-2], "the cache was not reserved for this many tokens"
        self.keys[:, :, start:end] = key_states
        self.values[:, :, start:end] = value_states
        return self.keys[:, :, :end], self.values[:, :, :end]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.cache.length + query_length, 0

    def get_seq_length(self) -> int:
        return self.cache.length

    def get_max_length(self) -> int:
        return -1


class KVCache(Cache):
    """The cache of one decode.

    Layers of the same shape share one tensor ``[layers, 2, batch, heads, capacity, head_dim]``, so compaction to the accepted
    nodes is one gather and one copy for the whole model. Layers of other shapes have separate tensors.

    Attributes:
        length: number of committed tokens; equal to the position of the next root.
        capacity: allocated slots per layer.
        fixed: in a fixed-shape forward pass, slots of the new tokens (int64 ``[n]``) and number of keys that attention sees;
            else None.
        graphs: CUDA graphs captured on the cache's tensors, by kind; cleared when the tensors are reallocated or freed.
    """

    def __init__(self, capacity: int, layers: int = 0) -> None:
        self.length = 0
        self.capacity = capacity
        self.fixed: tuple[torch.Tensor, int] | None = None
        self.graphs: dict[tuple[Any, ...], Any] = {}
        self._layer_count = layers
        self._block: torch.Tensor | None = None
        self._block_layers: list[KVCacheLayer] = []
        self._separate_layers: list[KVCacheLayer] = []
        super().__init__(layer_class_to_replicate=lambda: KVCacheLayer(self))  # type: ignore[arg-type,unused-ignore]

    def allocate(self, layer: KVCacheLayer, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Allocate the key and value tensors of a layer for states of this shape."""
        batch, heads, _, dim = keys.shape
        shape = (2, batch, heads, self.capacity, dim)
        if self._block is None and keys.shape == values.shape and self._layer_count:
            self._block = keys.new_zeros(self._layer_count, *shape)
        block, index = self._block, len(self._block_layers)
        fits = block is not None and block.shape[1:] == shape and values.shape == keys.shape and index < len(block)
        if block is not None and fits and block.device == keys.device:
            self._block_layers.append(layer)
            return block[index, 0], block[index, 1]
        self._separate_layers.append(layer)
        return keys.new_zeros(shape[1:]), values.new_zeros(*values.shape[:2], self.capacity, values.shape[3])

    def tensors_of(self, index: int, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of a layer, ``[batch, heads, capacity, dim]`` each; states: ``[batch, heads, any, dim]``."""
        while len(self.layers) <= index:
            self.layers.append(KVCacheLayer(self))
        layer: Any = self.layers[index]
        if not layer.is_initialized:
            layer.lazy_initialization(states, states)
        return layer.keys, layer.values

    @torch.inference_mode()
    def reserve(self, tokens: int) -> None:
        """Ensure capacity for ``tokens`` more tokens. Grows at least twofold, so a long decode rarely copies."""
        if self.length + tokens > self.capacity:
            self.graphs.clear()  # they use the tensors that are replaced here
            self.capacity = max(self.length + tokens, 2 * self.capacity)
            if self._block is not None:
                self._block = self._enlarged(self._block)
                for index, layer in enumerate(self._block_layers):
                    layer.keys, layer.values = self._block[index, 0], self._block[index, 1]
            for layer in self._separate_layers:
                layer.keys, layer.values = self._enlarged(layer.keys), self._enlarged(layer.values)

    @torch.inference_mode()
    def wipe(self, start: int = 0) -> None:
        """Set keys and values from slot ``start`` on to 0, because masked NaN and infinity still reach the output."""
        for tensor in self.tensors:
            tensor[..., start:, :] = 0

    @torch.inference_mode()
    def copy_from(self, other: KVCache, tokens: int) -> None:
        """Replace all committed tokens by the first ``tokens`` slots of another cache of the same model."""
        for index, layer in enumerate(other.layers):
            if len(self.layers) <= index:
                self.layers.append(KVCacheLayer(self))
            if not self.layers[index].is_initialized:
                self.layers[index].lazy_initialization(layer.keys, layer.values)
        for mine, theirs in zip(self.tensors, other.tensors):
            mine[..., :tokens, :] = theirs[..., :tokens, :]
        self.length = tokens

    def free(self) -> None:
        """Free the memory now. Cache and layers reference each other, so the garbage collector would free it later."""
        self.graphs.clear()
        self._block = self.layer_class_to_replicate = None
        for layers in (self._block_layers, self._separate_layers, self.layers):
            layers.clear()

    def _enlarged(self, old: torch.Tensor) -> torch.Tensor:
        new = old.new_zeros(*old.shape[:-2], self.capacity, old.shape[-1])
        new[..., : self.length, :] = old[..., : self.length, :]
        return new

    @contextmanager
    def fixed_shape(self, slots: torch.Tensor, n_keys: int) -> Iterator[None]:
        """Context in which forward passes write to ``slots`` (int64 ``[n]``) and attend to the first ``n_keys`` keys."""
        self.fixed = (slots, n_keys)
        try:
            yield
        finally:
            self.fixed = None

    def compact(self, nodes: Sequence[int]) -> None:
        """Compaction: keep ``nodes`` (ascending token indices) of the last forward pass and drop the rest."""
        if list(nodes) != list(range(len(nodes))):
            source = torch.tensor(nodes, device=self.device) + self.length
            target = torch.arange(self.length, self.length + len(nodes), device=self.device)
            for tensor in self.tensors:
                move(tensor, source, target)
        self.length += len(nodes)

    @property
    def device(self) -> torch.device:
        """Device of the first layer."""
        return self.layers[0].keys.device  # type: ignore[union-attr,unused-ignore]

    @property
    def bytes(self) -> int:
        """Memory allocated for keys and values, in bytes."""
        return sum(t.numel() * t.element_size() for t in self.tensors)

    @property
    def tensors(self) -> list[torch.Tensor]:
        """Keys and values of all layers, ``[..., capacity, head_dim]`` each."""
        tensors = [t for layer in self._separate_layers for t in (layer.keys, layer.values)]
        return tensors if self._block is None else [self._block, *tensors]


@torch.inference_mode()
def move(tensor: torch.Tensor, source: torch.Tensor, target: torch.Tensor) -> None:
    """Copy slots of a tensor ``[..., capacity, head_dim]``; all are read before any is written.

    Args:
        source, target: slots, int64 ``[m]`` each.
    """
    dim = tensor.dim() - 2
    tensor.index_copy_(dim, target.to(tensor.device), tensor.index_select(dim, source.to(tensor.device)))
