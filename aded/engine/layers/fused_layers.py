"""Decoder layers of fixed-shape steps in ten kernels: four matrix products, two of attention, four between them.

The modules of the model stay in place: in a fixed-shape step each layer runs ``_FusedLayer.forward``, in every other forward
passes its stock one. The load check compares both (see ``aded.engine.load_check``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from types import MethodType
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from aded.engine.kv_cache import KVCache
from aded.engine.layers.elementwise import Activation, Norm, add_and_normalize, gated_activation, rotate_into_cache
from aded.engine.layers.fused_linear import FusedLinear
from aded.engine.layers.tree_attention import HEAD_SIZES

FAMILIES = {"Llama": False, "Mistral": False, "Qwen2": False, "Qwen3": False, "Gemma": True, "Gemma3": True}
"""Decoder layers that are computed here, by the first part of their class's name; whether their norms add 1 to the weight."""


class FusedLayers:
    """The decoder layers of one model.

    Attributes:
        cache: the KV cache of the fixed-shape forward pass that runs, else None.
    """

    def __init__(self, layers: Iterable[Any]) -> None:
        self.cache: KVCache | None = None
        for layer in layers:
            layer.fused = _FusedLayer(layer, self)
            layer.forward = MethodType(_forward, layer)  # a method, so that it moves with the layer in a copy of the model

    @contextmanager
    def step(self, cache: KVCache) -> Iterator[None]:
        """Context of a fixed-shape forward pass on this cache."""
        self.cache = cache
        try:
            yield
        finally:
            self.cache = None


def detach(model: nn.Module) -> None:
    """Restore the stock layers of a model, in place."""
    for layer in model.modules():
        if isinstance(getattr(layer, "fused", None), _FusedLayer):
            del layer.forward, layer.fused


def _forward(layer: Any, hidden_states: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """``forward`` of a decoder layer, ``[1, n, hidden]`` to ``[1, n, hidden]``."""
    cache = layer.fused.owner.cache
    if cache is None:
        return type(layer).forward(layer, hidden_states, *args, **kwargs)
    return layer.fused.forward(hidden_states[0], kwargs["attention_mask"], kwargs["position_embeddings"], cache)[None]


class _FusedLayer:
    """One decoder layer."""

    def __init__(self, layer: Any, owner: FusedLayers) -> None:
        self.owner, self.attention, self.mlp = owner, layer.self_attn, layer.mlp
        activation = _activation_of(layer.mlp.act_fn)
        assert activation is not None, "the layer is supported"
        self.activation = activation
        norm = partial(Norm, offset=FAMILIES[_family(layer)])
        self.before_attention, self.before_mlp = norm(layer.input_layernorm), norm(layer.post_attention_layernorm)
        self.after_attention = self.after_mlp = None
        self.of_queries, self.of_keys = (
            norm(getattr(self.attention, name)) if hasattr(self.attention, name) else None for name in ("q_norm", "k_norm")
        )
        if hasattr(layer, "pre_feedforward_layernorm"):
            self.after_attention, self.before_mlp = self.before_mlp, norm(layer.pre_feedforward_layernorm)
            self.after_mlp = norm(layer.post_feedforward_layernorm)

    def forward(
        self, hidden: torch.Tensor, mask: torch.Tensor, rotation: tuple[torch.Tensor, torch.Tensor], cache: KVCache
    ) -> torch.Tensor:
        """hidden: ``[n, hidden]``; mask: additive, ``[1, 1, n, n_keys]``; rotation: cosines and sines, ``[1, n, dim]`` each."""
        _, x = add_and_normalize(hidden, None, None, self.before_attention)
        x = F.linear(self._attend(x, mask, rotation, cache), self.attention.o_proj.weight)
        hidden, x = add_and_normalize(x, hidden, self.after_attention, self.before_mlp)
        projection = self.mlp.gate_proj.fused
        x = gated_activation(F.linear(x, projection.weight, projection.bias), self.activation)
        if self.after_mlp is None:
            return hidden.addmm_(x, self.mlp.down_proj.weight.t())
        return add_and_normalize(F.linear(x, self.mlp.down_proj.weight), hidden, self.after_mlp, None)[0]

    def _attend(
        self, x: torch.Tensor, mask: torch.Tensor, rotation: tuple[torch.Tensor, torch.Tensor], cache: KVCache
    ) -> torch.Tensor:
        """Attention of ``x``, ``[n, hidden]``, before the output projection: ``[n, heads * dim]``."""
        assert cache.fixed is not None
        slots, n_keys = cache.fixed
        attention, projection = self.attention, self.attention.q_proj.fused
        qkv = F.linear(x, projection.weight, projection.bias)
        shape = (1, projection.sizes[1] // attention.head_dim, 0, attention.head_dim)
        keys, values = cache.tensors_of(attention.layer_idx, qkv.new_empty(shape))
        query = rotate_into_cache(qkv, (rotation[0][0], rotation[1][0]), slots, keys, values, (self.of_queries, self.of_keys))
        attend = ALL_ATTENTION_FUNCTIONS[attention.config._attn_implementation]
        seen, _ = attend(attention, query, keys[:, :, :n_keys], values[:, :, :n_keys], mask, scaling=attention.scaling)
        return seen.reshape(len(x), -1)


def attach(model: nn.Module, count: int) -> FusedLayers | None:
    """Compute the ``count`` decoder layers of a model here, in place; None, without a change, if one is not supported."""
    layers = [module for module in model.modules() if _family(module) in FAMILIES and _is_supported(module)]
    return FusedLayers(layers) if layers and len(layers) == count else None


def _family(module: Any) -> str:
    """``Llama`` of a ``LlamaDecoderLayer`` of Transformers; empty for all other modules."""
    kind = type(module)
    return kind.__name__.removesuffix("DecoderLayer") if kind.__module__.startswith("transformers.models.") else ""


def _is_supported(layer: Any) -> bool:
    attention, mlp = layer.self_attn, layer.mlp
    linears = (attention.o_proj, mlp.down_proj)
    return (
        isinstance(attention.q_proj, FusedLinear)
        and isinstance(mlp.gate_proj, FusedLinear)
        and all(type(linear) is nn.Linear and linear.bias is None for linear in linears)
        and attention.head_dim in HEAD_SIZES
        and attention.config._attn_implementation in ALL_ATTENTION_FUNCTIONS
        and getattr(attention, "attn_logit_softcapping", None) is None
        and _activation_of(mlp.act_fn) is not None
    )


def _activation_of(function: Any) -> Activation | None:
    """The activation function by what it computes."""
    x = torch.linspace(-4, 4, 33)
    known: dict[Activation, torch.Tensor] = {"silu": F.silu(x), "gelu": F.gelu(x, approximate="tanh")}
    return next((name for name, y in known.items() if torch.allclose(function(x), y, atol=1e-6)), None)
