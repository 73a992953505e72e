"""What a decoder layer computes between its matrix products: each operation is one Triton kernel on a GPU, PyTorch elsewhere.

A stock layer needs some 20 small kernels for them, and a step of a small model is limited by their number. Results are rounded
to the model's dtype at the same places as in Transformers' modules.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch.nn import functional as F

from aded.engine.layers.triton_kernels import kernels_for

Activation = Literal["silu", "gelu"]
BLOCK = 1024
"""Columns of one program of ``gated_activation``."""


class Norm:
    """An RMSNorm module of Transformers, with its weight ``[width]`` and epsilon.

    Args:
        module: the module.
        offset: whether 1 is added to the weight (Gemma).
    """

    def __init__(self, module: Any, offset: bool) -> None:
        self.module, self.offset = module, offset
        self.eps = float(module.eps if hasattr(module, "eps") else module.variance_epsilon)

    @property
    def weight(self) -> torch.Tensor:
        return self.module.weight


def add_and_normalize(
    x: torch.Tensor, residual: torch.Tensor | None, inner: Norm | None, outer: Norm | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """A residual connection and the norms before and after it.

    Args:
        x: ``[n, width]``, contiguous, as are all tensors here.
        residual: ``[n, width]``, added to ``x`` after the ``inner`` norm; None: ``x`` is the sum, and there is no inner norm.
        inner, outer: norms with the same offset; None for none.

    Returns:
        The sum and its ``outer`` norm (the sum itself without one), ``[n, width]`` each.
    """
    kernels = _kernels(x)
    if kernels is None:
        total = x if residual is None else residual + (x if inner is None else _normalize(x, inner))
        return total, total if outer is None else _normalize(total, outer)
    width, norm = x.shape[1], inner or outer
    total = x if residual is None else torch.empty_like(x)
    out = total if outer is None else torch.empty_like(x)
    weights = [(x, 0.0) if part is None else (part.weight, part.eps) for part in (inner, outer)]
    block = 1 << (width - 1).bit_length()
    kernels.add_and_normalize[(len(x),)](
        x, x if residual is None else residual, weights[0][0], weights[1][0], total, out, weights[0][1], weights[1][1],
        WIDTH=width, BLOCK=block, RESIDUAL=residual is not None, INNER=inner is not None, OUTER=outer is not None,
        OFFSET=norm is not None and norm.offset, num_warps=min(16, max(1, block // 256)),
    )  # fmt: skip
    return total, out


def rotate_into_cache(
    qkv: torch.Tensor,
    rotation: tuple[torch.Tensor, torch.Tensor],
    slots: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    norms: tuple[Norm | None, Norm | None],
) -> torch.Tensor:
    """Rotary embedding of queries and keys; keys and values are written into their cache slots.

    Args:
        qkv: queries, keys and values of all heads side by side, ``[n, (heads + 2 * key_heads) * dim]``.
        rotation: cosines and sines, ``[n, dim]`` each.
        slots: int64 ``[n]``.
        keys, values: the cache, ``[1, key_heads, capacity, dim]`` each.
        norms: of each query head and of each key head, both or none.

    Returns:
        The queries, ``[1, heads, n, dim]``.
    """
    n, key_heads, dim = len(qkv), keys.shape[1], keys.shape[3]
    heads = qkv.shape[1] // dim - 2 * key_heads
    kernels = _kernels(qkv)
    if kernels is None:
        q, k, v = (part.transpose(0, 1) for part in qkv.view(n, -1, dim).split([heads, key_heads, key_heads], 1))
        q, k = (part if norm is None else _normalize(part, norm) for part, norm in zip((q, k), norms))
        keys[0].index_copy_(1, slots, _rotate(k, *rotation))
        values[0].index_copy_(1, slots, v)
        return _rotate(q, *rotation)[None]
    query = torch.empty(n, heads, dim, dtype=qkv.dtype, device=qkv.device)
    kernels.rotate_into_cache[(n, heads + 2 * key_heads)](
        qkv, *rotation, slots, query, keys, values, *(norm.weight if norm else qkv for norm in norms),
        norms[0].eps if norms[0] else 0.0, qkv.stride(0), keys.stride(1), keys.stride(2), values.stride(1), values.stride(2),
        HEADS=heads, KEY_HEADS=key_heads, HALF=dim // 2, NORM=norms[0] is not None, OFFSET=bool(norms[0] and norms[0].offset),
        num_warps=1,
    )  # fmt: skip
    return query.transpose(0, 1)[None]


def gated_activation(x: torch.Tensor, activation: Activation) -> torch.Tensor:
    """``activation(gate) * up`` for gate and up side by side, ``[n, 2 * size]``; returns ``[n, size]``."""
    n, size = len(x), x.shape[1] // 2
    kernels = _kernels(x)
    if kernels is None:
        gate, up = x.chunk(2, -1)
        return (F.silu(gate) if activation == "silu" else F.gelu(gate, approximate="tanh")) * up
    out = torch.empty(n, size, dtype=x.dtype, device=x.device)
    kernels.gated_activation[(n, -(-size // BLOCK))](x, out, SIZE=size, BLOCK=BLOCK, GELU=activation == "gelu", num_warps=4)
    return out


def _normalize(x: torch.Tensor, norm: Norm) -> torch.Tensor:
    wide = x.float()
    wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + norm.eps)
    return (wide * (1.0 + norm.weight.float())).to(x.dtype) if norm.offset else norm.weight * wide.to(x.dtype)


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


def _kernels(x: torch.Tensor) -> Any:
    return kernels_for(x, "aded.engine.layers.elementwise_triton")
