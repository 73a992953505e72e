"""Tree attention by PyTorch's FlexAttention: the mask is a function of the ancestor table, compiled once per bucket of sizes.

An alternative to the kernels of `aded.engine.layers.tree_attention`, to be compared with them.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch.nn.attention.flex_attention import BlockMask, flex_attention

BLOCK = 128
"""Queries and keys of one block of the mask."""
MAX_BUCKETS = 1024
"""Buckets that can be compiled; PyTorch's default of 8 is fewer than one decode needs."""


def block_mask(
    ancestors: torch.Tensor, depths: torch.Tensor, length: torch.Tensor, n_keys: int, window: int | None
) -> BlockMask | None:
    """The mask of a tree after ``length`` tokens, made on the device; arguments as of `aded.engine.step_kernels.tree_mask`.

    Blocks of committed tokens need no mask, blocks after the tree are skipped. None if ``n_keys`` is no multiple of ``BLOCK``.
    """
    n = len(depths)
    if n_keys % BLOCK:
        return None

    def visible(batch: torch.Tensor, head: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        node = (key - length).clamp(0, n - 1)
        seen = (key < length) | ((key < length + n) & ancestors[query, node])
        if window is None:
            return seen
        position = torch.where(key < length, key, length + depths[node])
        return seen & (position > length + depths[query] - window)

    shape = (1, 1, -(-n // BLOCK))  # of batches, heads and blocks of queries
    blocks = torch.arange(n_keys // BLOCK, device=length.device, dtype=torch.int32).expand(*shape, -1).contiguous()
    unmasked = (length // BLOCK if window is None else length * 0).int()
    used = ((length + n + BLOCK - 1) // BLOCK).int()
    return BlockMask(
        (n, n_keys),
        (used - unmasked).expand(shape).contiguous(),
        (blocks + unmasked).clamp_max(n_keys // BLOCK - 1),
        unmasked.expand(shape).contiguous(),
        blocks,
        None,
        None,
        None,
        None,
        (BLOCK, BLOCK),
        visible,
    )


def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: BlockMask, scaling: float | None) -> torch.Tensor:
    """Attention with grouped query heads; arguments and result as of `aded.engine.layers.tree_attention.tree_attention`."""
    with torch._dynamo.config.patch(recompile_limit=MAX_BUCKETS, accumulated_recompile_limit=MAX_BUCKETS):
        return _compiled()(query, key, value, block_mask=mask, scale=scaling, enable_gqa=True).transpose(1, 2)


@cache
def _compiled() -> Any:
    return torch.compile(flex_attention, dynamic=False)
