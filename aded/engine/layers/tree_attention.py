"""Tree attention over the KV cache in two Triton kernels, for steps with few queries and many keys.

With an additive mask, the stock attention copies keys and values for every group of query heads, and uses little of the GPU
when there are few queries. Here the keys are split over the GPU's multiprocessors and the splits are combined afterwards, as
in Flash-Decoding. Grouped query heads read the same keys without a copy. Softmax and sums are computed in float32.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right
from torch.nn.attention.flex_attention import BlockMask
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from aded.engine.layers import flex_attention
from aded.engine.layers.triton_kernels import load_kernels

KERNELS = "aded.engine.layers.tree_attention_triton"
NAME = "aded_tree"
"""Name of this attention in Transformers' registry."""
MAX_QUERIES = 256
SPLIT_SIZE, SMALL_SPLIT_SIZE = 128, 64
"""Keys of one split; the smaller one if there are fewer than ``MIN_PROGRAMS`` programs, which leave much of a GPU idle."""
MIN_PROGRAMS = 100
HEAD_SIZES = (16, 32, 64, 128, 256)
BLOCK_K = {torch.bfloat16: 128, torch.float16: 128, torch.float32: 32}
"""Keys read at a time, for each supported dtype."""


def attach(model: Any) -> bool:
    """Use this attention in a Transformers model. Returns False, without a change, if the model is not supported."""
    config = model.config.get_text_config()
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    stock = getattr(config, "_attn_implementation", None) == "sdpa"
    supported = stock and head in HEAD_SIZES and model.dtype in BLOCK_K and model.device.type == "cuda"
    if not supported or load_kernels(KERNELS) is None:
        return False
    register()
    model.set_attn_implementation(NAME)
    return True


def register() -> None:
    """Register this attention with Transformers."""
    AttentionInterface.register(NAME, _layer_attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)


def detach(model: Any) -> None:
    """Restore the stock attention."""
    if model.config.get_text_config()._attn_implementation == NAME:
        model.set_attn_implementation("sdpa")


def sdpa_without_cudnn(device: torch.device) -> AbstractContextManager[Any]:
    """A context in which stock attention does not use cuDNN, for forward passes of varying shape.

    cuDNN makes a new execution plan for every shape, which takes longer than the forward pass.
    """
    if device.type != "cuda":
        return nullcontext()
    return sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])


def _layer_attention(
    module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: torch.Tensor | None, **kwargs: Any
) -> tuple[torch.Tensor, None]:
    """Called by a layer: query ``[1, heads, n, dim]`` to ``[1, n, heads, dim]``; stock attention if this one does not apply."""
    if isinstance(attention_mask, BlockMask):
        return flex_attention.attend(query, key, value, attention_mask, kwargs.get("scaling")), None
    if attention_mask is not None and not attention_mask.shape[-1]:
        return causal_attention(query, key, value, kwargs.get("scaling")), None
    if not _is_supported(query, key, value, attention_mask) or kwargs.get("position_bias") is not None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
    scaling = kwargs.get("scaling")
    return tree_attention(query, key, value, attention_mask, query.shape[-1] ** -0.5 if scaling is None else scaling), None


def _is_supported(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None) -> bool:
    """Whether this is a fixed-shape forward pass over a few tokens of one text, with an additive mask shared by all heads.

    The number of keys must be a multiple of ``SPLIT_SIZE``: every other number would need a new kernel.
    """
    if mask is None or mask.dtype != query.dtype or value.shape != key.shape or key.shape[2] % SPLIT_SIZE:
        return False
    return query.shape[0] == 1 and mask.shape[:2] == (1, 1) and query.shape[2] <= MAX_QUERIES


def causal_mask_placeholder(n: int) -> torch.Tensor:
    """An empty tensor ``[1, 1, n, 0]`` that requests causal attention of the last ``n`` tokens without a mask in memory."""
    return torch.empty(1, 1, n, 0)


def causal_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float | None) -> torch.Tensor:
    """Causal attention of the last ``n`` of ``n_keys`` tokens, without a mask in memory.

    Args:
        query: ``[1, heads, n, dim]``; key, value: ``[1, key_heads, n_keys, dim]``.

    Returns:
        ``[1, n, heads, dim]``.
    """
    key, value = (t.repeat_interleave(query.shape[1] // t.shape[1], 1) for t in (key, value))
    mask: Any = causal_lower_right(query.shape[2], key.shape[2])
    return scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scaling).transpose(1, 2)


@torch.library.custom_op("aded::tree_attention", mutates_args=())
def tree_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor, scaling: float
) -> torch.Tensor:
    """Masked attention with grouped query heads.

    Args:
        query: ``[1, heads, n, dim]``, in a dtype of ``BLOCK_K``.
        key, value: ``[1, key_heads, n_keys, dim]``; may be views of a cache.
        mask: additive, ``[1, 1, n, n_keys]``: 0 or the dtype's minimum; every query sees at least one key.
        scaling: factor of the query-key products.

    Returns:
        ``[1, n, heads, dim]`` in the query's dtype.
    """
    kernels = load_kernels(KERNELS)
    assert kernels is not None, "call attach first"
    query, key, value, mask = (t if t.stride(-1) == 1 else t.contiguous() for t in (query, key, value, mask))
    _, heads, n, dim = query.shape
    n_keys, split, block = key.shape[2], SPLIT_SIZE, 16 if n <= 16 else 32 if n <= 32 else 64
    small = heads * -(-n_keys // split) * -(-n // block) < MIN_PROGRAMS
    if small:
        split, block = SMALL_SPLIT_SIZE, min(block, 32)
    splits = -(-n_keys // split)
    sums = torch.empty(heads, n, splits, dim, dtype=torch.float32, device=query.device)
    stats = torch.empty(heads, n, splits, 2, dtype=torch.float32, device=query.device)
    out = torch.empty(1, n, heads, dim, dtype=query.dtype, device=query.device)
    strides = (*query.stride()[1:3], *key.stride()[1:3], *value.stride()[1:3], mask.stride(2))
    kernels.partial_attention[(splits, -(-n // block), heads)](
        query, key, value, mask, sums, stats, scaling, n, n_keys, *strides,
        GROUP=heads // key.shape[1], SPLITS=splits, BLOCK_Q=block, SPLIT_SIZE=split, BLOCK_K=min(split, BLOCK_K[query.dtype]),
        DIM=dim, EARLY=small, num_warps=4,
    )  # fmt: skip
    kernels.combine_splits[(n, heads)](
        sums, stats, out, n, heads, SPLITS=splits, SPLITS_PADDED=max(2, 1 << (splits - 1).bit_length()), DIM=dim, num_warps=1
    )
    return out


@tree_attention.register_fake
def _(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor, scaling: float) -> torch.Tensor:
    _, heads, n, dim = query.shape
    return query.new_empty(1, n, heads, dim)
