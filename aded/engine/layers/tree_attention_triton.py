"""The Triton kernels of `aded.engine.layers.tree_attention`: importable where Triton is."""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["n", "seen"])
def partial(
    query, key, value, mask, sums, stats, scaling, n, seen, q_head, q_row, k_head, k_row, v_head, v_row, m_row,
    GROUP: tl.constexpr, SPLITS: tl.constexpr, BLOCK: tl.constexpr, SPLIT: tl.constexpr, INNER: tl.constexpr, DIM: tl.constexpr,
):  # fmt: skip
    """One part of the keys for one block of one head's queries: weighted values, the largest score, the sum of weights.

    A part is read ``INNER`` keys at a time, with an online softmax over them; float32 is computed as such (no tf32).
    """
    split, head = tl.program_id(0), tl.program_id(2)
    rows, dims = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, DIM)
    q = tl.load(query + head * q_head + rows[:, None] * q_row + dims[None, :], mask=rows[:, None] < n, other=0.0)
    top = tl.full([BLOCK], -1e30, tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    part = tl.zeros([BLOCK, DIM], tl.float32)
    for start in range(0, SPLIT, INNER):
        keys = split * SPLIT + start + tl.arange(0, INNER)
        k = tl.load(key + (head // GROUP) * k_head + keys[None, :] * k_row + dims[:, None], mask=keys[None, :] < seen, other=0.0)
        inside = (rows[:, None] < n) & (keys[None, :] < seen)
        bias = tl.load(mask + rows[:, None] * m_row + keys[None, :], mask=inside, other=-1e30).to(tl.float32)
        scores = tl.where(bias < -1e4, -1e30, tl.dot(q, k, input_precision="ieee") * scaling + bias)
        highest = tl.maximum(top, tl.max(scores, 1))
        weights, fade = tl.exp(scores - highest[:, None]), tl.exp(top - highest)
        v = tl.load(
            value + (head // GROUP) * v_head + keys[:, None] * v_row + dims[None, :], mask=keys[:, None] < seen, other=0.0
        )
        part = part * fade[:, None] + tl.dot(weights.to(v.dtype), v, input_precision="ieee")
        total = total * fade + tl.sum(weights, 1)
        top = highest
    places = (head * n + rows) * SPLITS + split
    tl.store(sums + places[:, None] * DIM + dims[None, :], part, mask=rows[:, None] < n)
    tl.store(stats + places * 2, top, mask=rows < n)
    tl.store(stats + places * 2 + 1, total, mask=rows < n)


@triton.jit(do_not_specialize=["n"])
def combine(sums, stats, out, n, heads, SPLITS: tl.constexpr, ROOM: tl.constexpr, DIM: tl.constexpr):
    """The parts of one query of one head, put together."""
    row, head = tl.program_id(0), tl.program_id(1)
    parts, dims = tl.arange(0, ROOM), tl.arange(0, DIM)
    places = (head * n + row) * SPLITS + parts
    top = tl.load(stats + places * 2, mask=parts < SPLITS, other=-1e38)
    weight = tl.load(stats + places * 2 + 1, mask=parts < SPLITS, other=0.0)
    scale = tl.exp(top - tl.max(top, 0))
    part = tl.load(sums + places[:, None] * DIM + dims[None, :], mask=parts[:, None] < SPLITS, other=0.0)
    total = tl.sum(part * scale[:, None], 0) / tl.sum(weight * scale, 0)
    tl.store(out + (row * heads + head) * DIM + dims, total.to(out.dtype.element_ty))
