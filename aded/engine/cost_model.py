"""Cost of target steps and draft levels: measured once per model and device, then stored in the cache folder."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from aded.core.compilation.cuda_graph import NODE_BUCKETS
from aded.core.errors import AdedError
from aded.core.paths import in_cache
from aded.core.trace import write_atomically
from aded.core.tree import DraftTree
from aded.sampling.settings import SamplingSettings

if TYPE_CHECKING:
    from aded.engine.session import TargetSession
    from aded.engine.target_model import TargetModel

T = TypeVar("T")

SIZES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
"""Tree sizes to measure if trees are not padded."""
CONTEXTS = (256, 1280)
"""Context lengths (committed tokens) to measure; the cost is assumed to be linear in between and beyond."""
MEASURE_SECONDS = 2.0
MAX_ROUNDS = 50


@dataclass(frozen=True)
class StepCost:
    """Seconds per step by tree size and context length.

    Attributes:
        sizes: measured tree sizes, ascending.
        contexts: measured context lengths, ascending.
        seconds: ``[contexts][sizes]``.
        padded: whether trees are padded to the next measured size (fixed-shape steps); if not, the cost is interpolated.
    """

    sizes: tuple[int, ...]
    contexts: tuple[int, ...]
    seconds: tuple[tuple[float, ...], ...]
    padded: bool

    def table(self, context: int, largest: int) -> np.ndarray:
        """Seconds per step for 1 to ``largest`` nodes after ``context`` tokens, float64 ``[largest]``; non-decreasing."""
        measured = np.array(self.seconds)
        seconds = measured[0]
        if len(self.contexts) > 1:
            fraction = (context - self.contexts[0]) / (self.contexts[1] - self.contexts[0])
            seconds = measured[0] + max(fraction, 0.0) * (measured[1] - measured[0])
        seconds = np.maximum.accumulate(np.maximum(seconds, 1e-6))
        nodes = np.arange(1, largest + 1)
        if self.padded:
            return seconds[np.minimum(np.searchsorted(self.sizes, nodes), len(seconds) - 1)]
        slope = (seconds[-1] - seconds[-2]) / (self.sizes[-1] - self.sizes[-2]) if len(seconds) > 1 else 0.0
        beyond = seconds[-1] + slope * (nodes - self.sizes[-1])
        return np.where(nodes > self.sizes[-1], beyond, np.interp(nodes, self.sizes, seconds))


def measure(target: TargetModel, contexts: Sequence[int] = CONTEXTS, spend: float = MEASURE_SECONDS) -> StepCost:
    """Measure steps of every size on this model and device, after a warm-up, in about ``spend`` seconds."""
    sizes: tuple[int, ...] = NODE_BUCKETS[:-1] if target.pool is not None else SIZES
    contexts = [c for c in contexts if c + 2 * sizes[-1] < target.context_limit] or [max(1, target.context_limit // 4)]
    if target.pool is None:
        contexts = contexts[:1]  # without CUDA graphs, attention is a small part of a step: one context is enough
        sizes = tuple(s for s in sizes if contexts[0] + s < target.context_limit)
    rows = []
    for context in contexts:
        session = target.session(context + 2 * sizes[-1])
        session.prefill([token % target.vocab_size for token in range(3, 3 + context)])
        rows.append(_min_seconds(target, session, sizes, spend / len(contexts)))
        session.close()
    return StepCost(tuple(sizes), tuple(contexts), tuple(rows), target.pool is not None)


def _min_seconds(target: TargetModel, session: TargetSession, sizes: Sequence[int], spend: float) -> tuple[float, ...]:
    """Minimum time for each size. Each round measures all sizes, so other load on the machine affects all alike."""
    from aded.sampling.logits_pipeline import Rule
    from aded.sampling.settings import SamplingSettings

    rule, prefix = Rule(SamplingSettings()), [0]
    trees = [DraftTree(np.arange(n) % target.vocab_size, np.array([-1] + [(i - 1) // 2 for i in range(1, n)])) for n in sizes]
    for tree in trees:
        session.prepare(tree, rule)
        session.verify(tree, prefix, rule)
    shortest = np.full(len(sizes), np.inf)
    deadline = time.perf_counter() + spend
    for round_index in range(MAX_ROUNDS):
        if round_index >= 3 and time.perf_counter() > deadline:
            break
        for index, tree in enumerate(trees):
            started = time.perf_counter()
            session.verify(tree, prefix, rule)
            target.synchronize()
            shortest[index] = min(shortest[index], time.perf_counter() - started)
    return tuple(shortest.tolist())


def step_cost(target: TargetModel) -> StepCost:
    """Cost of a step on this model and device, measured once and stored in the cache folder."""
    return _stored(target.cost_fingerprint, _parse_cost, lambda: measure(target), asdict)


def is_stored(target: TargetModel) -> bool:
    """Whether the cost of a step on this model and device is in the cache folder, so that it need not be measured."""
    return in_cache(f"costs/{target.cost_fingerprint}.json").is_file()


def forget_step_cost(target: TargetModel) -> None:
    """Delete the stored cost of a step, so that it is measured again."""
    with contextlib.suppress(OSError, AdedError):
        in_cache(f"costs/{target.cost_fingerprint}.json").unlink()


def _parse_cost(body: Any) -> StepCost | None:
    rows = tuple(tuple(float(x) for x in row) for row in body["seconds"])
    cost = StepCost(tuple(body["sizes"]), tuple(body["contexts"]), rows, bool(body["padded"]))
    valid = len(rows) == len(cost.contexts) and all(len(row) == len(cost.sizes) and min(row) > 0 for row in rows)
    return cost if valid else None


def _stored(name: str, parse: Callable[[Any], T | None], measured: Callable[[], T], to_json: Callable[[T], dict[str, Any]]) -> T:
    """A cost from its file in the cache folder, measured and stored where the file is missing or damaged.

    Args:
        name: of the file, without its suffix.
        parse: makes a cost of the file's JSON; None, or an error, if that is no valid cost.
    """
    path = in_cache(f"costs/{name}.json")
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # not measured yet, or a damaged file: measure
        if (cost := parse(json.loads(path.read_text()))) is not None:
            return cost
    cost = measured()
    with contextlib.suppress(OSError, AdedError):  # without a writable cache, the next start measures again
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(to_json(cost)).encode())
    return cost


SAMPLED = SamplingSettings(temperature=0.8, top_p=0.95)
"""Settings used to measure the cost of sampling."""
MEASURED_CONTEXT, MEASURED_LEVELS, MEASURED_RUNS = 256, (2, 8), 8


def level_seconds(draft: TargetModel, kind: str, make: Callable[[np.ndarray, int], object]) -> float:
    """Seconds per additional level of a draft, including work on the host; measured once and stored in the cache folder.

    Args:
        draft: the draft model.
        kind: kind of draft, part of the cache file's name.
        make: drafts the given number of levels after a text of token ids, int32 ``[n]``.
    """
    return _stored(
        f"{draft.cost_fingerprint}-{kind}", _parse_level, lambda: _measure_level(draft, make), lambda seconds: {"level": seconds}
    )


def _parse_level(body: Any) -> float | None:
    seconds = float(body["level"])
    return seconds if seconds > 0 else None


def _measure_level(draft: TargetModel, make: Callable[[np.ndarray, int], object]) -> float:
    length = max(1, min(MEASURED_CONTEXT, draft.context_limit // 2, draft.context_limit - MEASURED_LEVELS[-1]))
    text = (np.arange(3, 3 + length) % draft.vocab_size).astype(np.int32)
    shortest = {}
    for levels in MEASURED_LEVELS:
        times = []
        for _ in range(MEASURED_RUNS):
            started = time.perf_counter()
            make(text, levels)
            times.append(time.perf_counter() - started)
        shortest[levels] = min(times)
    few, many = MEASURED_LEVELS
    return max((shortest[many] - shortest[few]) / (many - few), 1e-7)
