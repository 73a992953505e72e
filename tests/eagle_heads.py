"""Random EAGLE heads for tests."""

from __future__ import annotations

from typing import Any

import torch
from fakes import VOCAB

from aded.draft_models.eagle_head import EagleHead, Features, Geometry

STEPS, RANKS = 4, 10


def random_head(target: Any, seed: int = 0, features: Features = "three", vocabulary: int = 60, scale: float = 1.5) -> EagleHead:
    """A head whose attention and MLP contribute, in the target's dtype; it cannot draft every token."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randperm(VOCAB, generator=generator)[:vocabulary].sort().values
    head = EagleHead(Geometry.like(target, features, vocabulary), tokens)
    with torch.no_grad():
        for parameter in head.parameters():
            if parameter.dim() == 2:
                size = parameter.shape[1] ** -0.5
                parameter.copy_(scale * size * torch.randn(parameter.shape, generator=generator))
    return head.to(target.device, target.dtype).requires_grad_(False)


def accuracy() -> list[list[float]]:
    """Of each rank at each drafted position."""
    return [[0.6 * 0.6**rank * 0.9**step for rank in range(RANKS)] for step in range(STEPS)]
