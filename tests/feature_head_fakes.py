"""Random draft heads for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from fakes import VOCAB

from aded.draft_models.checkpoints import Kind
from aded.draft_models.feature_heads import HEADS, DraftHead, Features, Geometry
from aded.engine.target_view import LayerKeysValues
from aded.train import loop
from aded.train.dataset import Batch, Text
from aded.train.eagle import EagleObjective, GlideObjective, MtpObjective

STEPS, RANKS = 4, 10
FEATURES: dict[Kind, Features] = {"eagle": "three", "mtp": "last", "glide": "none"}
OBJECTIVES: dict[Kind, type[EagleObjective]] = {"eagle": EagleObjective, "mtp": MtpObjective, "glide": GlideObjective}


def random_head(
    target: Any, kind: Kind = "eagle", features: Features = "three", vocabulary: int = 60, scale: float = 1.5
) -> DraftHead:
    """A head whose attention and MLP contribute, in the target's dtype; it cannot draft every token."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randperm(VOCAB, generator=generator)[:vocabulary].sort().values
    geometry = Geometry.like(target, features if kind == "eagle" else FEATURES[kind], vocabulary)
    head: DraftHead = HEADS[kind](geometry, tokens)
    with torch.no_grad():
        for parameter in head.parameters():
            if parameter.dim() == 2:
                size = parameter.shape[1] ** -0.5
                parameter.copy_(scale * size * torch.randn(parameter.shape, generator=generator))
    return head.to(target.device, target.dtype).requires_grad_(False)


@torch.no_grad()
def last_layer(target: Any, ids: torch.Tensor) -> LayerKeysValues:
    """The target's keys and values of a text in its last layer; ids int64 ``[n]``."""
    layer = target.model(input_ids=ids[None], use_cache=True).past_key_values.layers[-1]
    return LayerKeysValues(layer.keys[0], layer.values[0])


def trained_head(target: Any, kind: Kind, texts: Sequence[Sequence[int]], steps: int = 90) -> DraftHead:
    """A head that has learned these texts of equal length."""
    rows = Text.plain(np.array(texts))
    torch.manual_seed(0)
    objective = OBJECTIVES[kind](target, rows, VOCAB, FEATURES[kind], steps=4)
    optimizer = torch.optim.AdamW(objective.trained.parameters(), lr=1e-2)
    for step in range(steps):
        loop._step(objective, optimizer, Batch.of(rows), 1e-2 * min(1.0, 1.5 * (steps - step) / steps))
    return objective.trained.requires_grad_(False)


def accuracy() -> list[list[float]]:
    """Of each rank at each drafted position."""
    return [[0.6 * 0.6**rank * 0.9**step for rank in range(RANKS)] for step in range(STEPS)]
