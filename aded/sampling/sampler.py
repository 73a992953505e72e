"""Sampling at many nodes at once, in tensor code that a CUDA graph can capture.

Equivalent to ``aded.sampling.logits_pipeline.Rule`` without processors and repetition penalty: temperature, top-k, top-p, min-p,
then a draw with the random numbers of each node's position.
"""

from __future__ import annotations

import torch

from aded.sampling.rng import exponentials
from aded.sampling.settings import SamplingSettings

MAX_CHUNK, MIN_CHUNK = 1024, 128
"""Limits of the chunk length in tokens, see ``_chunk_length``."""


def choose(logits: torch.Tensor, settings: SamplingSettings, keys: torch.Tensor) -> torch.Tensor:
    """Choose one token per node.

    Args:
        logits: ``[n, vocab]``.
        settings: the repetition penalty is not applied, because it needs the prefix of each node.
        keys: random number key of each node's position, int64 ``[n]`` (see ``aded.sampling.rng``); unused if greedy.

    Returns:
        int64 ``[n]``.
    """
    if settings.greedy:
        return logits.argmax(-1)
    probabilities = distribution(logits, settings)
    return (exponentials(keys, probabilities.shape[-1]) / probabilities).argmin(-1)


def top(logits: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The ``k`` most probable tokens at each node and their probabilities, before any sampling setting.

    Args:
        logits: ``[n, vocab]``.

    Returns:
        Tokens, int64 ``[n, k]``, and probabilities, float32 ``[n, k]``.
    """
    scores = logits.float()
    values, indices = _top_k(scores, min(k, scores.shape[-1]), _chunk_length(scores) if scores.is_cuda else scores.shape[-1])
    return indices, (values - scores.logsumexp(-1, keepdim=True)).exp()


def _chunk_length(scores: torch.Tensor) -> int:
    """Length of the chunks of a row that are searched in parallel, because a few long rows would leave most of a GPU idle."""
    vocab = scores.shape[-1]
    return next((length for length in range(MAX_CHUNK, MIN_CHUNK - 1, -1) if vocab % length == 0), vocab)


def _top_k(scores: torch.Tensor, k: int, chunk: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The ``k`` largest scores of each row of ``[n, vocab]`` and their indices, ``[n, k]``, found by a top-k of each chunk."""
    if k >= chunk or chunk == scores.shape[-1]:
        best = scores.topk(k)
        return best.values, best.indices
    first = scores.unflatten(-1, (-1, chunk)).topk(k)
    indices = first.indices + torch.arange(0, scores.shape[-1], chunk, device=scores.device)[:, None]
    best = first.values.flatten(1).topk(k)
    return best.values, indices.flatten(1).gather(1, best.indices)


def distribution(logits: torch.Tensor, settings: SamplingSettings) -> torch.Tensor:
    """The target's distributions after all sampling settings, float64 ``[n, vocab]``."""
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
        minimum = settings.min_p * probabilities.amax(-1, keepdim=True)
        scores = scores.masked_fill(probabilities < minimum, -torch.inf)
    return scores.double().softmax(-1)
