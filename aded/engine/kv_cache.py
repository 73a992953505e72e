"""Keys and values of one decode, preallocated: a step writes its nodes behind the committed ones and keeps the accepted.

The language model stays stock: this is the cache object that Transformers hands to every attention layer. Slots from
``length`` on are scratch. A pass runs in one of two ways: *growing*, where the number of new tokens is the pass's own and the
attention sees just what is held; or *fixed*, where slots and the number of keys seen are set from outside, so that every
tensor has one shape and one address and the pass can be captured in a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin


class SlotLayer(CacheLayerMixin):
    """One layer's keys and values, ``[batch, heads, capacity, head_dim]`` each."""

    is_sliding = False
    is_compileable = False
    supports_early_init = False
    keys: Any
    values: Any

    def __init__(self, owner: KVCache) -> None:
        super().__init__()
        self.owner = owner
        self.is_initialized = False

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.keys, self.values = self.owner.room(self, key_states, value_states)
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write ``n`` new positions at the scratch slots; returns what the attention sees, ``[batch, heads, seen, dim]``."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        if self.owner.fixed is not None:
            slots, seen = self.owner.fixed
            self.keys.index_copy_(2, slots, key_states)
            self.values.index_copy_(2, slots, value_states)
            return self.keys[:, :, :seen], self.values[:, :, :seen]
        start = self.owner.length
        end = start + key_states.shape[-2]
        assert end <= self.keys.shape[-2], "the cache was not reserved for this many tokens"
        self.keys[:, :, start:end] = key_states
        self.values[:, :, start:end] = value_states
        return self.keys[:, :, :end], self.values[:, :, :end]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.owner.length + query_length, 0

    def get_seq_length(self) -> int:
        return self.owner.length

    def get_max_length(self) -> int:
        return -1


class KVCache(Cache):
    """The cache of one decode.

    Layers of one shape lie in one block ``[layers, 2, batch, heads, capacity, head_dim]``, so that keeping the accepted
    nodes is one gather and one copy for the whole model; layers of other shapes have tensors of their own.

    Attributes:
        length: committed tokens; equal to the position of the next root.
        capacity: slots allocated a layer.
        fixed: for a pass of fixed shape, the new tokens' slots (int64 ``[n]``) and how many keys attention sees; else None.
        graphs: what was captured on the cache's tensors, by kind; emptied where the tensors move or are freed.
    """

    def __init__(self, capacity: int, layers: int = 0) -> None:
        self.length = 0
        self.capacity = capacity
        self.fixed: tuple[torch.Tensor, int] | None = None
        self.graphs: dict[tuple[Any, ...], Any] = {}
        self._expected = layers
        self._block: torch.Tensor | None = None
        self._in_block: list[SlotLayer] = []
        self._apart: list[SlotLayer] = []
        super().__init__(layer_class_to_replicate=lambda: SlotLayer(self))  # type: ignore[arg-type,unused-ignore]

    def room(self, layer: SlotLayer, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Allocate a layer's tensors for states of this shape."""
        batch, heads, _, dim = keys.shape
        shape = (2, batch, heads, self.capacity, dim)
        if self._block is None and keys.shape == values.shape and self._expected:
            self._block = keys.new_zeros(self._expected, *shape)
        block, place = self._block, len(self._in_block)
        fits = block is not None and block.shape[1:] == shape and values.shape == keys.shape and place < len(block)
        if block is not None and fits and block.device == keys.device:
            self._in_block.append(layer)
            return block[place, 0], block[place, 1]
        self._apart.append(layer)
        return keys.new_zeros(shape[1:]), values.new_zeros(*values.shape[:2], self.capacity, values.shape[3])

    @torch.inference_mode()
    def reserve(self, tokens: int) -> None:
        """Make room for ``tokens`` more behind the committed ones; doubles, so a long decode copies little."""
        if self.length + tokens > self.capacity:
            self.graphs.clear()  # they read and write the tensors that are replaced here
            self.capacity = max(self.length + tokens, 2 * self.capacity)
            if self._block is not None:
                self._block = self._grown(self._block)
                for place, layer in enumerate(self._in_block):
                    layer.keys, layer.values = self._block[place, 0], self._block[place, 1]
            for layer in self._apart:
                layer.keys, layer.values = self._grown(layer.keys), self._grown(layer.values)

    @torch.inference_mode()
    def wipe(self, start: int = 0) -> None:
        """Set keys and values from slot ``start`` on to 0: NaN and infinity, once in a slot, reach through every mask."""
        for tensor in self._tensors:
            tensor[..., start:, :] = 0

    def free(self) -> None:
        """Give the memory back at once: cache and layers hold each other, so it would wait for the garbage collector."""
        self.graphs.clear()
        self._block = self.layer_class_to_replicate = None
        for layers in (self._in_block, self._apart, self.layers):
            layers.clear()

    def _grown(self, old: torch.Tensor) -> torch.Tensor:
        new = old.new_zeros(*old.shape[:-2], self.capacity, old.shape[-1])
        new[..., : self.length, :] = old[..., : self.length, :]
        return new

    @contextmanager
    def fixed_pass(self, slots: torch.Tensor, seen: int) -> Iterator[None]:
        """Passes inside write at ``slots`` (int64 ``[n]``) and see the first ``seen`` keys."""
        self.fixed = (slots, seen)
        try:
            yield
        finally:
            self.fixed = None

    @torch.inference_mode()
    def move(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Copy what is at slots ``source`` to slots ``target``, int64 ``[m]`` each; all are read before any is written."""
        for tensor in self._tensors:
            where = tensor.dim() - 2
            tensor.index_copy_(where, target.to(tensor.device), tensor.index_select(where, source.to(tensor.device)))

    def commit(self, nodes: Sequence[int]) -> None:
        """Keep the last pass's ``nodes`` (ascending indices of its tokens) and drop its others."""
        if list(nodes) != list(range(len(nodes))):
            source = torch.tensor(nodes, device=self.device) + self.length
            self.move(source, torch.arange(self.length, self.length + len(nodes), device=self.device))
        self.length += len(nodes)

    @property
    def device(self) -> torch.device:
        """Where the first layer's tensors are."""
        return self.layers[0].keys.device  # type: ignore[union-attr,unused-ignore]

    @property
    def bytes(self) -> int:
        """Memory allocated for keys and values."""
        return sum(t.numel() * t.element_size() for t in self._tensors)

    @property
    def _tensors(self) -> list[torch.Tensor]:
        apart = [t for layer in self._apart for t in (layer.keys, layer.values)]
        return apart if self._block is None else [self._block, *apart]
