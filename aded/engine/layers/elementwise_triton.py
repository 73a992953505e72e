"""Triton kernels of `aded.engine.layers.elementwise`; importable only if Triton is installed.

Sums are computed in float32. Results are rounded to the model's dtype at the same places as in Transformers' modules.
"""

import triton
import triton.language as tl


@triton.jit
def _normalized(x, weight, columns, inside, eps, WIDTH: tl.constexpr, OFFSET: tl.constexpr, dtype: tl.constexpr):
    """RMSNorm of one row, float32 values that are exact in ``dtype``."""
    scale = tl.rsqrt(tl.sum(x * x, 0) / WIDTH + eps)
    w = tl.load(weight + columns, mask=inside, other=0.0).to(tl.float32)
    if OFFSET:
        y = x * scale * (1.0 + w)
    else:
        y = (x * scale).to(dtype).to(tl.float32) * w
    return y.to(dtype).to(tl.float32)


@triton.jit
def add_and_normalize(
    x, residual, inner, outer, total, out, inner_eps, outer_eps, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
    RESIDUAL: tl.constexpr, INNER: tl.constexpr, OUTER: tl.constexpr, OFFSET: tl.constexpr,
):  # fmt: skip
    """One row of ``total = residual + norm(x; inner)`` and ``out = norm(total; outer)``; each part is optional."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < WIDTH
    dtype: tl.constexpr = x.dtype.element_ty
    y = tl.load(x + row * WIDTH + columns, mask=inside, other=0.0).to(tl.float32)
    if INNER:
        y = _normalized(y, inner, columns, inside, inner_eps, WIDTH, OFFSET, dtype)
    if RESIDUAL:
        y += tl.load(residual + row * WIDTH + columns, mask=inside, other=0.0).to(tl.float32)
        y = y.to(dtype).to(tl.float32)
        tl.store(total + row * WIDTH + columns, y.to(dtype), mask=inside)
    if OUTER:
        y = _normalized(y, outer, columns, inside, outer_eps, WIDTH, OFFSET, dtype)
        tl.store(out + row * WIDTH + columns, y.to(dtype), mask=inside)


@triton.jit
def rotate_into_cache(
    qkv, cos, sin, slots, query, keys, values, query_norm, key_norm, eps, qkv_row, k_head, k_row, v_head, v_row,
    HEADS: tl.constexpr, KEY_HEADS: tl.constexpr, HALF: tl.constexpr, NORM: tl.constexpr, OFFSET: tl.constexpr,
):  # fmt: skip
    """One head of one token: normalize and rotate a query or key, and write keys and values into their cache slot."""
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    half = tl.arange(0, HALF)
    dtype: tl.constexpr = qkv.dtype.element_ty
    source = qkv + row * qkv_row + head * 2 * HALF
    slot = tl.load(slots + row)
    if head >= HEADS + KEY_HEADS:
        place = values + (head - HEADS - KEY_HEADS) * v_head + slot * v_row
        tl.store(place + half, tl.load(source + half))
        tl.store(place + HALF + half, tl.load(source + HALF + half))
    else:
        a, b = tl.load(source + half).to(tl.float32), tl.load(source + HALF + half).to(tl.float32)
        if NORM:
            scale = tl.rsqrt((tl.sum(a * a, 0) + tl.sum(b * b, 0)) / (2 * HALF) + eps)
            is_query = head < HEADS
            u = tl.load(query_norm + half, mask=is_query, other=0.0) + tl.load(key_norm + half, mask=not is_query, other=0.0)
            v = tl.load(query_norm + HALF + half, mask=is_query, other=0.0)
            v += tl.load(key_norm + HALF + half, mask=not is_query, other=0.0)
            u, v = u.to(tl.float32), v.to(tl.float32)
            if OFFSET:
                a, b = a * scale * (1.0 + u), b * scale * (1.0 + v)
            else:
                a, b = (a * scale).to(dtype).to(tl.float32) * u, (b * scale).to(dtype).to(tl.float32) * v
            a, b = a.to(dtype).to(tl.float32), b.to(dtype).to(tl.float32)
        angles = row * 2 * HALF + half
        cos_a, cos_b = tl.load(cos + angles).to(tl.float32), tl.load(cos + HALF + angles).to(tl.float32)
        sin_a, sin_b = tl.load(sin + angles).to(tl.float32), tl.load(sin + HALF + angles).to(tl.float32)
        first = (a * cos_a).to(dtype).to(tl.float32) - (b * sin_a).to(dtype).to(tl.float32)
        second = (b * cos_b).to(dtype).to(tl.float32) + (a * sin_b).to(dtype).to(tl.float32)
        if head < HEADS:
            tl.store(query + (row * HEADS + head) * 2 * HALF + half, first.to(dtype))
            tl.store(query + (row * HEADS + head) * 2 * HALF + HALF + half, second.to(dtype))
        else:
            place = keys + (head - HEADS) * k_head + slot * k_row
            tl.store(place + half, first.to(dtype))
            tl.store(place + HALF + half, second.to(dtype))


@triton.jit
def gated_activation(x, out, SIZE: tl.constexpr, BLOCK: tl.constexpr, GELU: tl.constexpr):
    """One block of ``activation(gate) * up`` of one row; gate and up are side by side in ``x``."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < SIZE
    dtype: tl.constexpr = x.dtype.element_ty
    gate = tl.load(x + row * 2 * SIZE + columns, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(x + row * 2 * SIZE + SIZE + columns, mask=inside, other=0.0).to(tl.float32)
    if GELU:  # 0.5 x (1 + tanh(z)) = x sigmoid(2 z)
        activated = gate / (1.0 + tl.exp(-1.5957691216057308 * (gate + 0.044715 * gate * gate * gate)))
    else:
        activated = gate / (1.0 + tl.exp(-gate))
    tl.store(out + row * SIZE + columns, (activated.to(dtype).to(tl.float32) * up).to(dtype), mask=inside)
