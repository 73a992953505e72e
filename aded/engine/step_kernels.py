"""What a fixed-shape step computes beside the model: masks, most probable tokens, acceptance, compaction.

Each is one or two Triton kernels on a GPU, and PyTorch elsewhere; a test compares them.
"""

from __future__ import annotations

from typing import Any

import torch

from aded.engine.kv_cache import move
from aded.engine.layers.tree_attention import HEAD_SIZES
from aded.engine.layers.triton_kernels import kernels_for
from aded.sampling import sampler

MAX_TOP_K = 16
"""Largest top-k of the kernels."""
CHUNK = 1024
"""Logits of one program of ``top_tokens``."""
MASK_BLOCK = 256
DRAW_BLOCK = 4096
"""Logits that one program of ``draw`` reads at a time."""
MOVED = 16
"""Nodes that one program of ``compact`` moves at a time."""


def tree_mask(
    ancestors: torch.Tensor, depths: torch.Tensor, length: torch.Tensor, n_keys: int, window: int | None, dtype: torch.dtype
) -> torch.Tensor | None:
    """The additive mask of a tree after ``length`` tokens (see ``AttentionMasks.fixed``); None without kernels.

    Args:
        ancestors: bool ``[n, n]``; depths: int64 ``[n]``; length: int64 scalar.
        n_keys: number of visible cache slots.
        window: size of a sliding window, or None.

    Returns:
        ``[1, 1, n, n_keys]``.
    """
    kernels, n = _kernels(ancestors), len(depths)
    if kernels is None or n & (n - 1):
        return None
    mask = torch.empty(1, 1, n, n_keys, dtype=dtype, device=ancestors.device)
    kernels.tree_mask[(n, -(-n_keys // MASK_BLOCK))](
        ancestors.view(torch.uint8), depths, length, mask, n_keys, torch.finfo(dtype).min,
        N=n, WINDOW=window or 0, BLOCK=MASK_BLOCK, num_warps=2,
    )  # fmt: skip
    return mask


def top_tokens(logits: torch.Tensor, tokens: torch.Tensor, probabilities: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The ``k`` most probable tokens at each node, before any sampling setting.

    Args:
        logits: ``[n, vocab]``.
        tokens, probabilities: results, int64 and float64 ``[n, k]``; ``k`` may be 0.

    Returns:
        The arg max, int64 ``[n]``, and whether the largest logit is finite and none is NaN, ``[n]``.
    """
    n, vocab = logits.shape
    k = tokens.shape[1]
    kernels = _kernels(logits)
    if kernels is None or k > MAX_TOP_K or not logits.is_contiguous():
        if k:
            found = sampler.top(logits, k)
            tokens.copy_(found[0])
            probabilities.copy_(found[1])
        return logits.argmax(-1), logits.amax(-1).isfinite()
    if not k:
        k, tokens, probabilities = 1, *(torch.empty(n, 1, dtype=t.dtype, device=logits.device) for t in (tokens, probabilities))
    chunks, device = -(-vocab // CHUNK), logits.device
    values = torch.empty(n, chunks, k, dtype=torch.float32, device=device)
    indices = torch.empty(n, chunks, k, dtype=torch.int32, device=device)
    stats = torch.empty(n, chunks, 3, dtype=torch.float32, device=device)
    finite = torch.empty(n, dtype=torch.int8, device=device)
    kernels.chunk_top[(n, chunks)](logits, values, indices, stats, vocab, CHUNKS=chunks, CHUNK=CHUNK, K=k, num_warps=1)
    kernels.combine_top[(n,)](
        values, indices, stats, finite, tokens, probabilities, CHUNKS=chunks, PADDED=_power_of_two(chunks), K=k,
        CANDIDATES=_power_of_two(chunks * k), num_warps=4,
    )  # fmt: skip
    return tokens[:, 0], finite


def draw(logits: torch.Tensor, kind: sampler.SamplingOperations, values: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """Draw one token per node; arguments and result as of ``sampler.choose``, not greedy."""
    kernels = _kernels(logits)
    if kernels is None or not logits.is_contiguous():
        return sampler.choose(logits, kind, values, keys)
    n, vocab = logits.shape
    chosen = torch.empty(n, dtype=torch.int64, device=logits.device)
    kernels.draw[(n,)](
        logits, keys, values, chosen, VOCAB=vocab, TOP_K=bool(kind.max_top_k), TOP_P=kind.top_p, MIN_P=kind.min_p,
        BLOCK=DRAW_BLOCK, WIDE=logits.element_size() == 4, num_warps=16,
    )  # fmt: skip
    return chosen


def accept(inputs: Any, chosen: torch.Tensor, finite: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    """Acceptance for all nodes at once: a node is accepted if it and its ancestors equal the tokens chosen at their parents.

    Args:
        inputs: the tree on the device (see ``aded.engine.step_graph``): tokens, parents, depths, ancestors and node count.
        chosen: the token chosen at each node, int64 ``[n]``; finite: whether its logits are finite, ``[n]``.
        result: the verdict is written here, int64 ``[2 + n]``: number of accepted nodes; the bonus or correction token, or
            ``-1 - depth`` of the first accepted node whose logits are not finite; all nodes, the accepted ones first.

    Returns:
        The last accepted node, int64 ``[1]``.
    """
    n = len(chosen)
    kernels = _kernels(chosen)
    if kernels is not None and not n & (n - 1):
        last = torch.empty(1, dtype=torch.int64, device=chosen.device)
        kernels.accept[(1,)](
            inputs.tokens, inputs.parents, inputs.depths, inputs.ancestors.view(torch.uint8), inputs.count, chosen,
            finite.view(torch.int8), result, last, chosen.stride(0), N=n, num_warps=4 if n <= 64 else 16,
        )  # fmt: skip
        return last
    index = torch.arange(n, device=chosen.device)
    matches = (inputs.tokens == chosen[inputs.parents]) & (index < inputs.count) | (index == 0)
    accepted = (inputs.ancestors.float() @ (~matches).float()[:, None])[:, 0] == 0
    order = torch.argsort((~accepted).to(torch.int8), stable=True)
    result[0] = accepted.sum()
    last = order.gather(0, (result[0] - 1).clamp_min(0)[None])  # indexing with a scalar tensor would synchronise
    non_finite = inputs.depths.masked_fill(~accepted | finite.bool(), n).amin()
    result[1:2] = torch.where(non_finite < n, -1 - non_finite, chosen.gather(0, last))
    result[2 : 2 + n] = order
    return last


def compact(tensors: list[torch.Tensor], length: torch.Tensor, result: torch.Tensor, slots: torch.Tensor) -> None:
    """KV-cache compaction: move the accepted nodes to the slots after the text.

    Args:
        tensors: keys and values, ``[..., capacity, dim]`` each.
        length: number of committed tokens, int64 scalar.
        result: the verdict of ``accept``; slots: those of the nodes, int64 ``[n]``.
    """
    order = result[2 : 2 + len(slots)]
    for tensor in tensors:
        kernels, (capacity, dim) = _kernels(tensor), tensor.shape[-2:]
        if kernels is not None and dim in HEAD_SIZES and tensor.is_contiguous():
            heads = tensor.numel() // (capacity * dim)
            n = len(slots)
            kernels.compact[(heads,)](tensor, result, length, capacity, N=n, DIM=dim, BLOCK=min(n, MOVED), num_warps=2)
        else:
            move(tensor, length + order, slots)


def _power_of_two(size: int) -> int:
    return 1 << (size - 1).bit_length()


def _kernels(tensor: torch.Tensor) -> Any:
    return kernels_for(tensor, "aded.engine.step_kernels_triton")
