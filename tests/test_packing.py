"""Packed linear layers: the same numbers, only where they can be had, and no trace when undone."""

import pytest
import torch
from fakes import tiny_model
from torch import nn

from aded import packing


def test_packed_models_say_what_stock_models_say():
    model = tiny_model("llama")
    ids = torch.arange(3, 40)[None]
    with torch.inference_mode():
        expected = model(input_ids=ids).logits
        packed = packing.pack_linears(model)
        found = model(input_ids=ids).logits
    assert packed in (0, sum(type(m) is nn.Linear for m in model.modules()))
    assert torch.allclose(found, expected, atol=1e-3)
    packing.unpack_linears(model)
    assert not any("forward" in vars(m) for m in model.modules())


def test_gradients_flow_through_the_layers_own_weights():
    model = tiny_model("llama")
    packing.pack_linears(model)
    model(input_ids=torch.arange(3, 9)[None]).logits.sum().backward()
    assert all(m.weight.grad is not None for m in model.modules() if type(m) is nn.Linear)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_other_dtypes_stay_as_they_are(dtype):
    assert packing.pack_linears(tiny_model("llama", dtype=dtype)) == 0


def test_without_memory_or_the_operator_nothing_is_packed(monkeypatch):
    model = tiny_model("llama")
    monkeypatch.setattr(packing, "_free_bytes", lambda: 0)
    assert packing.pack_linears(model) == 0
    monkeypatch.setattr(packing, "_free_bytes", lambda: 1 << 40)

    def missing(weight):
        raise NotImplementedError

    monkeypatch.setattr(packing, "_pack", missing)
    assert packing.pack_linears(model) == 0
    assert not any("forward" in vars(m) for m in model.modules())
