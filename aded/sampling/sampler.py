"""Sampling at many nodes at once, in tensor code that a CUDA graph can capture.

Equivalent to ``aded.sampling.logits_pipeline.Rule`` without processors and repetition penalty: temperature, top-k, top-p, min-p,
then a draw with the random numbers of each node's position.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from aded.sampling.rng import exponentials
from aded.sampling.settings import SamplingSettings

MAX_CHUNK, MIN_CHUNK = 1024, 128
"""Limits of the chunk length in tokens, see ``_chunk_length``."""
MIN_TOP_K = 64
PARAMETERS = (4,), torch.float64
"""Shape and dtype of ``parameters``, a field of an ``InputBuffer``."""


class SamplingOperations(NamedTuple):
    """The operations of a captured sampler. Their parameters are inputs, so one graph serves all values.

    Attributes:
        greedy: take the arg max; nothing else applies then.
        max_top_k: largest top-k that the graph can apply, a power of two; 0: no top-k.
        top_p, min_p: whether these are applied.
    """

    greedy: bool = False
    max_top_k: int = 0
    top_p: bool = False
    min_p: bool = False


def operations(settings: SamplingSettings) -> SamplingOperations:
    """The operations that these settings need. The repetition penalty is not one: it needs the prefix of each node."""
    if settings.greedy:
        return SamplingOperations(greedy=True)
    max_top_k = max(MIN_TOP_K, 1 << (int(settings.top_k) - 1).bit_length()) if settings.top_k else 0
    return SamplingOperations(False, max_top_k, settings.top_p < 1.0, settings.min_p > 0.0)


def parameters(settings: SamplingSettings) -> torch.Tensor:
    """Temperature, top-k, top-p and min-p, float64 ``[4]`` on the CPU."""
    return torch.tensor([settings.temperature, settings.top_k, settings.top_p, settings.min_p], dtype=torch.float64)


def choose(logits: torch.Tensor, kind: SamplingOperations, values: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """Choose one token per node.

    Args:
        logits: ``[n, vocab]``.
        kind: the operations; values: their ``parameters`` on the device of the logits, unused if greedy.
        keys: random number key of each node's position, int64 ``[n]`` (see ``aded.sampling.rng``); unused if greedy.

    Returns:
        int64 ``[n]``.
    """
    if kind.greedy:
        return logits.argmax(-1)
    probabilities = distribution(logits, kind, values)
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


def distribution(logits: torch.Tensor, kind: SamplingOperations, values: torch.Tensor) -> torch.Tensor:
    """The distributions after all sampling settings, float64 ``[n, vocab]``; arguments as in ``choose``, not greedy."""
    temperature, top_k, top_p, min_p = values.unbind()
    scores = logits.float() / temperature.float()
    if kind.max_top_k:
        best = scores.topk(min(kind.max_top_k, scores.shape[-1])).values
        last = (top_k.long() - 1).clamp(0, best.shape[-1] - 1)
        scores = scores.masked_fill(scores < best.index_select(-1, last[None]), -torch.inf)
    if kind.top_p:
        scores = nucleus(scores, top_p)
    if kind.min_p:
        probabilities = scores.softmax(-1)
        minimum = min_p.float() * probabilities.amax(-1, keepdim=True)
        scores = scores.masked_fill(probabilities < minimum, -torch.inf)
    return scores.double().softmax(-1)


def nucleus(scores: torch.Tensor, top_p: torch.Tensor | float) -> torch.Tensor:
    """Scores after top-p (Holtzman et al., arXiv 1904.09751): -infinity outside the nucleus.

    The nucleus also contains all scores that are equal to its smallest one: which of them a sort puts outside depends on the
    device, and logits in half precision are often equal.

    Args:
        scores: float32 ``[n, vocab]``.
        top_p: in (0, 1), float64 ``[]`` if it is a tensor.

    Returns:
        float32 ``[n, vocab]``.
    """
    ordered = scores.sort(-1).values
    outside = ordered.softmax(-1).cumsum(-1) <= torch.as_tensor(1 - top_p).float()
    outside[:, -1] = False
    smallest = ordered.masked_fill(outside, torch.inf).amin(-1, keepdim=True)
    return scores.masked_fill(scores < smallest, -torch.inf)
