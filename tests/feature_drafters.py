"""Two tiny drafters for the interface's tests: one reads features of three layers, one the target's KV cache."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from aded.core.tree import DraftTree
from aded.draft_models.feature_network import Children
from aded.drafters.base import Context, Drafter, Outcome
from aded.engine.outputs import DrafterNeeds

LAYERS = (0, 1, -1)
DEPTH = 3


class LinearNetwork:
    """A ``FeatureNetwork`` of one random linear layer, without memory of earlier positions."""

    hidden_layers = LAYERS

    def __init__(self, target: Any, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        hidden = target.config.hidden_size
        self._embedding = target.model.get_input_embeddings()
        self._head = target.model.get_output_embeddings()
        weight = torch.randn((len(LAYERS) + 1) * hidden, len(LAYERS) * hidden, generator=generator) / hidden
        self._weight = weight.to(target.device, target.dtype)
        self.read_tokens: list[torch.Tensor] = []
        self.read_features: list[torch.Tensor] = []
        self._predicted: list[torch.Tensor] = []  # after the last committed and the drafted positions

    def start(self) -> None:
        self.read_tokens, self.read_features = [], []

    def read(self, features: torch.Tensor, tokens: Any) -> Children:
        self.read_tokens.append(torch.tensor(tokens))
        self.read_features.append(features.clone())
        self._predicted = []
        return self._forward(features[-1:], tokens[-1:])

    def draft(self, tokens: np.ndarray, parents: np.ndarray) -> Children:
        return self._forward(torch.stack([self._predicted[parent + 1] for parent in parents.tolist()]), tokens)

    @torch.inference_mode()
    def _forward(self, features: torch.Tensor, tokens: Any) -> Children:
        given = torch.tensor(np.asarray(tokens), device=features.device)
        predicted = torch.cat([features, self._embedding(given)], dim=-1) @ self._weight
        self._predicted += list(predicted)
        best = self._head(predicted[:, -self._embedding.weight.shape[1] :]).float().softmax(-1).topk(1)
        return Children(best.indices.cpu().numpy(), best.values.double().cpu().numpy())


class FeatureDrafter(Drafter):
    """Drafts a chain with a ``FeatureNetwork``."""

    def __init__(self, network: LinearNetwork) -> None:
        self.network = network
        self.needs = DrafterNeeds(hidden_layers=network.hidden_layers)
        self._children: Children | None = None

    def start(self, prompt: Any, features: torch.Tensor | None = None) -> None:
        self.network.start()
        assert features is not None
        assert len(features) == len(prompt) - 1
        self._children = self.network.read(features, prompt[1:]) if len(prompt) > 1 else None

    def propose(self, context: Context, budget: int) -> DraftTree:
        chain: list[int] = []
        children = self._children
        while children is not None and len(chain) < min(DEPTH, budget - 1):
            chain.append(int(children.tokens[0, 0]))
            children = self.network.draft(np.array(chain[-1:]), np.array([len(chain) - 2]))
        return DraftTree.chain(context.root, chain)

    def observe(self, outcome: Outcome) -> None:
        self._children = self.network.read(outcome.accepted_features, outcome.emitted.tolist())


class CacheDrafter(Drafter):
    """Drafts the tokens most similar to what the root attends to in the target's last layer (one attention step)."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self.addresses: set[tuple[int, int]] = set()
        self.keys: list[torch.Tensor] = []

    def bind(self, target: Any) -> None:
        self._target = target
        self._cache = target.kv(-1)
        heads, _, dim = self._cache.keys.shape
        generator = torch.Generator().manual_seed(self._seed)
        width = target.embedding.weight.shape[1]
        self._query = torch.randn(width, heads * dim, generator=generator).to(target.device, target.dtype)
        self._output = torch.randn(heads * dim, width, generator=generator).to(target.device, target.dtype)

    @torch.inference_mode()
    def propose(self, context: Context, budget: int) -> DraftTree:
        length, now = self._target.length, self._target.kv(-1)
        self.addresses.add((now.keys.data_ptr(), now.values.data_ptr()))
        self.keys.append(self._cache.keys[:, :length].clone())
        if not length or budget == 1:
            return DraftTree.root_only(context.root)
        root = torch.tensor([context.root], device=self._target.device)
        query = (self._target.embedding(root) @ self._query).view(self._cache.keys.shape[0], 1, -1)
        read = torch.nn.functional.scaled_dot_product_attention(
            query[None], self._cache.keys[None, :, :length], self._cache.values[None, :, :length]
        )
        logits = self._target.vocabulary_projection(read.flatten()[None] @ self._output)[0]
        children = logits.topk(min(3, budget - 1)).indices.cpu().numpy()
        return DraftTree(np.append(context.root, children), np.array([-1] + [0] * len(children)))
