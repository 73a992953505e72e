"""Prepacked linear layers: the same numbers, only where supported, and fully undone."""

import pytest
import torch
from fakes import tiny_model
from torch import nn

from aded.engine.layers import prepacked_linear


def test_prepacked_models_compute_what_stock_models_compute():
    model = tiny_model("llama")
    ids = torch.arange(3, 40)[None]
    with torch.inference_mode():
        expected = model(input_ids=ids).logits
        packed = prepacked_linear.prepack_linears(model)
        found = model(input_ids=ids).logits
    assert packed in (0, sum(type(m) is nn.Linear for m in model.modules()))
    assert torch.allclose(found, expected, atol=1e-3)
    prepacked_linear.restore_linears(model)
    assert not any("forward" in vars(m) for m in model.modules())


def test_a_row_is_bitwise_equal_for_any_number_of_rows():
    torch.manual_seed(0)
    layer = nn.Linear(1536, 576)
    if not prepacked_linear.prepack_linears(nn.Sequential(layer)):
        pytest.skip("this build of PyTorch has no prepacked linear operator")
    rows = torch.randn(1, 64, 1536)
    with torch.inference_mode():
        together = layer(rows)
        for n in (1, 2, 3, 5, 8, 17, 40):
            assert torch.equal(layer(rows[:, :n]), together[:, :n])


def test_gradients_flow_through_the_layers_own_weights():
    model = tiny_model("llama")
    prepacked_linear.prepack_linears(model)
    model(input_ids=torch.arange(3, 9)[None]).logits.sum().backward()
    assert all(m.weight.grad is not None for m in model.modules() if type(m) is nn.Linear)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_other_dtypes_stay_as_they_are(dtype):
    assert prepacked_linear.prepack_linears(tiny_model("llama", dtype=dtype)) == 0


def test_without_memory_or_the_operator_nothing_is_prepacked(monkeypatch):
    model = tiny_model("llama")
    monkeypatch.setattr(prepacked_linear, "free_bytes", lambda device: 0)
    assert prepacked_linear.prepack_linears(model) == 0
    monkeypatch.setattr(prepacked_linear, "free_bytes", lambda device: 1 << 40)

    def missing(weight):
        raise NotImplementedError

    monkeypatch.setattr(prepacked_linear, "_prepack", missing)
    assert prepacked_linear.prepack_linears(model) == 0
    assert not any("forward" in vars(m) for m in model.modules())
