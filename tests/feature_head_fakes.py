"""Random draft heads for tests."""

from __future__ import annotations

from typing import Any

import torch
from fakes import VOCAB

from aded.draft_models.checkpoints import Kind
from aded.draft_models.feature_heads import HEADS, DraftHead, Features, Geometry

STEPS, RANKS = 4, 10


def random_head(
    target: Any, kind: Kind = "eagle", features: Features = "three", vocabulary: int = 60, scale: float = 1.5
) -> DraftHead:
    """A head whose attention and MLP contribute, in the target's dtype; it cannot draft every token."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randperm(VOCAB, generator=generator)[:vocabulary].sort().values
    geometry = Geometry.like(target, features if kind == "eagle" else "last", vocabulary)
    head: DraftHead = HEADS[kind](geometry, tokens)
    with torch.no_grad():
        for parameter in head.parameters():
            if parameter.dim() == 2:
                size = parameter.shape[1] ** -0.5
                parameter.copy_(scale * size * torch.randn(parameter.shape, generator=generator))
    return head.to(target.device, target.dtype).requires_grad_(False)


def accuracy() -> list[list[float]]:
    """Of each rank at each drafted position."""
    return [[0.6 * 0.6**rank * 0.9**step for rank in range(RANKS)] for step in range(STEPS)]
