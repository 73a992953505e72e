"""Tree attention equals stock attention, in Triton's interpreter and on a GPU."""

import pytest
import torch
from fakes import tiny_target
from interpreter import interpret, needs_triton
from torch.nn.functional import scaled_dot_product_attention

from aded.core.tree import DraftTree
from aded.engine.layers import tree_attention

SHAPES = [(9, 3, 1, 256, 64), (9, 3, 64, 384, 64), (4, 4, 33, 384, 32), (8, 2, 128, 128, 128)]
"""Heads, key heads, queries, keys seen, head size."""


def largest_difference(heads, key_heads, n, seen, dim, device, dtype):
    """From float32 attention, for random inputs; keys and values are views of a longer cache; some splits are fully masked."""
    torch.manual_seed(n)
    key, value = (torch.randn(1, key_heads, seen + 128, dim, device=device).to(dtype)[:, :, :seen] for _ in range(2))
    query = torch.randn(1, n, heads, dim, device=device).to(dtype).transpose(1, 2)
    visible = torch.rand(n, seen, device=device) < 0.3
    visible[:, 5], visible[:, 64:120] = True, False
    mask = torch.zeros(n, seen, dtype=dtype, device=device).masked_fill(~visible, torch.finfo(dtype).min)[None, None]
    found = tree_attention.tree_attention(query, key, value, mask, 0.125)
    wide = [t.float().repeat_interleave(heads // key_heads, 1) for t in (key, value)]
    expected = scaled_dot_product_attention(query.float(), *wide, mask.float(), scale=0.125).transpose(1, 2)
    return float((found.float() - expected).abs().max())


@needs_triton
def test_tree_attention_equals_stock_attention_in_the_interpreter():
    interpret(
        "import torch, test_attention as t\n"
        "assert all(t.largest_difference(*shape, 'cpu', torch.float16) < 2e-3 for shape in t.SHAPES)\n"
        "assert all(t.largest_difference(*shape, 'cpu', torch.float32) < 1e-5 for shape in t.SHAPES)"
    )


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", list(tree_attention.BLOCK_K), ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_tree_attention_equals_stock_attention_on_a_gpu(shape, dtype):
    limits = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}
    assert largest_difference(*shape, "cuda", dtype) < limits[dtype]


def test_only_forward_passes_of_fixed_shape_are_supported():
    query, key = torch.zeros(1, 4, 8, 32, dtype=torch.bfloat16), torch.zeros(1, 2, 256, 32, dtype=torch.bfloat16)
    mask = torch.zeros(1, 1, 8, 256, dtype=torch.bfloat16)
    assert tree_attention._is_supported(query, key, key, mask)
    assert not tree_attention._is_supported(query, key, key, None)
    assert not tree_attention._is_supported(query, key, key, mask.bool())
    assert not tree_attention._is_supported(
        query.expand(3, -1, -1, -1), key.expand(3, -1, -1, -1), key.expand(3, -1, -1, -1), mask
    )
    assert not tree_attention._is_supported(query, key[:, :, :200], key[:, :, :200], mask[..., :200])


@pytest.mark.parametrize("past", [0, 7, 90])
def test_causal_attention_of_the_last_tokens_is_attention_under_a_causal_mask(past):
    torch.manual_seed(past)
    query, key, value = torch.randn(1, 6, 33, 16), *torch.randn(2, 1, 3, 33 + past, 16)
    visible = torch.ones(33, 33 + past, dtype=torch.bool).tril(past)
    wide = [t.repeat_interleave(2, 1) for t in (key, value)]
    expected = scaled_dot_product_attention(query, *wide, attn_mask=visible, scale=0.3).transpose(1, 2)
    assert torch.allclose(tree_attention.causal_attention(query, key, value, 0.3), expected, atol=1e-5)


def test_a_chunked_prefill_through_the_causal_kernel_equals_one_forward_pass(monkeypatch):
    monkeypatch.setattr("aded.engine.session.CAUSAL_CHUNK", 7)
    target, ids = tiny_target("llama"), list(range(3, 33))
    tree_attention.register()
    target.model.set_attn_implementation(tree_attention.NAME)
    target.masks.attached = True
    session, called = target.session(64), []
    inner = tree_attention.causal_attention
    monkeypatch.setattr(tree_attention, "causal_attention", lambda *given: called.append(1) or inner(*given))
    session.prefill(ids[:-1])
    found = session.forward_tree(DraftTree.root_only(ids[-1])).logits[0]
    expected = target.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1]
    assert torch.allclose(found, expected, atol=1e-4)
    assert len(called) == 4 * 2 - 2  # 2 layers; not the first chunk (no cache yet) and not the last (one token)
