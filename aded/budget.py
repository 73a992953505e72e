"""How large a draft pays: the step's measured cost against what the next node is expected to bring.

A draft of n nodes is expected to bring 1 + sum of its nodes' acceptance probabilities in tokens and to cost t(n) seconds.
Throughput over many steps is best where every step takes the draft that maximises ``tokens - rate * seconds``, with ``rate`` the
throughput itself (Dinkelbach 1967): the tree stops growing where the next node's gain no longer pays its marginal cost.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from aded.errors import AdedError
from aded.trace import Budget, write_atomically
from aded.tree import DraftTree
from aded.weights import cache_folder

if TYPE_CHECKING:
    from aded.model import TargetModel

SIZES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
"""Tree sizes measured where steps have the size of their tree."""
CONTEXTS = (256, 1280)
"""Committed tokens at which the cost is measured; between and beyond them it is taken to be linear."""
SECONDS_TO_SPEND = 2.0
LARGEST = 64
MEMORY = 20_000
"""Verified nodes that an acceptance curve remembers before older ones count half."""


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


@dataclass
class AcceptanceCurve:
    """What a predicted acceptance probability is worth, learned from what was accepted.

    Predictions fall into bins by their logarithm. A bin's value starts as the prediction itself and moves to the observed share;
    what all bins have in common is learned first.
    """

    strength: float = 24.0  # nodes that it takes to weigh the observed share as much as the prediction
    tried: np.ndarray = field(default_factory=lambda: np.zeros(16))
    accepted: np.ndarray = field(default_factory=lambda: np.zeros(16))
    predicted: np.ndarray = field(default_factory=lambda: np.zeros(16))

    def _bins(self, predicted: np.ndarray) -> np.ndarray:
        return np.clip((-2.0 * np.log2(np.maximum(predicted, 1e-6))).astype(np.int64), 0, len(self.tried) - 1)

    def __call__(self, predicted: np.ndarray) -> np.ndarray:
        """Calibrated probabilities, float64 ``[n]``."""
        bins, weight = self._bins(predicted), self.strength / 2  # predictions of about a half weigh that much
        overall = (self.accepted.sum() + weight) / (self.predicted.sum() + weight)
        ratio = (self.accepted + weight * overall) / (self.predicted + weight)
        return np.clip(predicted * ratio[bins], 0.0, 1.0)

    def observe(self, predicted: np.ndarray, accepted: np.ndarray) -> None:
        """Count verified nodes: predicted probability, and whether each was accepted; ``[n]`` each."""
        bins = self._bins(predicted)
        np.add.at(self.tried, bins, 1.0)
        np.add.at(self.predicted, bins, predicted)
        np.add.at(self.accepted, bins, accepted.astype(np.float64))
        if self.tried.sum() > MEMORY:
            for counts in (self.tried, self.predicted, self.accepted):
                counts *= 0.5


class FixedBudget:
    """As many nodes as the user said."""

    def __init__(self, nodes: int, why: str) -> None:
        self.cap = nodes
        self._budget = Budget(nodes, why)

    def trim(self, tree: DraftTree, context: int) -> tuple[DraftTree, Budget]:
        """The draft as it is."""
        return tree, self._budget

    def observe(self, tree: DraftTree, path: Sequence[int], emitted: int, seconds: float, host: float) -> None:
        """Nothing is learned."""


class AutomaticBudget:
    """The draft as large as it pays on this model, device and context, and no draft where none pays.

    Attributes:
        cap: nodes to ask the drafter for next; 1 spares the drafting itself while it does not pay.
    """

    PATIENCE = 4  # plain steps in a row before drafting is tried less and less often
    LONGEST_PAUSE = 128
    FORGET = 0.95  # weight of the past in the running throughput, by step

    def __init__(self, cost: StepCost, curve: AcceptanceCurve | None = None, largest: int = LARGEST) -> None:
        """``curve``: what earlier decodes have learned, continued here."""
        self.cost = cost
        self.largest = self.cap = largest
        self.curve = curve or AcceptanceCurve()
        self._host = 0.0
        self._by_depth = np.full((64, 2), (1.2, 2.0))  # accepted and tried, for drafters that give no probabilities
        self._tokens = self._seconds = 0.0
        self._plain_steps = 0
        self._pause = 0

    def trim(self, tree: DraftTree, context: int) -> tuple[DraftTree, Budget]:
        """The part of a draft that pays, and why it is that much; ``context``: committed tokens."""
        seconds = self.cost.table(context, max(self.largest, len(tree)))
        if len(tree) == 1:
            return tree, Budget(1, "automatic: no draft")
        joint = self.joint(tree)
        order = np.argsort(-joint, kind="stable")  # parents come before their children: their probability is no smaller
        gain = np.concatenate([[1.0], self.curve(joint[order[1:]])])
        rate = max(self._rate(), 1.0 / seconds[0])
        worth = gain.cumsum() - rate * seconds[: len(tree)]
        worth[1:] -= rate * self._host  # a draft must pay for its making too, or the next ones are not made
        n = 1 + int(worth.argmax())
        kept = tree if n == len(tree) else tree.select(np.sort(order[:n]))
        return kept, Budget(n, _why(n, gain, seconds, rate, len(tree)))

    def observe(self, tree: DraftTree, path: Sequence[int], emitted: int, seconds: float, host: float) -> None:
        """Learn from a step: its verified draft, the accepted path, the tokens it wrote, its seconds, and those of drafting."""
        self._tokens = self.FORGET * self._tokens + emitted
        self._seconds = self.FORGET * self._seconds + seconds
        self._plan(len(tree))
        if len(tree) == 1:
            return
        self._host = host if self._host == 0 else 0.9 * self._host + 0.1 * host
        accepted = np.zeros(len(tree), dtype=bool)
        accepted[list(path)] = True
        self.curve.observe(self.joint(tree)[1:], accepted[1:])
        on_path = accepted[tree.parents[1:]]
        depth = np.minimum(tree.depths[1:], len(self._by_depth) - 1)
        np.add.at(self._by_depth, (depth[on_path], 1), 1.0)
        np.add.at(self._by_depth, (depth[on_path & accepted[1:]], 0), 1.0)

    def joint(self, tree: DraftTree) -> np.ndarray:
        """Predicted probability that each node is accepted: the product along its path, float64 ``[n]``."""
        prior = tree.columns.get("prior")
        if prior is None:
            prior = (self._by_depth[:, 0] / self._by_depth[:, 1])[np.minimum(tree.depths, len(self._by_depth) - 1)]
        return tree.along_paths(np.clip(np.nan_to_num(prior, nan=0.5), 0.0, 1.0))

    def _rate(self) -> float:
        return self._tokens / self._seconds if self._seconds > 0 else 0.0

    def _plan(self, nodes: int) -> None:
        """While drafts do not pay, spare making them: ever longer pauses between tries."""
        if nodes > 1:
            self._plain_steps = self._pause = 0
        else:
            self._plain_steps += 1
            if self._pause > 0:
                self._pause -= 1
            elif self._plain_steps >= self.PATIENCE:
                self._pause = min(self.LONGEST_PAUSE, self._plain_steps)
        self.cap = 1 if self._pause else self.largest


def _why(n: int, gain: np.ndarray, seconds: np.ndarray, rate: float, drafted: int) -> str:
    if n >= len(gain):
        return f"automatic: all {drafted} nodes of the draft pay"
    more = n + int((gain[n:].cumsum() - rate * (seconds[n : len(gain)] - seconds[n - 1])).argmax()) + 1
    cost = seconds[more - 1] - seconds[n - 1]
    bring = f"would bring {gain[n:more].sum():.2f} tokens and cost {1e3 * cost:.2f} ms, the time of {rate * cost:.2f} tokens"
    if n == 1:
        return f"automatic: no draft pays here; {more - 1} nodes {bring}"
    return f"automatic: {more - n} more {'node' if more == n + 1 else 'nodes'} {bring}"


def measure(target: TargetModel, contexts: Sequence[int] = CONTEXTS, spend: float = SECONDS_TO_SPEND) -> StepCost:
    """Time steps of every size on this model and device: medians after a warm-up run, about ``spend`` seconds in all."""
    sizes: tuple[int, ...] = target.step_sizes if target.pool is not None else SIZES
    contexts = [c for c in contexts if c + 2 * sizes[-1] < target.context_limit] or [max(1, target.context_limit // 4)]
    if target.pool is None:
        contexts = contexts[:1]  # without a graph, attention's share of a step is small and the time for calibration short
        sizes = tuple(s for s in sizes if contexts[0] + s < target.context_limit)
    rows = []
    for context in contexts:
        session = target.session(context + 2 * sizes[-1])
        session.prefill([token % target.vocab_size for token in range(3, 3 + context)])
        rows.append(tuple(_median_seconds(target, session, size, spend / len(contexts) / len(sizes)) for size in sizes))
        session.close()
    return StepCost(tuple(sizes), tuple(contexts), tuple(rows), target.pool is not None)


def _median_seconds(target: TargetModel, session: object, size: int, spend: float) -> float:
    from aded.verify import Rule, SamplingSettings

    tree = DraftTree(np.arange(size) % target.vocab_size, np.array([-1] + [(i - 1) // 2 for i in range(1, size)]))
    rule, prefix = Rule(SamplingSettings()), [0]
    taken: list[float] = []
    session.prepare(size, rule)  # type: ignore[attr-defined]
    session.verify(tree, prefix, rule)  # type: ignore[attr-defined]
    until = time.perf_counter() + spend
    while len(taken) < 3 or (time.perf_counter() < until and len(taken) < 50):
        started = time.perf_counter()
        session.verify(tree, prefix, rule)  # type: ignore[attr-defined]
        target.synchronize()
        taken.append(time.perf_counter() - started)
    return float(np.median(taken))


def step_cost(target: TargetModel) -> StepCost:
    """The step's cost on this model and device, measured once and kept in the cache folder."""
    path = cache_folder() / "costs" / f"{target.cost_fingerprint}.json"
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
