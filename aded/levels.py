"""Levels of a draft where a model drafts it: how many it can read, and what one more costs.

The cost is measured once on this model and device, then kept.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from aded.errors import AdedError
from aded.places import in_cache
from aded.trace import write_atomically
from aded.verify import SamplingSettings

if TYPE_CHECKING:
    from aded.model import TargetModel

SAMPLED = SamplingSettings(temperature=0.8, top_p=0.95)
"""What stands for all settings that draw from a distribution, where their cost is measured."""
MEASURED_CONTEXT, MEASURED_LEVELS, MEASURED_RUNS = 256, (2, 8), 8


def levels_left(draft: TargetModel, context: np.ndarray) -> tuple[int, str | None]:
    """How many levels a draft model can draft behind a text: as many as its context still holds, and it must know every token.

    Args:
        context: committed token ids, int ``[n]``, ``n >= 1``.

    Returns:
        The levels, and where there are none the reason, for the user.
    """
    if (largest := int(context.max())) >= draft.vocab_size:
        return (
            0,
            f"{draft.label} stops drafting: it does not know token id {largest}, for its vocabulary ends at {draft.vocab_size}",
        )
    if (left := draft.context_limit + 1 - len(context)) < 1:
        return 0, f"{draft.label} stops drafting: the text is longer than its context of {draft.context_limit} tokens"
    return left, None


def non_finite(draft: TargetModel) -> str:
    """Why a draft model stops drafting whose probabilities are not finite."""
    return f"{draft.label} stops drafting: its logits are not finite; the weights are damaged or overflow in {draft.dtype}"


def level_seconds(draft: TargetModel, kind: str, make: Callable[[np.ndarray, int], object]) -> float:
    """Seconds that one more level takes, all that the host does for it included.

    Args:
        draft: the draft model.
        kind: of drafts, a word: each has a figure of its own in the cache folder.
        make: drafts so many levels behind a text of token ids, int32 ``[n]``.
    """
    path = in_cache(f"costs/{draft.cost_fingerprint}-{kind}.json")
    try:
        if (seconds := float(json.loads(path.read_text())["level"])) > 0:
            return seconds
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not measured yet, or a damaged file: measure
    seconds = _measured(draft, make)
    with contextlib.suppress(OSError, AdedError):  # a cache that cannot be written costs a measurement at the next start
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps({"level": seconds}).encode())
    return seconds


def _measured(draft: TargetModel, make: Callable[[np.ndarray, int], object]) -> float:
    length = max(1, min(MEASURED_CONTEXT, draft.context_limit // 2, draft.context_limit - MEASURED_LEVELS[-1]))
    text = (np.arange(3, 3 + length) % draft.vocab_size).astype(np.int32)
    least = {}
    for levels in MEASURED_LEVELS:
        times = []
        for _ in range(MEASURED_RUNS):
            started = time.perf_counter()
            make(text, levels)
            times.append(time.perf_counter() - started)
        least[levels] = min(times)
    few, many = MEASURED_LEVELS
    return max((least[many] - least[few]) / (many - few), 1e-7)
