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


@triton.jit
def _order(logits, WIDE: tl.constexpr):
    """Floating-point numbers as integers of the same order, int32; ``WIDE``: they are float32, not 16 bits."""
    if WIDE:
        bits = logits.to(tl.int32, bitcast=True)
        order = tl.where(bits >= 0, bits, (-2147483647 - bits) - 1)
    else:
        bits = logits.to(tl.int16, bitcast=True).to(tl.int32)
        order = tl.where(bits >= 0, bits, -32768 - bits)
    return order


@triton.jit
def _block(logits, start, VOCAB: tl.constexpr, BLOCK: tl.constexpr):
    """One block of a row of logits, -inf behind the vocabulary."""
    columns = start + tl.arange(0, BLOCK)
    return tl.load(logits + columns, mask=columns < VOCAB, other=float("-inf"))


@triton.jit
def _weights(logits, largest, temperature):
    """Probabilities relative to the largest one."""
    scores = logits.to(tl.float32)
    return tl.where(scores == float("-inf"), 0.0, tl.exp((scores - largest) / temperature))


@triton.jit
def _threshold(
    logits, largest, temperature, lowest, wanted, highest, VOCAB: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr,
    BY_MASS: tl.constexpr,
):  # fmt: skip
    """The smallest order of a logit above which fewer than ``wanted`` logits are (or less mass is); ``highest``: of the largest.

    Only logits of at least ``lowest`` count. Each pass over the row divides the range of orders by four.
    """
    low, high, ways = tl.full([], -2147483647 if WIDE else -32767, tl.int64), highest.to(tl.int64), tl.arange(0, 4)
    for _ in range(16 if WIDE else 8):
        limits = low + (high - low) * ways // 4
        above = tl.zeros([4, BLOCK], tl.float32)
        for start in range(0, VOCAB, BLOCK):
            x = _block(logits, start, VOCAB, BLOCK)
            orders = _order(x, WIDE)
            weights = _weights(x, largest, temperature) if BY_MASS else (x.to(tl.float32) > float("-inf")).to(tl.float32)
            weights = tl.where(orders >= lowest, weights, 0.0)
            above += tl.where(orders[None, :] > limits[:, None], weights[None, :], 0.0)
        enough = tl.sum(above, 1) < wanted
        high = tl.min(tl.where(enough, limits, high), 0)
        low = tl.max(tl.where(enough, low, limits + 1), 0)
    return low.to(tl.int32)


@triton.jit
def draw(
    logits, keys, values, chosen, VOCAB: tl.constexpr, TOP_K: tl.constexpr, TOP_P: tl.constexpr, MIN_P: tl.constexpr,
    BLOCK: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Draw the token of one row: of the logits that top-k, top-p and min-p keep, the smallest E / p (see `aded.sampling.rng`)."""
    row = tl.program_id(0).to(tl.int64)
    logits += row * VOCAB
    temperature = tl.load(values).to(tl.float32)
    largest = tl.full([], float("-inf"), tl.float32)
    lowest = tl.full([], -2147483647 if WIDE else -32767, tl.int32)
    highest = lowest
    for start in range(0, VOCAB, BLOCK):
        x = _block(logits, start, VOCAB, BLOCK)
        largest = tl.maximum(largest, tl.max(x.to(tl.float32), 0))
        highest = tl.maximum(highest, tl.max(_order(x, WIDE), 0))
    if TOP_K:
        count = tl.load(values + 1).to(tl.float32)
        lowest = _threshold(logits, largest, temperature, lowest, count, highest, VOCAB, BLOCK, WIDE, False)
    if TOP_P:
        masses = tl.zeros([BLOCK], tl.float32)
        for start in range(0, VOCAB, BLOCK):
            x = _block(logits, start, VOCAB, BLOCK)
            masses += tl.where(_order(x, WIDE) >= lowest, _weights(x, largest, temperature), 0.0)
        mass = tl.load(values + 2).to(tl.float32) * tl.sum(masses, 0)
        nucleus = _threshold(logits, largest, temperature, lowest, mass, highest, VOCAB, BLOCK, WIDE, True)
        lowest = tl.maximum(lowest, nucleus)
    smallest = tl.load(values + 3).to(tl.float32) if MIN_P else 0.0
    key = tl.load(keys + row).to(tl.uint64, bitcast=True)
    best, token = tl.full([], float("inf"), tl.float64), tl.zeros([], tl.int64)
    for start in range(0, VOCAB, BLOCK):
        x = _block(logits, start, VOCAB, BLOCK)
        state = key + 0x9E3779B97F4A7C15 * (start + tl.arange(0, BLOCK) + 1).to(tl.uint64)
        state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB
        state = state ^ (state >> 31)
        uniform = ((state >> 11).to(tl.float64) + 0.5) * 1.1102230246251565e-16
        scores = x.to(tl.float32)
        kept = (_order(x, WIDE) >= lowest) & (scores > float("-inf")) & (_weights(x, largest, temperature) >= smallest)
        race = -tl.log(uniform) * tl.exp(((largest - scores) / temperature).to(tl.float64))
        first, lane = tl.min(tl.where(kept, race, float("inf")), 0, return_indices=True)
        token = tl.where(first < best, start + lane, token)
        best = tl.minimum(first, best)
    tl.store(chosen + row, token.to(tl.int64))
