"""The target's choice at many nodes at once, in tensor code that a CUDA graph can hold.

The same rule as ``aded.sampling.logits_pipeline.Rule`` without processors: temperature, top-k, top-p, min-p, then the draw by the
node's position.
"""

from __future__ import annotations

import torch

from aded.sampling.rng import exponentials
from aded.sampling.settings import SamplingSettings

LONGEST_PIECE, SHORTEST_PIECE = 1024, 128


def choose(logits: torch.Tensor, settings: SamplingSettings, keys: torch.Tensor) -> torch.Tensor:
    """One token a node.

    Args:
        logits: ``[n, vocab]``.
        settings: without a repetition penalty, which needs each node's prefix.
        keys: of each node's position, int64 ``[n]`` (see ``aded.sampling.rng``); not read if greedy.

    Returns:
        int64 ``[n]``.
    """
    if settings.greedy:
        return logits.argmax(-1)
    probabilities = distribution(logits, settings)
    return (exponentials(keys, probabilities.shape[-1]) / probabilities).argmin(-1)


def top(logits: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The ``k`` most probable tokens at each node before any sampling setting, and their probabilities.

    Args:
        logits: ``[n, vocab]``.

    Returns:
        int64 and float32 ``[n, k]``.
    """
    scores = logits.float()
    values, indices = _largest(scores, min(k, scores.shape[-1]), _piece(scores) if scores.is_cuda else scores.shape[-1])
    return indices, (values - scores.logsumexp(-1, keepdim=True)).exp()


def _piece(scores: torch.Tensor) -> int:
    """Length of the pieces of a row that are searched side by side: few long rows would leave most of a card idle."""
    vocab = scores.shape[-1]
    return next((length for length in range(LONGEST_PIECE, SHORTEST_PIECE - 1, -1) if vocab % length == 0), vocab)


def _largest(scores: torch.Tensor, k: int, piece: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The ``k`` largest of each row of ``[n, vocab]`` and where they are, ``[n, k]``, found among those of its pieces."""
    if k >= piece or piece == scores.shape[-1]:
        best = scores.topk(k)
        return best.values, best.indices
    first = scores.unflatten(-1, (-1, piece)).topk(k)
    places = first.indices + torch.arange(0, scores.shape[-1], piece, device=scores.device)[:, None]
    best = first.values.flatten(1).topk(k)
    return best.values, places.flatten(1).gather(1, best.indices)


def distribution(logits: torch.Tensor, settings: SamplingSettings) -> torch.Tensor:
    """The distributions that tokens are drawn from, float64 ``[n, vocab]``."""
    scores = logits.float() / settings.temperature if settings.temperature != 1.0 else logits.float()
    if settings.top_k:
        kth = scores.topk(min(settings.top_k, scores.shape[-1])).values[:, -1:]
        scores = scores.masked_fill(scores < kth, -torch.inf)
    if settings.top_p < 1.0:
        ordered, order = scores.sort(-1)
        drop = ordered.softmax(-1).cumsum(-1) <= 1 - settings.top_p
        drop[:, -1] = False
        scores = scores.masked_fill(torch.zeros_like(drop).scatter(-1, order, drop), -torch.inf)
    if settings.min_p > 0.0:
        probabilities = scores.softmax(-1)
        least = settings.min_p * probabilities.amax(-1, keepdim=True)
        scores = scores.masked_fill(probabilities < least, -torch.inf)
    return scores.double().softmax(-1)
