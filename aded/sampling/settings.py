"""Sampling settings, shared by all methods."""

from __future__ import annotations

import math
from dataclasses import dataclass

from aded.core.errors import AdedError, shown
from aded.core.limits import number, whole_number

MAX_GREEDY_TEMPERATURE = 1e-5
"""Temperatures up to this one mean greedy decoding; logits are never divided by them."""


@dataclass(frozen=True)
class SamplingSettings:
    """How the target's next token is chosen from its logits.

    Attributes:
        temperature: 0 is greedy.
        top_k: keep the k most probable tokens; 0 keeps all.
        top_p: keep the smallest set of most probable tokens with at least this total probability; 1 keeps all.
        min_p: keep tokens with at least this fraction of the highest probability; 0 keeps all.
        repetition_penalty: above 1 makes tokens of the prefix less probable (CTRL, arXiv 1909.05858); 1 is no penalty.
        seed: seed of the random numbers, from 0 to 2**63 - 1.

    Raises:
        AdedError: a value is out of range.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("temperature", "top_p", "min_p", "repetition_penalty"):
            object.__setattr__(self, name, number(getattr(self, name), name.replace("_", " ")))
        for name in ("top_k", "seed"):
            object.__setattr__(self, name, whole_number(getattr(self, name), name.replace("_", "-")))
        _require(self.temperature >= 0 and math.isfinite(self.temperature), "temperature", self.temperature, "0 (greedy) or more")
        _require(0 <= self.top_k < 2**31, "top-k", self.top_k, "a whole number below 2**31, 0 for no limit")
        _require(0 < self.top_p <= 1, "top-p", self.top_p, "above 0 and at most 1")
        _require(0 <= self.min_p <= 1, "min-p", self.min_p, "from 0 to 1")
        _require(
            0.01 <= self.repetition_penalty <= 100,
            "repetition penalty",
            self.repetition_penalty,
            "from 0.01 to 100",
        )
        _require(0 <= self.seed < 2**63, "seed", self.seed, "a whole number from 0 to 2**63 - 1")

    @property
    def greedy(self) -> bool:
        """Whether the most probable token is always chosen."""
        return self.temperature <= MAX_GREEDY_TEMPERATURE


def _require(condition: bool, name: str, value: object, what: str) -> None:
    if not condition:
        raise AdedError(f"{name} is {shown(value)}; give {what}")


@dataclass(frozen=True)
class TypicalAcceptance:
    """Thresholds of typical acceptance (Medusa, arXiv 2401.10774, section 2.3.1).

    A token of probability p, where the target's distribution has entropy H, is accepted if ``p > min(epsilon, delta exp(-H))``.

    Attributes:
        epsilon: a probability above it is always accepted (``posterior_threshold`` in the published code).
        delta: scale of the entropy-dependent threshold (``posterior_alpha`` in the published code).

    Raises:
        AdedError: a value is out of range.
    """

    epsilon: float = 0.09
    delta: float = 0.3

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta"):
            object.__setattr__(self, name, number(getattr(self, name), name))
        _require(0 < self.epsilon <= 1, "epsilon", self.epsilon, "above 0 and at most 1")
        _require(0 < self.delta <= 1, "delta", self.delta, "above 0 and at most 1")
