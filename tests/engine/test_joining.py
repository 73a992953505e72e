"""Fused projections compute what the projections they replace compute."""

import copy

import pytest
import torch
from fakes import tiny_model
from torch import nn

from aded.engine.layers.fused_linear import FusedLinear, fuse_projections, separate_projections


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_a_fused_model_computes_the_same_logits(family):
    model = tiny_model(family)
    ids = torch.tensor([[3, 5, 8, 2]])
    with torch.inference_mode():
        before = model(ids).logits
        assert fuse_projections(model) == 2 * model.config.num_hidden_layers
        assert torch.allclose(model(ids).logits, before, atol=1e-6)


def test_a_fused_layer_keeps_its_weights_in_one_tensor():
    model = tiny_model("llama")
    names, held = set(model.state_dict()), sum(p.numel() for p in model.parameters())
    fuse_projections(model)
    assert set(model.state_dict()) == names
    assert sum(p.numel() for p in model.parameters()) == held
    layer = model.model.layers[0].self_attn
    with torch.no_grad():
        layer.k_proj.weight.add_(1)
    assert torch.equal(layer.k_proj.fused.weight[layer.q_proj.out_features :][: layer.k_proj.out_features], layer.k_proj.weight)


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_separated_layers_of_a_copy_have_their_own_weights(family):
    model = tiny_model(family)
    ids = torch.tensor([[3, 5, 8, 2]])
    fuse_projections(model)
    twin = copy.deepcopy(model)
    separate_projections(twin)
    assert not any(isinstance(m, FusedLinear) for m in twin.modules())
    with torch.no_grad():
        before = model(ids).logits
        assert torch.allclose(twin(ids).logits, before, atol=1e-6)
        for parameter in twin.parameters():
            parameter.zero_()
        assert torch.equal(model(ids).logits, before)


def test_a_copy_in_another_precision_computes_with_its_own_weights():
    model = tiny_model("llama")
    ids = torch.tensor([[3, 5, 8, 2]])
    with torch.inference_mode():
        before = model(ids).logits
    fuse_projections(model)
    with torch.inference_mode():
        assert torch.allclose(copy.deepcopy(model).double()(ids).logits.float(), before, atol=1e-5)


def test_layers_of_a_group_with_different_inputs_each_use_their_own():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.q_proj, self.k_proj, self.v_proj = nn.Linear(4, 8), nn.Linear(4, 2), nn.Linear(4, 2)

    layer = Layer()
    a, b = torch.randn(3, 4), torch.randn(3, 4)
    expected = layer.q_proj(a), layer.k_proj(b), layer.v_proj(a)
    assert fuse_projections(layer) == 1
    assert isinstance(layer.q_proj, FusedLinear)
    for found, wanted in zip((layer.q_proj(a), layer.k_proj(b), layer.v_proj(a)), expected):
        assert torch.allclose(found, wanted, atol=1e-6)


def test_nothing_is_kept_between_forward_passes():
    model = tiny_model("llama")
    fuse_projections(model)
    with torch.inference_mode():
        model(torch.tensor([[3, 5, 8]]))
    assert model.model.layers[0].self_attn.q_proj.fused._input is None


def test_layers_of_different_kinds_are_not_fused():
    layer = nn.Module()
    layer.gate_proj, layer.up_proj = nn.Linear(4, 8), nn.Linear(4, 8, bias=False)
    assert fuse_projections(layer) == 0
