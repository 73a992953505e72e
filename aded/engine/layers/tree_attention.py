"""Attention of a draft tree over the cache, in two small Triton kernels: for steps of few queries over many keys.

The library's attention for a masked forward pass copies keys and values once for every group of query heads, and leaves most
of the GPU idle where a step has few queries. Here keys are split over the GPU's processors and the parts are put together
after (Flash-Decoding); grouped heads read the same keys with no copy. Softmax and sums are in float32.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "aded_tree"
"""Under which Transformers knows it."""
MOST_QUERIES = 256
SPLIT = 128
"""Keys of one part."""
HEAD_SIZES = (16, 32, 64, 128, 256)
INNER = {torch.bfloat16: 128, torch.float16: 128, torch.float32: 32}
"""Keys that are read at a time, by dtype: those that are supported."""


def attach(model: Any) -> bool:
    """Let the layers of a Transformers model use it; False, and nothing is changed, where it does not apply."""
    config = model.config.get_text_config()
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    stock = getattr(config, "_attn_implementation", None) == "sdpa"
    if not (stock and head in HEAD_SIZES and model.dtype in INNER and model.device.type == "cuda" and _kernels() is not None):
        return False
    register()
    model.set_attn_implementation(NAME)
    return True


def register() -> None:
    """Make it known to Transformers."""
    AttentionInterface.register(NAME, _forward)
    AttentionMaskInterface.register(NAME, sdpa_mask)


def detach(model: Any) -> None:
    """Go back to the library's own attention."""
    if model.config.get_text_config()._attn_implementation == NAME:
        model.set_attn_implementation("sdpa")


def of_any_length(device: torch.device) -> AbstractContextManager[Any]:
    """The library's attention for passes whose shape is new every time.

    On a card one of its kernels (cuDNN's) is planned anew for every shape, which takes longer than the pass; not so the others.
    """
    if device.type != "cuda":
        return nullcontext()
    return sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])


def _forward(
    module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: torch.Tensor | None, **kwargs: Any
) -> tuple[torch.Tensor, None]:
    """The function that a layer calls: query ``[1, heads, n, dim]`` to ``[1, n, heads, dim]``; other passes go the stock way."""
    if attention_mask is not None and not attention_mask.shape[-1]:
        return causal_attention(query, key, value, kwargs.get("scaling")), None
    if not _is_ours(query, key, value, attention_mask) or kwargs.get("position_bias") is not None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
    scaling = kwargs.get("scaling")
    return tree_attention(query, key, value, attention_mask, query.shape[-1] ** -0.5 if scaling is None else scaling), None


def _is_ours(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None) -> bool:
    """Whether this is a pass of fixed shape over a few tokens of one text, with an additive mask that all heads share.

    Keys come in whole parts there. Passes that grow have a new number of them every time, which would mean a new kernel.
    """
    if mask is None or mask.dtype != query.dtype or value.shape != key.shape or key.shape[2] % SPLIT:
        return False
    return query.shape[0] == 1 and mask.shape[:2] == (1, 1) and query.shape[2] <= MOST_QUERIES


def causal_mask(n: int) -> torch.Tensor:
    """What stands for the mask of the last ``n`` tokens, each of which sees all before it: nothing is in it."""
    return torch.empty(1, 1, n, 0)


def causal_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float | None) -> torch.Tensor:
    """Attention of the last ``n`` of ``seen`` tokens, by a causal kernel with no mask in memory.

    Args:
        query: ``[1, heads, n, dim]``; key, value: ``[1, key_heads, seen, dim]``.

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
    """Masked attention with grouped heads.

    Args:
        query: ``[1, heads, n, dim]``, in a dtype of ``INNER``.
        key, value: ``[1, key_heads, seen, dim]``; views of a cache.
        mask: additive, ``[1, 1, n, seen]``: 0 or the dtype's minimum; every query sees at least one key.
        scaling: of the products of query and key.

    Returns:
        ``[1, n, heads, dim]`` in the query's dtype.
    """
    kernels = _kernels()
    assert kernels is not None, "attach comes before a pass"
    partial, combine = kernels
    query, key, value, mask = (t if t.stride(-1) == 1 else t.contiguous() for t in (query, key, value, mask))
    _, heads, n, dim = query.shape
    seen, splits = key.shape[2], -(-key.shape[2] // SPLIT)
    block = 16 if n <= 16 else 32 if n <= 32 else 64
    sums = torch.empty(heads, n, splits, dim, dtype=torch.float32, device=query.device)
    stats = torch.empty(heads, n, splits, 2, dtype=torch.float32, device=query.device)
    out = torch.empty(1, n, heads, dim, dtype=query.dtype, device=query.device)
    strides = (*query.stride()[1:3], *key.stride()[1:3], *value.stride()[1:3], mask.stride(2))
    partial[(splits, -(-n // block), heads)](
        query, key, value, mask, sums, stats, scaling, n, seen, *strides,
        GROUP=heads // key.shape[1], SPLITS=splits, BLOCK=block, SPLIT=SPLIT, INNER=INNER[query.dtype], DIM=dim, num_warps=4,
    )  # fmt: skip
    combine[(n, heads)](
        sums, stats, out, n, heads, SPLITS=splits, ROOM=max(2, 1 << (splits - 1).bit_length()), DIM=dim, num_warps=1
    )
    return out


@tree_attention.register_fake
def _(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor, scaling: float) -> torch.Tensor:
    _, heads, n, dim = query.shape
    return query.new_empty(1, n, heads, dim)


def _kernels() -> tuple[Any, Any] | None:
    """The kernels, or None where there is no Triton."""
    try:
        from aded.engine.layers.tree_attention_triton import combine, partial
    except ImportError:
        return None
    return partial, combine
