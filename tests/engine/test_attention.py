"""Tree attention equals stock attention, in Triton's interpreter and on a GPU."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fakes import WordTokenizer, tiny_model, tiny_target
from interpreter import interpret, needs_triton
from torch.nn.functional import scaled_dot_product_attention

from aded import Decoder, GenerationSettings
from aded.core.errors import AdedError
from aded.core.tree import DraftTree
from aded.engine.attention_mask import AttentionMasks
from aded.engine.layers import flex_attention, tree_attention
from aded.engine.target_model import TargetModel

SHAPES = [(9, 3, 1, 256, 64), (9, 3, 64, 384, 64), (4, 4, 33, 384, 32), (8, 2, 128, 128, 128), (16, 4, 64, 1024, 32)]
"""Heads, key heads, queries, keys seen, head size; the last one has enough programs for the larger splits."""


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


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", list(tree_attention.BLOCK_K), ids=str)
@pytest.mark.parametrize(("n", "length", "seen"), [(1, 200, 256), (16, 240, 256), (64, 100, 384), (64, 0, 256), (256, 128, 512)])
@pytest.mark.parametrize("window", [None, 60])
def test_flex_attention_equals_stock_attention_on_a_gpu(n, length, seen, window, dtype):
    """With the mask of a random tree, also of a sliding window."""
    rng = np.random.default_rng(n)
    tree = DraftTree(np.arange(n), np.array([-1, *(int(rng.integers(node)) for node in range(1, n))]))
    ancestors, depths = (torch.from_numpy(array).cuda() for array in (tree.ancestors, tree.depths.astype(np.int64)))
    at = torch.tensor(length, device="cuda")
    masks = AttentionMasks(SimpleNamespace(sliding_window=window), dtype, torch.device("cuda"))
    masks.kind = "full" if window is None else "sliding"
    additive = masks.fixed(ancestors, depths, at, torch.arange(seen, device="cuda"))
    masks.flex = True
    block = masks.fixed(ancestors, depths, at, torch.arange(seen, device="cuda"))
    query = torch.randn(1, 9, n, 64, device="cuda").to(dtype)
    key, value = (torch.randn(1, 3, seen, 64, device="cuda").to(dtype) for _ in range(2))
    wide = [t.float().repeat_interleave(3, 1) for t in (key, value)]
    expected = scaled_dot_product_attention(query.float(), *wide, additive.float(), scale=0.125).transpose(1, 2)
    found = flex_attention.attend(query, key, value, block, 0.125).float()
    assert float((found - expected).abs().max()) < {torch.float32: 5e-3, torch.float16: 5e-3, torch.bfloat16: 4e-2}[dtype]


@pytest.mark.gpu
@pytest.mark.parametrize("family", ["llama", "gemma3_sliding", "mistral_sliding"])
@pytest.mark.parametrize("attention", ["flex", "sdpa"])
@pytest.mark.parametrize("settings", [{}, {"temperature": 1.0, "seed": 3}])
def test_every_attention_writes_the_same_text_on_a_gpu(attention, family, settings):
    model = tiny_model(family, head_dim=16).cuda()
    model.set_attn_implementation("sdpa")
    texts = {}
    for kind in ("triton", attention):
        target = TargetModel(model, WordTokenizer(), attention=kind)
        assert (target.attention, target.notice) == (kind, None)
        for method in ("plain", "aded"):
            generation = GenerationSettings(max_new_tokens=60, budget=16, **settings)
            texts[kind, method] = Decoder(target, method, generation).run([5, 9, 14, 3, 20, 31]).token_ids
        tree_attention.detach(model)
    assert len(set(map(tuple, texts.values()))) == 1


def test_an_attention_that_is_unknown_or_needs_a_gpu_is_refused():
    with pytest.raises(AdedError, match="attention is 'flash'; choose one of triton, flex, sdpa"):
        TargetModel.load("default", "cpu", attention="flash")
    with pytest.raises(AdedError, match="--attention flex is compiled for a GPU; leave it out"):
        TargetModel.load("default", "cpu", attention="flex")


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
