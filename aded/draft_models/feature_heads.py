"""Draft heads of one decoder layer over the embeddings of tokens and what the target has computed for the tokens before them.

Position ``i`` holds token ``i + 1`` and predicts token ``i + 2``. Heads of EAGLE and of multi-token prediction also hold the
target's features at token ``i``, which at a drafted position the head's output at the parent replaces. GliDe's head attends to
the target's KV cache. A separate vocabulary projection covers the tokens that are most frequent in the target's text (the draft
vocabulary).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch.nn import functional

from aded.core.errors import AdedError, first_line
from aded.draft_models import checkpoints
from aded.draft_models.checkpoints import Kind

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel

Features = Literal["three", "last", "none"]
Attention = Callable[[torch.Tensor], torch.Tensor]
"""Attends to the target's KV cache: queries ``[..., heads, head_dim]`` to ``[..., heads * head_dim]``."""
EPSILON = 1e-6
"""Of the RMS norms of heads that are trained here."""
ROPE_THETA = 10_000.0
"""Base of the rotary embedding for a target that has none."""


@dataclass(frozen=True)
class Geometry:
    """Sizes of a head.

    Attributes:
        hidden: width of the target's hidden states, and of the head's.
        hidden_layers: layers of the target whose hidden states are the features (see ``DrafterNeeds``).
        heads, kv_heads, head_dim: of its attention; ``intermediate``: width of its MLP.
        vocabulary: number of tokens that it can draft.
        rope_theta: base of its rotary embedding.
    """

    hidden: int
    hidden_layers: tuple[int, ...]
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    rope_theta: float

    @classmethod
    def like(cls, target: TargetModel, features: Features, vocabulary: int) -> Geometry:
        """A head with the sizes of one of the target's layers.

        Args:
            target: the target model.
            features: *three*: hidden states of a low, a middle and a high layer, as in EAGLE-3; *last*: the last hidden state, as
                in EAGLE-1; *none*: no features.
            vocabulary: size of the draft vocabulary.
        """
        config = target.config
        heads = int(config.num_attention_heads)
        theta = (getattr(config, "rope_parameters", None) or {}).get("rope_theta", ROPE_THETA)
        return cls(
            hidden=int(config.hidden_size),
            hidden_layers={"three": three_layers(int(config.num_hidden_layers)), "last": (-1,), "none": ()}[features],
            heads=heads,
            kv_heads=int(getattr(config, "num_key_value_heads", None) or heads),
            head_dim=int(getattr(config, "head_dim", None) or config.hidden_size // heads),
            intermediate=int(getattr(config, "intermediate_size", None) or 4 * config.hidden_size),
            vocabulary=vocabulary,
            rope_theta=float(theta),
        )

    @property
    def widths(self) -> tuple[int, int, int]:
        """Widths of all queries, keys and values of a position."""
        return self.heads * self.head_dim, self.kv_heads * self.head_dim, self.kv_heads * self.head_dim


def three_layers(layers: int) -> tuple[int, int, int]:
    """EAGLE-3's layers: the hidden states that enter layers 2, n/2 and n - 3 (from 0), for a target of ``n`` layers."""
    return min(2, layers), layers // 2, max(layers - 3, 0)


class DraftHead(nn.Module):
    """The parameters of a head, and the steps of its forward pass; subclasses combine features and embedding.

    Attributes:
        geometry: its sizes.
        tokens: target token id of each id of the draft vocabulary, int64 ``[vocabulary]``, ascending.
        epsilon: of its RMS norms.
        KIND: kind of its checkpoint.
    """

    KIND: Kind
    tokens: torch.Tensor

    def __init__(self, geometry: Geometry, tokens: torch.Tensor, input_width: int, epsilon: float = EPSILON) -> None:
        """Random parameters; ``input_width``: of the attention's input."""
        super().__init__()
        g = self.geometry = geometry
        self.epsilon = epsilon
        self.register_buffer("tokens", tokens.long())
        self.token_norm, self.state_norm, self.mlp_norm, self.norm = (_ones(g.hidden) for _ in range(4))
        self.qkv_weight = _matrix(sum(g.widths), input_width)
        self.output_weight = _zeros(g.hidden, g.widths[0])
        self.gate_up_weight = _matrix(2 * g.intermediate, g.hidden)
        self.down_weight = _zeros(g.hidden, g.intermediate)
        self.vocabulary_weight = _matrix(g.vocabulary, g.hidden)

    def fuse(self, features: torch.Tensor) -> torch.Tensor:
        """The target's features ``[..., layers * hidden]`` as one state ``[..., hidden]``."""
        raise NotImplementedError

    def enter(self, states: torch.Tensor, embeddings: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The layer's residual ``[..., hidden]`` and the attention's input ``[..., input_width]``.

        Args:
            states: fused features, or the head's output at the parent, ``[..., hidden]``.
            embeddings: of the tokens, ``[..., hidden]``.
        """
        raise NotImplementedError

    def _both(self, states: torch.Tensor, embeddings: torch.Tensor) -> torch.Tensor:
        """Embedding and state, each normalised, side by side: ``[..., 2 * hidden]``."""
        return torch.cat([self._rms_norm(embeddings) * self.token_norm, self._rms_norm(states) * self.state_norm], dim=-1)

    def queries(self, inputs: torch.Tensor) -> torch.Tensor:
        """``[..., heads, head_dim]``, without rotary embedding."""
        weight = self.qkv_weight[: self.geometry.widths[0]]
        return functional.linear(inputs, weight).unflatten(-1, (self.geometry.heads, self.geometry.head_dim))

    def keys_values(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys, without rotary embedding, and values, ``[..., kv_heads, head_dim]`` each."""
        both = functional.linear(inputs, self.qkv_weight[self.geometry.widths[0] :])
        keys, values = both.chunk(2, dim=-1)
        shape = (self.geometry.kv_heads, self.geometry.head_dim)
        return keys.unflatten(-1, shape), values.unflatten(-1, shape)

    def angles(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and sines of the rotary embedding at positions int64 ``[...]``, float32 ``[..., 1, head_dim // 2]`` each."""
        half = self.geometry.head_dim // 2
        exponents = torch.arange(half, device=positions.device, dtype=torch.float32) / half
        angles = positions[..., None, None].float() * self.geometry.rope_theta**-exponents
        return angles.cos(), angles.sin()

    def rotate(self, vectors: torch.Tensor, angles: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """Apply the rotary embedding to ``[..., heads, head_dim]``; ``angles``: of the vectors' positions."""
        half = self.geometry.head_dim // 2
        first, second = vectors[..., :half], vectors[..., half : 2 * half]
        cos, sin = (values.to(vectors) for values in angles)
        rotated = (first * cos - second * sin, second * cos + first * sin, vectors[..., 2 * half :])
        return torch.cat(rotated, dim=-1)

    def attend(
        self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, hidden: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Attention with a mask.

        Args:
            queries: with rotary embedding, ``[heads, n, head_dim]``.
            keys, values: keys with rotary embedding, ``[kv_heads, slots, head_dim]`` each.
            hidden: which slots a query does not see, bool ``[n, slots]``.

        Returns:
            ``[n, heads * head_dim]``, and the weights, float32 ``[heads, n, slots]``.
        """
        g, (n, slots) = self.geometry, hidden.shape
        grouped = queries.reshape(g.kv_heads, -1, g.head_dim)  # query heads of one key-value head together
        scores = (grouped @ keys.transpose(1, 2)).float() * g.head_dim**-0.5
        weights = scores.view(g.heads, n, slots).masked_fill(hidden, torch.finfo(torch.float32).min).softmax(-1)
        attended = weights.to(queries.dtype).view(g.kv_heads, -1, slots) @ values
        return attended.view(g.heads, n, g.head_dim).transpose(0, 1).reshape(n, -1), weights

    def finish(self, states: torch.Tensor, attended: torch.Tensor, attend_to_target: Attention) -> torch.Tensor:
        """The layer's output ``[..., hidden]``: the features of the next position if it is drafted.

        Args:
            states: the residual, ``[..., hidden]``.
            attended: ``[..., heads * head_dim]``.
            attend_to_target: for GliDe.
        """
        return self._mlp(states + functional.linear(attended, self.output_weight))

    def _rms_norm(self, states: torch.Tensor) -> torch.Tensor:
        """Divide by the root mean square of the last dimension, computed in float32."""
        wide = states.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.epsilon)).to(states.dtype)

    def _mlp(self, states: torch.Tensor) -> torch.Tensor:
        gate, up = functional.linear(self._rms_norm(states) * self.mlp_norm, self.gate_up_weight).chunk(2, dim=-1)
        return states + functional.linear(functional.silu(gate) * up, self.down_weight)

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """Logits over the draft vocabulary ``[..., vocabulary]``, from the layer's output."""
        return functional.linear(self._rms_norm(states) * self.norm, self.vocabulary_weight)


class EagleHead(DraftHead):
    """EAGLE-3 (arXiv 2503.01840, section 3): the features are of several layers, and the attention reads state and embedding."""

    KIND = "eagle"

    def __init__(self, geometry: Geometry, tokens: torch.Tensor) -> None:
        super().__init__(geometry, tokens, 2 * geometry.hidden)
        width = len(geometry.hidden_layers) * geometry.hidden
        self.feature_norm, self.fuse_weight = _ones(width), _matrix(geometry.hidden, width)

    def fuse(self, features: torch.Tensor) -> torch.Tensor:
        """See ``DraftHead``. Each layer's hidden state is normalised first, because their magnitudes differ."""
        g = self.geometry
        states = self._rms_norm(features.unflatten(-1, (len(g.hidden_layers), g.hidden))).flatten(-2) * self.feature_norm
        return functional.linear(states, self.fuse_weight)

    def enter(self, states: torch.Tensor, embeddings: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """See ``DraftHead``; the residual is the state."""
        return states, self._both(states, embeddings)


class MtpHead(DraftHead):
    """Multi-token prediction (DeepSeek-V3, arXiv 2412.19437, section 2.2): state and embedding are projected to one input.

    There it is trained with the model, here afterwards, on a frozen target, and applied to its own output for further tokens.
    """

    KIND = "mtp"

    def __init__(self, geometry: Geometry, tokens: torch.Tensor) -> None:
        super().__init__(geometry, tokens, geometry.hidden)
        self.join_weight, self.input_norm = _matrix(geometry.hidden, 2 * geometry.hidden), _ones(geometry.hidden)

    def fuse(self, features: torch.Tensor) -> torch.Tensor:
        """See ``DraftHead``: the features are one hidden state."""
        return features

    def enter(self, states: torch.Tensor, embeddings: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """See ``DraftHead``; the residual is the projection."""
        joined = functional.linear(self._both(states, embeddings), self.join_weight)
        return joined, self._rms_norm(joined) * self.input_norm


class GlideHead(DraftHead):
    """GliDe (arXiv 2402.02082, section 3.1): between self-attention and MLP, attention to the KV cache of the last layer.

    The self-attention reads embeddings only, so its keys and values of drafted tokens stay valid when the tokens are accepted.
    """

    KIND = "glide"

    def __init__(self, geometry: Geometry, tokens: torch.Tensor) -> None:
        super().__init__(geometry, tokens, geometry.hidden)
        width = geometry.widths[0]
        self.target_query_weight, self.target_output_weight = _matrix(width, geometry.hidden), _zeros(geometry.hidden, width)

    def fuse(self, features: torch.Tensor) -> torch.Tensor:
        """See ``DraftHead``: a state that is not used."""
        return features.new_zeros(*features.shape[:-1], self.geometry.hidden)

    def enter(self, states: torch.Tensor, embeddings: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """See ``DraftHead``; the residual is the embedding."""
        return embeddings, self._rms_norm(embeddings) * self.token_norm

    def finish(self, states: torch.Tensor, attended: torch.Tensor, attend_to_target: Attention) -> torch.Tensor:
        """See ``DraftHead``."""
        between = states + functional.linear(attended, self.output_weight)
        queries = functional.linear(self._rms_norm(between) * self.state_norm, self.target_query_weight)
        seen = attend_to_target(queries.unflatten(-1, (self.geometry.heads, self.geometry.head_dim)))
        return self._mlp(between + functional.linear(seen, self.target_output_weight))


HEADS: dict[Kind, type[EagleHead | MtpHead | GlideHead]] = {"eagle": EagleHead, "mtp": MtpHead, "glide": GlideHead}


def _ones(size: int) -> nn.Parameter:
    return nn.Parameter(torch.ones(size))


def _matrix(rows: int, columns: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(rows, columns) * columns**-0.5)


def _zeros(rows: int, columns: int) -> nn.Parameter:
    return nn.Parameter(torch.zeros(rows, columns))


@dataclass(frozen=True)
class LoadedHead:
    """A head from a file.

    Attributes:
        head: the head, in the target's dtype on its device.
        accuracy: how often the token of each rank was correct at each drafted position of held-out text, float64
            ``[positions, ranks]``.
        networks: networks of the head that no decode uses (see ``HeadNetwork``).
    """

    head: DraftHead
    accuracy: Any
    networks: list[Any] = field(default_factory=list)


def write(path: Path, target: TargetModel, head: DraftHead, accuracy: Any, **more: Any) -> None:
    """Write a head, its matrices in 8 bits; ``more``: see ``checkpoints.write``.

    Raises:
        AdedError: the file cannot be written.
    """
    parameters = {name: parameter for name, parameter in head.state_dict().items() if name != "tokens"}
    tensors = checkpoints.in_8_bits(parameters) | {"tokens": head.tokens.int(), "accuracy": torch.tensor(accuracy)}
    checkpoints.write(path, head.KIND, target, tensors, geometry=asdict(head.geometry), **more)


def load(path: str | Path, target: TargetModel, kind: Kind) -> LoadedHead:
    """Read the file of a head.

    Raises:
        AdedError: as ``checkpoints.read``, or the tensors do not fit the sizes in the header or the model.
    """
    checkpoint = checkpoints.read(path, kind, target)
    try:
        sizes = json.loads(checkpoint.header["geometry"])
        geometry = Geometry(**{**sizes, "hidden_layers": tuple(sizes["hidden_layers"])})
        layers = int(target.config.num_hidden_layers)
        tensors = checkpoints.from_8_bits(checkpoint.tensors)
        tokens, accuracy = tensors.pop("tokens").long(), tensors.pop("accuracy").double().numpy()
        if geometry.hidden != target.config.hidden_size or max(geometry.hidden_layers, default=0) > layers:
            raise ValueError(f"it reads layers {list(geometry.hidden_layers)}, {geometry.hidden} wide")
        if accuracy.ndim != 2 or len(tokens) < 1 or not 0 <= int(tokens.min()) <= int(tokens.max()) < target.vocab_size:
            raise ValueError("its draft vocabulary is not the model's")
        head: DraftHead = HEADS[kind](geometry, tokens)
        head.load_state_dict({**tensors, "tokens": tokens})
    except AdedError:
        raise
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        remedy = checkpoints.command(kind, target.spec)
        raise AdedError(f"{path} does not fit this model ({first_line(error)[:200]}); make one with {remedy}") from None
    head = head.to(target.device, target.dtype).requires_grad_(False)
    return LoadedHead(head, accuracy)


_LOADED: WeakKeyDictionary[Any, dict[tuple[Kind, str], LoadedHead]] = WeakKeyDictionary()


def head_for(
    target: TargetModel, kind: Kind, path: str | None = None, read: Callable[[Path, TargetModel, Kind], LoadedHead] = load
) -> LoadedHead:
    """The head at ``path``, or else the target's default head of this kind; loaded once per target.

    Args:
        read: reads the head.

    Raises:
        AdedError: there is none, or as ``read``.
    """
    file = path or checkpoints.find(kind, target)
    if file is None:
        raise AdedError(checkpoints.missing(kind, target) or "the head was removed; give --head FILE")
    loaded, key = _LOADED.setdefault(target, {}), (kind, str(file))
    if key not in loaded:
        loaded[key] = read(Path(file), target, kind)
    return loaded[key]
