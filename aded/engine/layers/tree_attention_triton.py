"""Triton kernels of `aded.engine.layers.tree_attention`; importable only if Triton is installed."""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["n", "n_keys"])
def partial_attention(
    query, key, value, mask, sums, stats, scaling, n, n_keys, q_head, q_row, k_head, k_row, v_head, v_row, m_row,
    GROUP: tl.constexpr, SPLITS: tl.constexpr, BLOCK_Q: tl.constexpr, SPLIT_SIZE: tl.constexpr, BLOCK_K: tl.constexpr,
    DIM: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """Attention of one block of queries of one head over one split of the keys.

    Writes the weighted sum of values, the maximum score and the sum of weights. Reads ``BLOCK_K`` keys at a time with an online
    softmax; float32 products use full precision (no tf32). ``EARLY``: whether values are read before the scores are known, which
    is faster if there are enough registers.
    """
    split, head = tl.program_id(0), tl.program_id(2)
    rows, dims = tl.program_id(1) * BLOCK_Q + tl.arange(0, BLOCK_Q), tl.arange(0, DIM)
    q = tl.load(query + head * q_head + rows[:, None] * q_row + dims[None, :], mask=rows[:, None] < n, other=0.0)
    row_max = tl.full([BLOCK_Q], -1e30, tl.float32)
    row_sum = tl.zeros([BLOCK_Q], tl.float32)
    acc = tl.zeros([BLOCK_Q, DIM], tl.float32)
    for start in range(0, SPLIT_SIZE, BLOCK_K):
        keys = split * SPLIT_SIZE + start + tl.arange(0, BLOCK_K)
        k = tl.load(
            key + (head // GROUP) * k_head + keys[None, :] * k_row + dims[:, None], mask=keys[None, :] < n_keys, other=0.0
        )
        in_values = keys[:, None] < n_keys
        values = value + (head // GROUP) * v_head + keys[:, None] * v_row + dims[None, :]
        if EARLY:
            v = tl.load(values, mask=in_values, other=0.0)
        in_range = (rows[:, None] < n) & (keys[None, :] < n_keys)
        bias = tl.load(mask + rows[:, None] * m_row + keys[None, :], mask=in_range, other=-1e30).to(tl.float32)
        scores = tl.where(bias < -1e4, -1e30, tl.dot(q, k, input_precision="ieee") * scaling + bias)
        new_max = tl.maximum(row_max, tl.max(scores, 1))
        weights, rescale = tl.exp(scores - new_max[:, None]), tl.exp(row_max - new_max)
        if not EARLY:
            v = tl.load(values, mask=in_values, other=0.0)
        acc = acc * rescale[:, None] + tl.dot(weights.to(v.dtype), v, input_precision="ieee")
        row_sum = row_sum * rescale + tl.sum(weights, 1)
        row_max = new_max
    offsets = (head * n + rows) * SPLITS + split
    tl.store(sums + offsets[:, None] * DIM + dims[None, :], acc, mask=rows[:, None] < n)
    tl.store(stats + offsets * 2, row_max, mask=rows < n)
    tl.store(stats + offsets * 2 + 1, row_sum, mask=rows < n)


@triton.jit(do_not_specialize=["n"])
def combine_splits(sums, stats, out, n, heads, SPLITS: tl.constexpr, SPLITS_PADDED: tl.constexpr, DIM: tl.constexpr):
    """Combine the splits of one query of one head."""
    row, head = tl.program_id(0), tl.program_id(1)
    splits, dims = tl.arange(0, SPLITS_PADDED), tl.arange(0, DIM)
    offsets = (head * n + row) * SPLITS + splits
    split_max = tl.load(stats + offsets * 2, mask=splits < SPLITS, other=-1e38)
    split_sum = tl.load(stats + offsets * 2 + 1, mask=splits < SPLITS, other=0.0)
    scale = tl.exp(split_max - tl.max(split_max, 0))
    acc = tl.load(sums + offsets[:, None] * DIM + dims[None, :], mask=splits[:, None] < SPLITS, other=0.0)
    output = tl.sum(acc * scale[:, None], 0) / tl.sum(split_sum * scale, 0)
    tl.store(out + (row * heads + head) * DIM + dims, output.to(out.dtype.element_ty))
