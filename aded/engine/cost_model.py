"""What steps of the target and levels of a draft cost: measured once on this model and device, then kept in the cache folder."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from aded.core.errors import AdedError
from aded.core.paths import in_cache
from aded.core.trace import write_atomically
from aded.core.tree import DraftTree
from aded.sampling.settings import SamplingSettings

if TYPE_CHECKING:
    from aded.engine.session import TargetSession
    from aded.engine.target_model import TargetModel


SIZES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
"""Tree sizes measured where steps have the size of their tree."""


CONTEXTS = (256, 1280)
"""Committed tokens at which the cost is measured; between and beyond them it is taken to be linear."""


SECONDS_TO_SPEND = 2.0


MOST_ROUNDS = 50


@dataclass(frozen=True)
class StepCost:
    """Seconds of a step by tree size and context.

    Attributes:
        sizes: measured tree sizes, ascending.
        contexts: measured context lengths, ascending.
        seconds: ``[contexts][sizes]``.
        padded: whether a tree costs what the next measured size costs (steps of fixed shape) or something in between.
    """

    sizes: tuple[int, ...]
    contexts: tuple[int, ...]
    seconds: tuple[tuple[float, ...], ...]
    padded: bool

    def table(self, context: int, largest: int) -> np.ndarray:
        """Seconds of a step of 1 to ``largest`` nodes over ``context`` tokens, float64 ``[largest]``; never falling with size."""
        measured = np.array(self.seconds)
        at = measured[0]
        if len(self.contexts) > 1:
            share = (context - self.contexts[0]) / (self.contexts[1] - self.contexts[0])
            at = measured[0] + max(share, 0.0) * (measured[1] - measured[0])
        at = np.maximum.accumulate(np.maximum(at, 1e-6))
        wanted = np.arange(1, largest + 1)
        if self.padded:
            return at[np.minimum(np.searchsorted(self.sizes, wanted), len(at) - 1)]
        slope = (at[-1] - at[-2]) / (self.sizes[-1] - self.sizes[-2]) if len(at) > 1 else 0.0
        beyond = at[-1] + slope * (wanted - self.sizes[-1])
        return np.where(wanted > self.sizes[-1], beyond, np.interp(wanted, self.sizes, at))


def measure(target: TargetModel, contexts: Sequence[int] = CONTEXTS, spend: float = SECONDS_TO_SPEND) -> StepCost:
    """Time steps of every size on this model and device, after a warm-up run, in about ``spend`` seconds."""
    sizes: tuple[int, ...] = target.step_sizes if target.pool is not None else SIZES
    contexts = [c for c in contexts if c + 2 * sizes[-1] < target.context_limit] or [max(1, target.context_limit // 4)]
    if target.compiled:
        contexts = contexts[:1]  # another context is another shape, and each takes half a minute to compile
    if target.pool is None:
        contexts = contexts[:1]  # without a graph, attention's share of a step is small and the time for calibration short
        sizes = tuple(s for s in sizes if contexts[0] + s < target.context_limit)
    rows = []
    for context in contexts:
        session = target.session(context + 2 * sizes[-1])
        session.prefill([token % target.vocab_size for token in range(3, 3 + context)])
        rows.append(_least_seconds(target, session, sizes, spend / len(contexts)))
        session.close()
    return StepCost(tuple(sizes), tuple(contexts), tuple(rows), target.pool is not None)


def _least_seconds(target: TargetModel, session: TargetSession, sizes: Sequence[int], spend: float) -> tuple[float, ...]:
    """The shortest of several times for each size, in rounds over all: what else the machine does meanwhile hits all alike."""
    from aded.sampling.logits_pipeline import Rule
    from aded.sampling.settings import SamplingSettings

    rule, prefix = Rule(SamplingSettings()), [0]
    trees = [DraftTree(np.arange(n) % target.vocab_size, np.array([-1] + [(i - 1) // 2 for i in range(1, n)])) for n in sizes]
    for tree in trees:
        session.prepare(tree, rule)
        session.verify(tree, prefix, rule)
    least = np.full(len(sizes), np.inf)
    until = time.perf_counter() + spend
    for done in range(MOST_ROUNDS):
        if done >= 3 and time.perf_counter() > until:
            break
        for place, tree in enumerate(trees):
            started = time.perf_counter()
            session.verify(tree, prefix, rule)
            target.synchronize()
            least[place] = min(least[place], time.perf_counter() - started)
    return tuple(least.tolist())


def step_cost(target: TargetModel) -> StepCost:
    """The step's cost on this model and device, measured once and kept in the cache folder."""
    path = in_cache(f"costs/{target.cost_fingerprint}.json")
    try:
        body = json.loads(path.read_text())
        rows = tuple(tuple(float(x) for x in row) for row in body["seconds"])
        cost = StepCost(tuple(body["sizes"]), tuple(body["contexts"]), rows, bool(body["padded"]))
        if len(rows) == len(cost.contexts) and all(len(row) == len(cost.sizes) and min(row) > 0 for row in rows):
            return cost
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not measured yet, or a damaged file: measure
    cost = measure(target)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        body = {"sizes": cost.sizes, "contexts": cost.contexts, "seconds": cost.seconds, "padded": cost.padded}
        write_atomically(path, json.dumps(body).encode())
    except (OSError, AdedError):
        pass  # a cache that cannot be written costs a measurement at the next start, nothing else
    return cost


SAMPLED = SamplingSettings(temperature=0.8, top_p=0.95)
"""What stands for all settings that draw from a distribution, where their cost is measured."""


MEASURED_CONTEXT, MEASURED_LEVELS, MEASURED_RUNS = 256, (2, 8), 8


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
