"""Fused decoder layers compute what the stock layers compute, in fixed-shape steps only."""

import copy

import numpy as np
import pytest
import torch
from fakes import tiny_model, tiny_target
from interpreter import interpret, needs_triton
from torch import nn

from aded.core.tree import DraftTree
from aded.engine.layers import elementwise, fused_layers
from aded.engine.layers.fused_linear import fuse_projections

SUPPORTED = ["llama", "qwen2", "qwen3", "mistral_sliding", "qwen2_sliding", "gemma3_sliding"]
STOCK = ["gpt2", "phi3", "olmo2", "granite", "cohere", "smollm3", "mixtral"]
HEADS = {"head_dim": 16, "hidden_size": 64}
PROMPT = list(range(3, 23))
TREE = DraftTree(np.array([5, 6, 7, 8, 9]), np.array([-1, 0, 0, 1, 3]))


def fixed_target(family: str):
    """A target whose projections are fused, as on a GPU; its steps have fixed shapes."""
    target = tiny_target(family, **HEADS)
    target.model.set_attn_implementation("sdpa")
    fuse_projections(target.model)
    target.use_fixed_shapes()
    return target


def logits_of(target, fixed: bool) -> torch.Tensor:
    session = target.session(64)
    session.prefill(PROMPT)
    output = session.run(TREE) if fixed else session.forward_tree(TREE)
    logits = output.logits.clone()
    session.close()
    return logits


@pytest.mark.parametrize("family", SUPPORTED)
def test_a_step_of_fused_layers_equals_one_of_stock_layers(family: str):
    target = fixed_target(family)
    assert target.fused_layers is not None
    stock = logits_of(tiny_target(family, **HEADS), fixed=False)
    assert torch.allclose(logits_of(target, fixed=True), stock, atol=1e-5)
    assert torch.allclose(logits_of(target, fixed=False), stock, atol=1e-5)


@pytest.mark.parametrize("family", STOCK)
def test_layers_of_other_families_stay_as_they_are(family: str):
    target = tiny_target(family)
    target.model.set_attn_implementation("sdpa")
    fuse_projections(target.model)
    assert fused_layers.attach(target.model, int(target.config.num_hidden_layers)) is None


def test_a_model_whose_fused_layers_compute_something_else_keeps_its_stock_layers(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fused_layers, "gated_activation", lambda x, activation: x.chunk(2, -1)[1])
    target = fixed_target("llama")
    assert target.fused_layers is None
    assert target.pool is not None
    assert not any(hasattr(module, "fused") for module in target.model.model.layers)


def test_a_copied_layer_computes_with_its_own_weights():
    target = fixed_target("llama")
    twin = copy.deepcopy(target.model)
    fused_layers.detach(twin)
    with torch.inference_mode():
        before = target.model(torch.tensor([PROMPT])).logits
        twin.model.layers[0].input_layernorm.weight.zero_()
        assert torch.equal(target.model(torch.tensor([PROMPT])).logits, before)
        assert not torch.allclose(twin(torch.tensor([PROMPT])).logits, before)


def differences(device: str, dtype: torch.dtype, kernels: object = None) -> dict[str, float]:
    """Largest relative difference of each kernel from PyTorch's operations, for random inputs."""
    torch.manual_seed(0)
    found: dict[str, float] = {}
    use = elementwise._kernels

    def compare(name: str, compute) -> None:
        pairs = []
        for made in (kernels, None):
            elementwise._kernels = lambda x, made=made: made or (use(x) if made is kernels else None)
            pairs.append(compute())
        elementwise._kernels = use
        error = max(float((a.float() - b.float()).abs().max() / b.float().abs().max()) for a, b in zip(*pairs))
        found[name] = max(found.get(name, 0.0), error)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=device).to(dtype)

    for width, offset in ((576, False), (640, True), (64, False)):
        x, residual = random(5, width), random(5, width)
        norms = [elementwise.Norm(_norm_module(random(width)), offset) for _ in range(2)]
        used = ((None, norms[1]), norms, (norms[0], None))
        for arguments in ((x, None, None, norms[1]), *((x, residual, *pair) for pair in used)):
            compare("norm", lambda arguments=arguments: elementwise.add_and_normalize(*arguments))
    for heads, key_heads, dim, normed in ((9, 3, 64, False), (4, 1, 256, True), (4, 2, 16, True)):
        qkv, cos, sin = random(5, (heads + 2 * key_heads) * dim), random(5, dim), random(5, dim)
        norm = elementwise.Norm(_norm_module(random(dim)), dim == 256) if normed else None
        slots = torch.tensor([7, 8, 9, 10, 11], device=device)

        def rotate(qkv=qkv, cos=cos, sin=sin, slots=slots, norm=norm, key_heads=key_heads, dim=dim):
            cache = torch.zeros(2, 1, key_heads, 16, dim, device=device, dtype=dtype)
            query = elementwise.rotate_into_cache(qkv, (cos, sin), slots, cache[0], cache[1], (norm, norm))
            return query, cache

        compare("rotate", rotate)
    for size, activation in ((1536, "silu"), (2048, "gelu"), (40, "silu")):
        x = random(5, 2 * size)
        compare("gate", lambda x=x, activation=activation: (elementwise.gated_activation(x, activation),))
    return found


def _norm_module(weight: torch.Tensor) -> nn.Module:
    module = nn.Module()
    module.weight, module.eps = nn.Parameter(weight, requires_grad=False), 1e-5
    return module


@needs_triton
def test_the_kernels_compute_the_same_in_the_interpreter():
    interpret(
        "import torch, test_fused_layers as t\n"
        "from aded.engine.layers import elementwise_triton as kernels\n"
        "for dtype, limit in ((torch.float32, 1e-5), (torch.float16, 2e-3)):\n"
        "    found = t.differences('cpu', dtype, kernels)\n"
        "    assert max(found.values()) < limit, (dtype, found)"
    )


@pytest.mark.gpu
@pytest.mark.parametrize(("dtype", "limit"), [(torch.float32, 1e-5), (torch.float16, 2e-3), (torch.bfloat16, 1e-2)], ids=str)
def test_the_kernels_compute_the_same_on_a_gpu(dtype: torch.dtype, limit: float):
    found = differences("cuda", dtype)
    assert max(found.values()) < limit, found


@pytest.mark.gpu
@pytest.mark.parametrize("family", SUPPORTED)
def test_layers_are_fused_on_a_gpu(family: str):
    from aded.engine.target_model import TargetModel

    model = tiny_model(family, **HEADS).to("cuda", torch.bfloat16)
    model.set_attn_implementation("sdpa")
    target = TargetModel(model, None, family, family)
    assert target.fused_layers is not None, target.notice
    assert (logits_of(target, fixed=True) - logits_of(target, fixed=False)).float().abs().max() < 0.1
