"""Peers: Transformers' ``generate`` on the same loaded weights, with its default KV cache."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch

from aded.evaluation.bench.systems import Figures, MemoryWatch, System

if TYPE_CHECKING:
    from aded.decoding.decoder import GenerationSettings
    from aded.engine.target_model import TargetModel

PROMPT_LOOKUP_TOKENS = 10
"""Maximum draft tokens of prompt lookup, as in the documentation of Transformers."""


def generate_system(target: TargetModel) -> System:
    """``model.generate``: one token per forward pass."""
    return _system(target, "hf-generate", "Transformers generate", {})


def prompt_lookup_system(target: TargetModel) -> System:
    """``model.generate(prompt_lookup_num_tokens=10)``."""
    options = {"prompt_lookup_num_tokens": PROMPT_LOOKUP_TOKENS}
    return _system(target, "hf-prompt-lookup", "Transformers prompt lookup", options)


def _system(target: TargetModel, name: str, label: str, options: dict[str, Any]) -> System:
    return System(name, label, True, False, lambda task, s: _generate(target, task.prompt, s, options))


class _StepTimer:
    """A stopping criterion that never stops; ``generate`` calls it at the end of each step, and it records time and length."""

    def __init__(self, target: TargetModel) -> None:
        self._target = target
        self.lengths: list[int] = []
        self.times: list[float] = []

    def __call__(self, input_ids: torch.Tensor, scores: Any, **unused: Any) -> torch.Tensor:
        self._target.synchronize()
        self.lengths.append(input_ids.shape[1])
        self.times.append(time.perf_counter())
        return torch.zeros(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)


@torch.inference_mode()
def _generate(target: TargetModel, prompt: Sequence[int], settings: GenerationSettings, options: dict[str, Any]) -> Figures:
    """Run ``generate``. Its first forward pass, with the tokens that it yields, is prefill and not part of the timed steps."""
    from transformers import StoppingCriteriaList

    watch, timer = MemoryWatch(target), _StepTimer(target)
    ids = torch.tensor([list(prompt)], device=target.device)
    torch.manual_seed(settings.seed % 2**32)
    target.synchronize()
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about generation settings in the model's files
        output = target.model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            generation_config=_config(target, settings, len(prompt), options),
            stopping_criteria=StoppingCriteriaList([timer]),
        )
    generated = output[0, len(prompt) :].tolist()
    times = timer.times
    steps, timed = len(times) - 1, timer.lengths[-1] - timer.lengths[0]
    return {
        "tokens": timed,
        "steps": steps,
        "accepted": timed - steps,
        "token_ids": generated,
        "seconds": times[-1] - times[0],
        "prefill_ms": round(1e3 * (times[0] - started), 3),
        "step_ms": [round(1e3 * (b - a), 4) for a, b in pairwise(times)],
        "memory_mb": watch.megabytes(),
    }


def _config(target: TargetModel, settings: GenerationSettings, prompt_length: int, options: dict[str, Any]) -> Any:
    """Generation settings with every value that affects the output, so that the model's defaults have no effect."""
    from transformers import GenerationConfig

    max_new_tokens = min(settings.max_new_tokens, target.context_limit - prompt_length)
    eos = sorted(target.eos_ids)
    body: dict[str, Any] = {"max_new_tokens": max_new_tokens, "num_beams": 1, "use_cache": True, **options}
    body |= {"repetition_penalty": settings.repetition_penalty}
    body |= {"eos_token_id": eos or None, "pad_token_id": eos[0] if eos else 0, "do_sample": not settings.sampling.greedy}
    if not settings.sampling.greedy:
        body |= {"temperature": settings.temperature, "top_p": settings.top_p, "top_k": settings.top_k}
        body |= {"min_p": settings.min_p or None}
    return GenerationConfig(**body)
