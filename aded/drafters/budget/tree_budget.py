"""Chooses the throughput-optimal size of a draft from the measured cost of a step and the expected number of tokens.

A draft of n nodes yields 1 + (sum of the acceptance probabilities of its nodes) expected tokens and costs t(n) seconds.
Throughput over many steps is maximal if every step uses the draft that maximises ``tokens - rate * seconds``, where ``rate`` is
the throughput itself (Dinkelbach 1967). The tree stops growing where the expected tokens of the next node are worth less than its
marginal cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from aded.core import best_first
from aded.core.best_first import highest
from aded.core.compilation.jit import njit
from aded.core.trace import Budget
from aded.core.tree import DraftTree
from aded.drafters.budget.acceptance_statistics import (
    AcceptanceCurve,
    AcceptanceRates,
    calibrate,
    count_children,
    count_predictions,
)
from aded.engine.cost_model import StepCost

MAX_NODES = 64
"""Default maximum size of a draft, the root included."""
INITIAL_RATES = np.full((64, 1), 0.6)
"""Initial acceptance rates by depth, for drafters without priors."""
INITIAL_WEIGHT = 2.0
"""Number of observations that the initial rates count as."""


class FixedBudget:
    """A fixed maximum number of nodes."""

    def __init__(self, nodes: int, why: str) -> None:
        self.cap = nodes
        self._budget = Budget(nodes, why)

    def trim(self, tree: DraftTree, context: int) -> DraftTree:
        """Return the draft unchanged."""
        return tree

    def explain(self) -> Budget:
        """The number of nodes allowed, and why."""
        return self._budget

    def observe(self, tree: DraftTree, path: Sequence[int], emitted: int, seconds: float) -> None:
        """Do nothing: a fixed budget learns nothing."""


class AutomaticBudget:
    """Trims drafts to the throughput-optimal size for this model, device and context, which may be no draft at all.

    Attributes:
        cap: maximum number of nodes to ask the drafter for in the next step; 1 while drafting is paused.
    """

    PATIENCE = 4  # unprofitable drafts before the first pause, and length of the first pause in steps
    MAX_PAUSE = 128  # steps
    WINDOW = 10  # latest drafts over which the mean gain is taken
    STANDARD_ERRORS = 1.5  # the mean gain counts as a loss if it is this many standard errors below zero
    MAX_LOSS = 3.0  # tokens: largest loss counted for one step, since a very slow step means that the machine was busy
    TOO_FAST = 0.75  # a step that takes less than this fraction of its measured cost shows that the cost is wrong
    DECAY = 0.95  # weight of earlier steps in the running throughput, per step

    def __init__(
        self,
        cost: StepCost,
        curve: AcceptanceCurve | None = None,
        largest: int = MAX_NODES,
        outdated: Callable[[], None] = lambda: None,
    ) -> None:
        """Start with the measured cost of a step.

        Args:
            curve: the acceptance curve of earlier decodes, to be updated further.
            largest: maximum number of nodes.
            outdated: called once if the steps show that the cost was measured while the machine was busy.
        """
        self.cost = cost
        self._outdated, self._fast_steps = outdated, 0
        self.largest = self.cap = largest
        self.curve = curve or AcceptanceCurve()
        self._rates = AcceptanceRates(INITIAL_RATES, INITIAL_WEIGHT)
        self._tokens = self._seconds = 0.0
        self._mean_gain, self._variance, self._gains = 0.0, 0.0, 0  # mean, variance and number of recent gains, in tokens
        self._pause, self._next_pause = 0, self.PATIENCE
        self._sampled_nodes = 0
        self._plain_seconds: float | None = None  # of a plain decoding step at this context length, if there was a draft
        self._tables: dict[int, np.ndarray] = {}
        self._last: tuple[int, np.ndarray, np.ndarray, float] | None = None

    def trim(self, tree: DraftTree, context: int) -> DraftTree:
        """The throughput-optimal part of a draft after ``context`` committed tokens. Sampled drafts are not trimmed.

        Removing sampled tokens of low probability would change the distribution from which the draft was sampled, and rejection
        sampling would no longer be lossless.
        """
        self._last, self._plain_seconds = None, None
        self._sampled_nodes = len(tree) if tree.sampled_from is not None else 0
        if len(tree) == 1:
            return tree
        seconds = self._table(context, len(tree))
        self._plain_seconds = None if tree.required else float(seconds[0])  # a method with required nodes is not paused
        if self._sampled_nodes:
            return tree
        rate = max(self._tokens / self._seconds if self._seconds > 0 else 0.0, 1.0 / seconds[0])
        n, order, gain = _choose(tree.parents, self.prior(tree), tree.required, self.curve.counts, seconds, rate)
        self._last = (n, gain, seconds, rate)
        return tree if n == len(tree) else tree.select(np.sort(order[:n]))

    def explain(self) -> Budget:
        """The number of nodes allowed for the last draft, and why."""
        if self._sampled_nodes:
            why = "automatic: a sampled draft is kept whole, its method chose the size before sampling"
            return Budget(self._sampled_nodes, why)
        if self._last is None:
            paused = self.cap == 1
            return Budget(
                1, "automatic: drafting is paused, recent drafts lowered the throughput" if paused else "automatic: no draft"
            )
        n, gain, seconds, rate = self._last
        return Budget(n, _why(n, gain, seconds, rate))

    def observe(self, tree: DraftTree, path: Sequence[int], emitted: int, seconds: float) -> None:
        """Learn from a step: verified draft, accepted path, number of emitted tokens, and seconds including drafting."""
        self._tokens = self.DECAY * self._tokens + emitted
        self._seconds = self.DECAY * self._seconds + seconds
        if self._last is not None:
            self._check_cost(self._last[2][len(tree) - 1], seconds)
        self._update_cap(emitted, seconds)
        if len(tree) == 1:
            return
        accepted = np.asarray(path, dtype=np.int64)
        _learn(tree.parents, self.prior(tree), tree.required, accepted, self.curve.counts, self._rates.counts)

    def prior(self, tree: DraftTree) -> np.ndarray:
        """Predicted probability that each node is accepted if its parent is, float64 ``[n]``."""
        prior = tree.columns.get("prior")
        return self._rates.values[np.clip(tree.depths - 1, 0, len(INITIAL_RATES) - 1), 0] if prior is None else prior

    def _table(self, context: int, nodes: int) -> np.ndarray:
        bucket = context // 32
        if bucket not in self._tables or len(self._tables[bucket]) < nodes:
            self._tables[bucket] = self.cost.table(32 * bucket + 16, max(self.largest, nodes))
        return self._tables[bucket]

    def _check_cost(self, expected: float, seconds: float) -> None:
        """The cost is the minimum of several measurements: steps that are much faster were not possible when it was measured."""
        self._fast_steps += seconds < self.TOO_FAST * expected
        if self._fast_steps == self.PATIENCE:
            self._outdated()

    def _update_cap(self, emitted: int, seconds: float) -> None:
        """Pause drafting while it lowers the throughput; each pause is twice as long as the one before.

        Sampled drafts are never paused: the output would depend on the clock and would not be reproducible. Methods that sample
        choose their size from costs measured once (see ``aded.drafters.budget.draft_length_policy``).
        """
        if self._pause > 0:
            self._pause -= 1
        elif self._plain_seconds is not None and not self._sampled_nodes:
            n = self._add_gain(emitted - min(seconds / self._plain_seconds, emitted + self.MAX_LOSS))
            if self._mean_gain > 0 and n == self.WINDOW:
                self._next_pause = self.PATIENCE
            elif self._mean_gain + self.STANDARD_ERRORS * (self._variance / n) ** 0.5 <= 0 and n >= self.PATIENCE:
                self._pause, self._next_pause = self._next_pause, min(self.MAX_PAUSE, 2 * self._next_pause)
                self._gains = 0
        self.cap = 1 if self._pause else self.largest

    def _add_gain(self, gain: float) -> int:
        """Update mean and variance with the gain of a draft, in tokens; returns the number of gains that they cover."""
        self._gains += 1
        n = min(self._gains, self.WINDOW)
        deviation = gain - self._mean_gain
        self._mean_gain += deviation / n
        self._variance = (1 - 1 / n) * (self._variance + deviation**2 / n)
        return n


def _why(n: int, gain: np.ndarray, seconds: np.ndarray, rate: float) -> str:
    if n >= len(gain):
        return f"automatic: all {n} nodes of the draft are throughput-optimal"
    more = n + int((gain[n:].cumsum() - rate * (seconds[n : len(gain)] - seconds[n - 1])).argmax()) + 1
    cost = seconds[more - 1] - seconds[n - 1]
    benefit = f"would add {gain[n:more].sum():.2f} tokens and cost {1e3 * cost:.2f} ms, the time of {rate * cost:.2f} tokens"
    if n == 1:
        return f"automatic: plain decoding is fastest here; {more - 1} nodes {benefit}"
    return f"automatic: {more - n} more {'node' if more == n + 1 else 'nodes'} {benefit}"


@njit(cache=True)
def _joint(parents, prior):
    """Product of the priors along each node's path, float64 ``[n]``; an unknown prior counts as 0.5."""
    joint = np.ones(len(parents))
    for node in range(1, len(parents)):
        p = prior[node]
        joint[node] = joint[parents[node]] * (0.5 if np.isnan(p) else min(max(p, 0.0), 1.0))
    return joint


@njit(cache=True)
def _choose(parents, prior, required, counts, seconds, rate):
    """The number of nodes to keep, all nodes by decreasing probability (parents first), and the expected tokens of each.

    The root and the required nodes come first and are always kept; required nodes count as 0 expected tokens.
    """
    joint = _joint(parents, prior)
    joint[1 : required + 1] = 1.0
    order = highest(joint, len(joint), 0.0)
    gain = calibrate(joint[order], counts)
    gain[0], gain[1 : required + 1] = 1.0, 0.0
    best, value, total = required + 1, 1.0 - rate * seconds[required], 1.0
    for i in range(required + 1, len(joint)):
        total += gain[i]
        new_value = total - rate * seconds[i]
        if new_value > value:
            best, value = i + 1, new_value
    return best, order, gain


@njit(cache=True)
def _learn(parents, prior, required, path, curve, rates):
    accepted = np.zeros(len(parents), dtype=np.bool_)
    accepted[path] = True
    count_predictions(_joint(parents, prior)[required + 1 :], accepted[required + 1 :], curve)
    count_children(parents, required, path, len(path), rates)


def warm_up() -> None:
    """JIT-compile the functions that this module uses, so that no timed step does."""
    best_first.warm_up()
    policy = AutomaticBudget(StepCost((1, 2), (1,), ((1.0, 1.0),), False), largest=2)
    for columns in ({}, {"prior": np.array([np.nan, 0.5])}):
        tree = DraftTree(np.array([0, 1]), np.array([-1, 0]), columns)
        policy.trim(tree, 1)
        policy.observe(tree, [0, 1], 2, 1.0)
        AcceptanceRates(INITIAL_RATES, INITIAL_WEIGHT).observe(tree, [0, 1], 2)
