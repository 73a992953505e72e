"""Random draft heads in the formats of other projects, and their logits by the published definitions, for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from fakes import VOCAB
from safetensors.torch import save_file

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, MIDDLE, DRAFT = 32, 4, 2, 8, 48, 60
EPSILON, THETA = 1e-3, 500.0
LLAMA = {
    "hidden_size": HIDDEN,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "intermediate_size": MIDDLE,
    "num_hidden_layers": 1,
    "rms_norm_eps": EPSILON,
    "rope_theta": THETA,
    "vocab_size": VOCAB,
}
Tensors = dict[str, torch.Tensor]
FILES = {"eagle1": "pytorch_model.bin", "eagle3": "pytorch_model.bin", "medusa": "medusa_lm_head.pt"}
"""File of the tensors by format; the others have ``model.safetensors``."""
EAGLE = ("eagle3", "speculators-eagle3", "eagle1", "speculators-eagle")
MEDUSA = ("medusa", "medusa-shared", "speculators-medusa", "speculators-medusa-shared")


def contents(name: str) -> tuple[dict[str, Any], Tensors]:
    """The configuration and the random tensors of a head of a format."""
    return _medusa(name) if "medusa" in name else _eagle(name)


def write(folder: Path, name: str, config: Any, tensors: Tensors) -> str:
    """Write a folder of a format and return its path."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    file = folder / FILES.get(name.removesuffix("-shared"), "model.safetensors")
    if file.suffix == ".safetensors":
        save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, file)
    else:
        torch.save(tensors, file)
    return str(folder)


def _random(*shape: int, scale: float = 1.5) -> torch.Tensor:
    return scale * shape[-1] ** -0.5 * torch.randn(shape) if len(shape) > 1 else 1 + 0.3 * torch.randn(shape)


def _eagle(name: str) -> tuple[dict[str, Any], Tensors]:
    torch.manual_seed(1)
    third = name.endswith("eagle3")
    layer = {"eagle3": "midlayer.", "speculators-eagle": "transformer."}.get(name, "layers.0.")
    width, queries, keys = HIDDEN * (1 + third), HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    tensors = {
        f"{layer}self_attn.q_proj.weight": _random(queries, width),
        f"{layer}self_attn.k_proj.weight": _random(keys, width),
        f"{layer}self_attn.v_proj.weight": _random(keys, width),
        f"{layer}self_attn.o_proj.weight": _random(HIDDEN, queries),
        f"{layer}mlp.gate_proj.weight": _random(MIDDLE, HIDDEN),
        f"{layer}mlp.up_proj.weight": _random(MIDDLE, HIDDEN),
        f"{layer}mlp.down_proj.weight": _random(HIDDEN, MIDDLE),
        f"{layer}post_attention_layernorm.weight": _random(HIDDEN),
    }
    config: dict[str, Any] = dict(LLAMA)
    if third:
        tokens = torch.randperm(VOCAB)[:DRAFT].sort().values
        tensors |= {
            f"{layer}input_layernorm.weight": _random(HIDDEN),
            f"{layer}hidden_norm.weight": _random(HIDDEN),
            "norm.weight": _random(HIDDEN),
            "fc.weight": _random(HIDDEN, 3 * HIDDEN),
            "lm_head.weight": _random(DRAFT, HIDDEN),
            "d2t": tokens - torch.arange(DRAFT),
            "t2d": torch.isin(torch.arange(VOCAB), tokens),
        }
        config["draft_vocab_size"] = DRAFT
    else:
        tensors["fusion_fc.weight" if name.startswith("speculators") else "fc.weight"] = _random(HIDDEN, 2 * HIDDEN)
    if name == "eagle1":
        tensors["fc.bias"] = _random(HIDDEN)
    if name.startswith("speculators"):
        config = {"speculators_model_type": name.removeprefix("speculators-"), "transformer_layer_config": config}
    if name == "speculators-eagle3":
        config |= {"draft_vocab_size": DRAFT, "eagle_aux_hidden_state_layer_ids": [1, 3, 6], "norm_before_residual": True}
    return config, tensors


def _medusa(name: str, count: int = 3, blocks: int = 2) -> tuple[dict[str, Any], Tensors]:
    torch.manual_seed(2)
    ours = not name.startswith("speculators")
    tensors = {}
    for head in range(count):
        for block in range(blocks):
            place = f"{head}.{block}.linear" if ours else f"blocks.{head}.layers.{block}"
            tensors[f"{place}.weight"] = _random(HIDDEN, HIDDEN, scale=0.5)
            if ours:
                tensors[f"{place}.bias"] = 0.1 * _random(HIDDEN)
        if not name.endswith("shared"):
            tensors[f"{head}.{blocks}.weight" if ours else f"lm_heads.{head}.weight"] = _random(VOCAB, HIDDEN)
    if ours:  # published configurations state fewer heads than there are
        return {"medusa_num_heads": 2, "medusa_num_layers": blocks, "base_model_name_or_path": "llama"}, tensors
    return {"speculators_model_type": "medusa", "num_heads": count, "num_hidden_layers": blocks}, tensors


class Eagle:
    """A head of EAGLE by the published definition: all positions at once, without a cache.

    Args:
        name: the format; ``tensors``: of the folder.
        target: its embedding is used, and by EAGLE-1 its vocabulary projection.
    """

    def __init__(self, name: str, tensors: Tensors, target: Any) -> None:
        self.third, self.normalized_residual = name.endswith("eagle3"), name == "speculators-eagle3"
        self.layers = {"eagle3": (2, 4, 5), "speculators-eagle3": (1, 3, 6)}.get(name, (-1,))
        start = next(key for key in tensors if key.endswith("q_proj.weight")).removesuffix("self_attn.q_proj.weight")
        self.tensors = {key.removeprefix(start).removesuffix(".weight"): tensor for key, tensor in tensors.items()}
        self.embedding, self.project = target.model.get_input_embeddings(), target.model.get_output_embeddings()

    def logits(self, features: torch.Tensor, tokens: list[int]) -> torch.Tensor:
        """Logits ``[n, vocabulary]`` at all positions; those after the features read the output of the position before.

        Args:
            features: the target's, ``[m, layers * hidden]``, ``m <= n``.
            tokens: the token after each position, ``[n]``.
        """
        states = list(features @ self.tensors["fc"].T if self.third else features)
        while True:
            outputs = self._layer(torch.stack(states), self.embedding(torch.tensor(tokens[: len(states)])))
            if len(states) == len(tokens):
                break
            states.append(outputs[-1])
        if self.third:
            return _norm(outputs, self.tensors["norm"]) @ self.tensors["lm_head"].T
        return self.project(outputs)

    def _layer(self, states: torch.Tensor, embeddings: torch.Tensor) -> torch.Tensor:
        w, n = self.tensors, len(states)
        if self.third:
            normalized = _norm(states, w["hidden_norm"])
            inputs = torch.cat([_norm(embeddings, w["input_layernorm"]), normalized], 1)
            residual = normalized if self.normalized_residual else states
        else:
            fc = w.get("fc", w.get("fusion_fc"))
            assert fc is not None
            residual = inputs = torch.cat([embeddings, states], 1) @ fc.T + w.get("fc.bias", torch.zeros(HIDDEN))
        q = _rotated((inputs @ w["self_attn.q_proj"].T).view(n, HEADS, HEAD_DIM))
        k = _rotated((inputs @ w["self_attn.k_proj"].T).view(n, KV_HEADS, HEAD_DIM)).repeat_interleave(HEADS // KV_HEADS, 1)
        v = (inputs @ w["self_attn.v_proj"].T).view(n, KV_HEADS, HEAD_DIM).repeat_interleave(HEADS // KV_HEADS, 1)
        scores = torch.einsum("qhd,khd->hqk", q, k) / HEAD_DIM**0.5
        weights = scores.masked_fill(torch.ones(n, n).triu(1).bool(), -torch.inf).softmax(-1)
        attended = residual + torch.einsum("hqk,khd->qhd", weights, v).reshape(n, -1) @ w["self_attn.o_proj"].T
        normalized = _norm(attended, w["post_attention_layernorm"])
        gated = torch.nn.functional.silu(normalized @ w["mlp.gate_proj"].T) * (normalized @ w["mlp.up_proj"].T)
        return attended + gated @ w["mlp.down_proj"].T


def _norm(states: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return weight * states / (states.square().mean(-1, keepdim=True) + EPSILON).sqrt()


def _rotated(vectors: torch.Tensor) -> torch.Tensor:
    """Complex rotation of the two halves of each head, by position."""
    half = HEAD_DIM // 2
    angles = torch.arange(len(vectors))[:, None] * THETA ** (-torch.arange(half) / half)
    turned = torch.complex(vectors[..., :half], vectors[..., half:]) * torch.polar(torch.ones_like(angles), angles)[:, None]
    return torch.cat([turned.real, turned.imag], -1)


def medusa_logits(name: str, tensors: Tensors, state: torch.Tensor, target: Any) -> torch.Tensor:
    """Logits ``[heads, vocabulary]`` of Medusa heads by the published definition, from a hidden state ``[hidden]``."""
    ours, rows = not name.startswith("speculators"), []
    for head in range(3):
        x = state
        for block in range(2):
            place = f"{head}.{block}.linear" if ours else f"blocks.{head}.layers.{block}"
            x = x + torch.nn.functional.silu(tensors[f"{place}.weight"] @ x + tensors.get(f"{place}.bias", torch.zeros(HIDDEN)))
        separate = tensors.get(f"{head}.2.weight" if ours else f"lm_heads.{head}.weight")
        rows.append(target.model.get_output_embeddings()(x[None])[0] if separate is None else separate @ x)
    return torch.stack(rows)
