"""EAGLE and Medusa heads in formats published by others, as heads that the methods here can use.

| format | tensors as its authors name them | as vLLM's ``speculators`` |
|---|---|---|
| EAGLE-3 (arXiv 2503.01840) | ``midlayer.*``, ``fc``, ``norm``, ``lm_head``, ``d2t`` | ``layers.0.*`` |
| EAGLE-1 and -2 (arXiv 2401.15077, 2406.16858) | ``layers.0.*``, ``fc`` | ``transformer.*``, ``fusion_fc`` |
| Medusa (arXiv 2401.10774) | ``0.0.linear``, ``0.1`` | ``blocks.0.layers.0``, ``lm_heads.0`` |

A head of EAGLE has one Llama layer. The files contain no accuracy by rank, which static trees need: see ``assumed_accuracy``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from aded.core.errors import AdedError, first_line, shown
from aded.core.limits import is_whole
from aded.draft_models import checkpoints, feature_heads, medusa_heads
from aded.draft_models.checkpoints import Kind
from aded.draft_models.feature_heads import DraftHead, Geometry, LoadedHead, three_layers
from aded.draft_models.foreign_folder import RMS_NORM_EPS, ForeignFolder
from aded.draft_models.medusa_heads import RANKS, MedusaHeads

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel

EAGLE_FILES = ("model.safetensors", "pytorch_model.bin")
MEDUSA_FILES = ("medusa_lm_head.safetensors", "medusa_lm_head.pt", "model.safetensors")
EAGLE_TYPES, MEDUSA_TYPES = ("eagle", "eagle3"), ("medusa",)
"""Values of ``speculators_model_type``."""
LAYERS = ("midlayer.", "layers.0.", "transformer.")
"""Starts of the names of the tensors of EAGLE's layer."""
MEDUSA_NAMES = {r"blocks\.(\d+)\.layers\.(\d+)\.": r"\1.\2.linear."}
"""Starts of the names of tensors of Medusa heads in ``speculators``, and how the authors name them."""
UNUSED = (".rotary_emb.inv_freq", "verifier_norm.weight", "verifier_lm_head.weight")
"""Ends of the names of tensors that follow from the configuration or are the target's."""
UNSUPPORTED = ("norm_before_fc", "fc_norm", "use_aux_norm", "norm_output")
"""Settings of EAGLE-3 heads with additional norms."""
EAGLE_POSITIONS = 5
"""Depth of a static tree of a head without accuracy."""
EAGLE_DECAY, MEDUSA_DECAY = 0.9, 0.7
"""Assumed accuracy of a drafted position relative to that of the one before."""


def assumed_accuracy(positions: int, decay: float, ranks: int = RANKS) -> np.ndarray:
    """Accuracy by drafted position and rank of heads that come without it, float64 ``[positions, ranks]``: assumed, not measured.

    The first rank is correct 6 times in 10 at the first position, and each further rank 0.4 times as often as the one before.
    """
    return 0.6 * decay ** np.arange(positions)[:, None] * 0.4 ** np.arange(ranks)


class Eagle3Head(DraftHead):
    """EAGLE-3 as published: unlike ``EagleHead``, it projects the features without normalising them.

    Args:
        normalized_residual: the layer's residual is the normalised state (``norm_before_residual`` of ``speculators``).
    """

    KIND = "eagle"

    def __init__(self, geometry: Geometry, tokens: torch.Tensor, epsilon: float, normalized_residual: bool) -> None:
        super().__init__(geometry, tokens, 2 * geometry.hidden, epsilon)
        self.fuse_weight = nn.Parameter(torch.zeros(geometry.hidden, len(geometry.hidden_layers) * geometry.hidden))
        self._normalized_residual = normalized_residual

    def fuse(self, features: torch.Tensor) -> torch.Tensor:
        """See ``DraftHead``."""
        return functional.linear(features, self.fuse_weight)

    def enter(self, states: torch.Tensor, embeddings: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """See ``DraftHead``; the residual is the state."""
        both = self._both(states, embeddings)
        return both[..., self.geometry.hidden :] if self._normalized_residual else states, both


class Eagle1Head(DraftHead):
    """EAGLE-1 and -2 as published: predicts the target's next last hidden state, with the target's vocabulary projection."""

    KIND = "eagle"

    def __init__(self, geometry: Geometry, tokens: torch.Tensor, epsilon: float) -> None:
        super().__init__(geometry, tokens, geometry.hidden, epsilon)
        self.join_weight = nn.Parameter(torch.zeros(geometry.hidden, 2 * geometry.hidden))
        self.join_bias = nn.Parameter(torch.zeros(geometry.hidden))
        del self.token_norm, self.state_norm, self.norm

    def fuse(self, features: torch.Tensor) -> torch.Tensor:
        """See ``DraftHead``: the features are one hidden state."""
        return features

    def enter(self, states: torch.Tensor, embeddings: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """See ``DraftHead``; the residual is the attention's input, which is not normalised."""
        joined = functional.linear(torch.cat([embeddings, states], dim=-1), self.join_weight, self.join_bias)
        return joined, joined

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """See ``DraftHead``; without a norm, because the states are like the target's after its final norm."""
        return functional.linear(states, self.vocabulary_weight)


def load_head(path: Path, target: TargetModel, kind: Kind) -> LoadedHead:
    """Read a head: a file that was trained here, or the folder of a published head of EAGLE.

    Raises:
        AdedError: as ``feature_heads.load``, or the folder is damaged, incomplete, for another model or of an unsupported kind.
    """
    if kind != "eagle" or not path.is_dir():
        return feature_heads.load(path, target, kind)
    folder = ForeignFolder(path)
    with _refusals(path, target, "eagle"):
        _check_type(folder, EAGLE_TYPES)
        if "medusa_num_heads" in folder.config:
            raise ValueError("it holds Medusa heads, which --heads takes for the method medusa")
        folder.read(EAGLE_FILES)
        layer = next((start for start in LAYERS if any(name.startswith(start) for name in folder.tensors)), None)
        if layer is None:
            raise ValueError("it holds no tensors of a head of EAGLE, such as layers.0.mlp.up_proj.weight")
        is_eagle3 = {"norm.weight", f"{layer}hidden_norm.weight"} & folder.tensors.keys()
        head, tensors = (_eagle3 if is_eagle3 else _eagle1)(folder, target, layer)
        folder.check_empty(UNUSED)
        head.load_state_dict({**tensors, "tokens": head.tokens}, assign=True)
    head = head.to(target.device, target.dtype).requires_grad_(False)
    return LoadedHead(head, assumed_accuracy(EAGLE_POSITIONS, EAGLE_DECAY, min(RANKS, len(head.tokens))))


def load_heads(path: Path, target: TargetModel) -> tuple[MedusaHeads, np.ndarray]:
    """Read Medusa heads and their accuracy by rank: a file that was trained here, or the folder of published heads.

    All heads of a folder are used: configurations may state fewer (``medusa_num_heads``).

    Raises:
        AdedError: as ``load_head``, with ``medusa_heads.load``.
    """
    if not path.is_dir():
        return medusa_heads.load(path, target)
    folder = ForeignFolder(path)
    with _refusals(path, target, "medusa"):
        _check_type(folder, MEDUSA_TYPES)
        heads, tensors = _medusa(folder, target)
        folder.check_empty(UNUSED)
        heads.load_state_dict(tensors, assign=True)
    return heads, assumed_accuracy(len(heads.weight), MEDUSA_DECAY, min(RANKS, target.vocab_size))


@contextmanager
def _refusals(path: Path, target: TargetModel, kind: Kind) -> Iterator[None]:
    """Turn ``ValueError`` into ``AdedError`` with the folder and the remedy."""
    try:
        yield
    except AdedError:
        raise
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        remedy = checkpoints.command(kind, target.spec)
        raise AdedError(f"{path} cannot be used with this model: {first_line(error)[:300]}; make one with {remedy}") from None


def _check_type(folder: ForeignFolder, types: tuple[str, ...]) -> None:
    kind = folder.config.get("speculators_model_type", types[0])
    if kind not in types:
        raise ValueError(f"its speculators_model_type is {shown(kind)}, and only {' and '.join(types)} can be read here")


def _check_size(what: str, found: int, expected: int) -> None:
    if found != expected:
        raise ValueError(f"it was made for another model, because its {what} is {found}, and this model's is {expected}")


def _eagle3(folder: ForeignFolder, target: TargetModel, layer: str) -> tuple[DraftHead, dict[str, torch.Tensor]]:
    """The head without parameters, and its parameters; ``layer``: see ``LAYERS``."""
    nested = folder.config.get("eagle_config")
    settings = {**folder.config, **(nested if isinstance(nested, dict) else {})}
    if used := [name for name in UNSUPPORTED if settings.get(name)]:
        raise ValueError(f"its {used[0]} is {shown(settings[used[0]])}, and additional norms are not supported")
    vocabulary = folder.whole("draft_vocab_size", folder.rows("lm_head.weight"))
    geometry = _geometry(folder, target, layer, _hidden_layers(folder, target), vocabulary)
    hidden = geometry.hidden
    tokens, order = _draft_vocabulary(folder, target, vocabulary)
    tensors = {
        **_layer(folder, geometry, layer, 2 * hidden),
        "token_norm": folder.take(f"{layer}input_layernorm.weight", hidden),
        "state_norm": folder.take(f"{layer}hidden_norm.weight", hidden),
        "norm": folder.take("norm.weight", hidden),
        "fuse_weight": folder.take("fc.weight", hidden, len(geometry.hidden_layers) * hidden),
        "vocabulary_weight": folder.take("lm_head.weight", vocabulary, hidden)[order],
    }
    epsilon, normalized_residual = folder.number("rms_norm_eps", RMS_NORM_EPS), bool(folder.config.get("norm_before_residual"))
    with torch.device("meta"):
        return Eagle3Head(geometry, tokens, epsilon, normalized_residual), tensors


def _eagle1(folder: ForeignFolder, target: TargetModel, layer: str) -> tuple[DraftHead, dict[str, torch.Tensor]]:
    """As ``_eagle3``; the vocabulary projection is the target's."""
    projection = target.model.get_output_embeddings()
    if projection is None or getattr(projection, "bias", None) is not None:
        raise ValueError("it shares the vocabulary projection of the model, which has none or one with a bias")
    geometry = _geometry(folder, target, layer, (-1,), target.vocab_size)
    folder.drop_copy("lm_head.weight", projection.weight)
    hidden = geometry.hidden
    join = "fusion_fc" if "fusion_fc.weight" in folder.tensors else "fc"
    bias = folder.take(f"{join}.bias", hidden) if f"{join}.bias" in folder.tensors else torch.zeros(hidden)
    tensors = {
        **_layer(folder, geometry, layer, hidden),
        "join_weight": folder.take(f"{join}.weight", hidden, 2 * hidden),
        "join_bias": bias,
        "vocabulary_weight": projection.weight.detach()[: target.vocab_size],
    }
    epsilon, tokens = folder.number("rms_norm_eps", RMS_NORM_EPS), torch.arange(target.vocab_size)
    with torch.device("meta"):
        return Eagle1Head(geometry, tokens, epsilon), tensors


def _geometry(
    folder: ForeignFolder, target: TargetModel, layer: str, hidden_layers: tuple[int, ...], vocabulary: int
) -> Geometry:
    """The sizes of a head, checked against the target's."""
    hidden, heads = folder.whole("hidden_size"), folder.whole("num_attention_heads")
    _check_size("hidden size", hidden, target.config.hidden_size)
    _check_size("vocabulary size", folder.whole("vocab_size"), target.vocab_size)
    folder.drop_copy("embed_tokens.weight", target.model.get_input_embeddings().weight)
    kv_heads, layers = folder.whole("num_key_value_heads", heads), folder.whole("num_hidden_layers", 1)
    activation = folder.config.get("hidden_act", "silu")
    if layers != 1:
        raise ValueError(f"it has {layers} layers, and only heads of one layer are supported")
    if heads % kv_heads or activation != "silu":
        raise ValueError(f"it has {heads} heads, {kv_heads} key-value heads and the activation {shown(activation)}")
    return Geometry(
        hidden=hidden,
        hidden_layers=hidden_layers,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=folder.whole("head_dim", hidden // heads),
        intermediate=folder.rows(f"{layer}mlp.gate_proj.weight"),
        vocabulary=vocabulary,
        rope_theta=folder.plain_rope_theta(),
    )


def _layer(folder: ForeignFolder, g: Geometry, layer: str, input_width: int) -> dict[str, torch.Tensor]:
    """The parameters of the layer, without the norms of its input."""

    def weight(name: str, *shape: int) -> torch.Tensor:
        return folder.take(f"{layer}{name}.weight", *shape)

    names = ("q_proj", "k_proj", "v_proj")
    return {
        "qkv_weight": torch.cat([weight(f"self_attn.{name}", width, input_width) for name, width in zip(names, g.widths)]),
        "output_weight": weight("self_attn.o_proj", g.hidden, g.widths[0]),
        "gate_up_weight": torch.cat([weight(f"mlp.{name}", g.intermediate, g.hidden) for name in ("gate_proj", "up_proj")]),
        "down_weight": weight("mlp.down_proj", g.hidden, g.intermediate),
        "mlp_norm": weight("post_attention_layernorm", g.hidden),
    }


def _hidden_layers(folder: ForeignFolder, target: TargetModel) -> tuple[int, ...]:
    """Layers whose inputs are the features: those that the configuration names, otherwise 2, n/2 and n - 3, as published."""
    count, given = int(target.config.num_hidden_layers), folder.config.get("eagle_aux_hidden_state_layer_ids")
    nested = folder.config.get("eagle_config")
    if given is None and isinstance(nested, dict) and nested.get("eagle_aux_hidden_state_layer_ids"):
        raise ValueError(
            "its eagle_config names layers, which programs count differently; name the layers whose inputs the head reads as "
            "eagle_aux_hidden_state_layer_ids beside it in config.json"
        )
    if given is None:
        low, middle, high = three_layers(count)
        if not low < middle < high:
            raise ValueError(f"it reads the inputs of layers 2, n/2 and n - 3, and this model has {count} layers")
        return low, middle, high
    if not isinstance(given, list) or not given or not all(is_whole(layer) and 0 <= layer < count for layer in given):
        raise ValueError(f"it reads the inputs of layers {shown(given)}, and this model has {count} layers, from 0")
    return tuple(given)


def _draft_vocabulary(folder: ForeignFolder, target: TargetModel, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids of the draft vocabulary, ascending, and the row of the vocabulary projection of each, int64 ``[count]``.

    ``d2t`` is the difference between the target's id and the draft's, without it both are equal; ``t2d`` tells which tokens of
    the target can be drafted.
    """
    difference, mask = folder.tensors.pop("d2t", torch.zeros(0)), folder.tensors.pop("t2d", None)
    if not difference.numel() and count == target.vocab_size:
        difference = torch.zeros(count, dtype=torch.int64)
    if difference.shape != (count,) or difference.is_floating_point() or difference.is_complex():
        raise ValueError(f"its d2t does not have {count} whole numbers, one for each token that it can draft")
    tokens, order = (torch.arange(count) + difference.long()).sort()
    if int(tokens[0]) < 0 or int(tokens[-1]) >= target.vocab_size or not bool((tokens.diff() > 0).all()):
        raise ValueError(f"its d2t does not name {count} different tokens of the {target.vocab_size} of this model")
    if mask is not None and not (mask.shape == (target.vocab_size,) and torch.equal(mask.nonzero().flatten(), tokens)):
        raise ValueError("its d2t and t2d do not name the same tokens")
    return tokens, order


def _medusa(folder: ForeignFolder, target: TargetModel) -> tuple[MedusaHeads, dict[str, torch.Tensor]]:
    """The heads without parameters, and their parameters."""
    projection, hidden = target.model.get_output_embeddings(), int(target.config.hidden_size)
    promised = folder.whole("medusa_num_heads", folder.whole("num_heads", 1))
    blocks = folder.whole("medusa_num_layers", folder.whole("num_hidden_layers", 1))
    folder.read(MEDUSA_FILES, {**MEDUSA_NAMES, r"lm_heads\.(\d+)\.": rf"\1.{blocks}."})
    if projection is None:
        raise ValueError("the model has no vocabulary projection")
    count = sum(bool(re.fullmatch(r"\d+\.0\.linear\.weight", name)) for name in folder.tensors)
    if count < promised:
        raise ValueError(f"it holds {count} Medusa heads, and its config.json promises {promised}")
    _check_size("hidden size", folder.rows("0.0.linear.weight"), hidden)
    folder.drop_copy("lm_head.weight", projection.weight)
    folder.drop_copy("embed_tokens.weight", target.model.get_input_embeddings().weight)
    places = (f"{head}.{block}.linear" for head in range(count) for block in range(blocks))
    has_bias = any(name.endswith(".linear.bias") for name in folder.tensors)
    weights, biases = [], []
    for place in places:
        weights.append(folder.take(f"{place}.weight", hidden, hidden))
        biases.append(folder.take(f"{place}.bias", hidden) if has_bias else torch.zeros(hidden))
    tensors = {
        "weight": torch.stack(weights).unflatten(0, (count, blocks)),
        "bias": torch.stack(biases).unflatten(0, (count, blocks)),
    }
    vocabulary = 0
    if f"0.{blocks}.weight" in folder.tensors:
        vocabulary = target.vocab_size
        _check_size("vocabulary size", folder.rows(f"0.{blocks}.weight"), vocabulary)
        rows = [folder.take(f"{head}.{blocks}.weight", vocabulary, hidden) for head in range(count)]
        tensors["vocabulary_weight"] = torch.stack(rows)
    with torch.device("meta"):
        return MedusaHeads(count, blocks, hidden, vocabulary), tensors
