"""Triton kernels of `aded.engine.step_kernels`; importable only if Triton is installed."""

import triton
import triton.language as tl


@triton.jit
def tree_mask(
    ancestors, depths, length, out, n_keys, lowest, N: tl.constexpr, WINDOW: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """One block of the additive mask of one node: 0 for the text and the node's ancestors, ``lowest`` elsewhere."""
    row = tl.program_id(0)
    keys = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    start = tl.load(length)
    node = keys - start
    in_tree = (node >= 0) & (node < N)
    ancestor = tl.load(ancestors + row * N + node, mask=in_tree, other=0) != 0
    visible = (keys < start) | ancestor
    if WINDOW > 0:
        query = start + tl.load(depths + row)
        position = tl.where(in_tree, start + tl.load(depths + node, mask=in_tree, other=0), keys)
        visible = visible & (position > query - WINDOW)
    tl.store(out + row * n_keys + keys, tl.where(visible, 0.0, lowest).to(out.dtype.element_ty), mask=keys < n_keys)


@triton.jit
def chunk_top(logits, values, indices, stats, vocab, CHUNKS: tl.constexpr, CHUNK: tl.constexpr, K: tl.constexpr):
    """The ``K`` largest logits of one chunk of a row, its maximum, the sum of its exponentials, and whether it holds NaN."""
    row, chunk = tl.program_id(0).to(tl.int64), tl.program_id(1)
    lanes = tl.arange(0, CHUNK)
    columns = chunk * CHUNK + lanes
    x = tl.load(logits + row * vocab + columns, mask=columns < vocab, other=float("-inf")).to(tl.float32)
    is_nan = tl.max((x != x).to(tl.int32), 0)
    x = tl.where(x != x, float("-inf"), x)
    largest = tl.max(x, 0)
    place = row * CHUNKS + chunk
    tl.store(stats + place * 3, largest)
    tl.store(stats + place * 3 + 1, tl.sum(tl.where(x == float("-inf"), 0.0, tl.exp(x - largest)), 0))
    tl.store(stats + place * 3 + 2, is_nan.to(tl.float32))
    for k in tl.static_range(K):
        value, lane = tl.max(x, 0, return_indices=True)
        tl.store(values + place * K + k, value)
        tl.store(indices + place * K + k, chunk * CHUNK + lane)
        x = tl.where(lanes == lane, float("-inf"), x)


@triton.jit
def combine_top(
    values, indices, stats, finite, tokens, probabilities, CHUNKS: tl.constexpr, PADDED: tl.constexpr, K: tl.constexpr,
    CANDIDATES: tl.constexpr,
):  # fmt: skip
    """The ``K`` largest logits of a row from those of its chunks, with probabilities, and whether its maximum is finite."""
    row = tl.program_id(0).to(tl.int64)
    chunks = tl.arange(0, PADDED)
    inside, place = chunks < CHUNKS, (row * CHUNKS + chunks) * 3
    maxima = tl.load(stats + place, mask=inside, other=float("-inf"))
    sums = tl.load(stats + place + 1, mask=inside, other=0.0)
    is_nan = tl.max(tl.load(stats + place + 2, mask=inside, other=0.0), 0)
    largest = tl.max(maxima, 0)
    tl.store(finite + row, ((is_nan == 0.0) & (largest > float("-inf")) & (largest < float("inf"))).to(tl.int8))
    log_sum = largest + tl.log(tl.sum(tl.where(maxima == float("-inf"), 0.0, sums * tl.exp(maxima - largest)), 0))
    candidates = tl.arange(0, CANDIDATES)
    known = candidates < CHUNKS * K
    v = tl.load(values + row * CHUNKS * K + candidates, mask=known, other=float("-inf"))
    i = tl.load(indices + row * CHUNKS * K + candidates, mask=known, other=0)
    for k in tl.static_range(K):
        value, at = tl.max(v, 0, return_indices=True)
        tl.store(tokens + row * K + k, tl.sum(tl.where(candidates == at, i, 0), 0).to(tl.int64))
        tl.store(probabilities + row * K + k, tl.exp(value - log_sum).to(tl.float64))
        v = tl.where(candidates == at, float("-inf"), v)


@triton.jit
def accept(
    tokens, parents, depths, ancestors, count, chosen, finite, result, last, chosen_stride, N: tl.constexpr
):  # fmt: skip
    """Acceptance of all nodes: number of accepted nodes, the next token or what is not finite, and the nodes in order."""
    nodes = tl.arange(0, N)
    parent = tl.load(parents + nodes)
    wanted = tl.load(chosen + parent * chosen_stride)
    matches = ((tl.load(tokens + nodes) == wanted) & (nodes < tl.load(count))) | (nodes == 0)
    of_node = tl.load(ancestors + nodes[:, None] * N + nodes[None, :]) != 0
    mismatches = tl.sum((of_node & (matches == 0)[None, :]).to(tl.int32), 1)
    accepted = mismatches == 0
    before = tl.cumsum(accepted.to(tl.int32), 0)
    length = tl.sum(accepted.to(tl.int32), 0)
    place = tl.where(accepted, before - 1, length + nodes - before)
    tl.store(result + 2 + place, nodes.to(tl.int64))
    tail = tl.max(tl.where(accepted, nodes, 0), 0)
    bad = accepted & (tl.load(finite + nodes) == 0)
    depth = tl.min(tl.where(bad, tl.load(depths + nodes), N), 0)
    token = tl.load(chosen + tail * chosen_stride)
    tl.store(result, length.to(tl.int64))
    tl.store(result + 1, tl.where(depth < N, -1 - depth, token))
    tl.store(last, tail.to(tl.int64))


@triton.jit
def compact(cache, result, length, capacity, N: tl.constexpr, DIM: tl.constexpr, BLOCK: tl.constexpr):
    """Move the accepted nodes of one head of one layer to the slots after the text, ``BLOCK`` nodes at a time.

    In ascending order: a node's slot is never before its new one, so none is overwritten before it is read.
    """
    base = cache + tl.program_id(0).to(tl.int64) * capacity * DIM
    dims, start, accepted = tl.arange(0, DIM), tl.load(length), tl.load(result)
    for first in tl.static_range(0, N, BLOCK):
        if first < accepted:
            nodes = first + tl.arange(0, BLOCK)
            moves = nodes < accepted
            source = start + tl.load(result + 2 + nodes, mask=moves, other=0)
            states = tl.load(base + source[:, None] * DIM + dims[None, :], mask=moves[:, None], other=0.0)
            tl.debug_barrier()
            tl.store(base + (start + nodes)[:, None] * DIM + dims[None, :], states, mask=moves[:, None])
            tl.debug_barrier()
