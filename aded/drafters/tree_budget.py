"""How large a draft pays: the step's measured cost against what the next node is expected to bring.

A draft of n nodes is expected to bring 1 + sum of its nodes' acceptance probabilities in tokens and to cost t(n) seconds.
Throughput over many steps is best where every step takes the draft that maximises ``tokens - rate * seconds``, with ``rate`` the
throughput itself (Dinkelbach 1967): the tree stops growing where the next node's gain no longer pays its marginal cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from aded.core.jit import njit
from aded.core.trace import Budget
from aded.core.tree import DraftTree
from aded.engine.cost_model import StepCost

if TYPE_CHECKING:
    pass

LARGEST = 64
MEMORY = 4000.0
"""Predicted acceptances that a curve remembers before older ones count half."""


class AcceptanceCurve:
    """What a predicted acceptance probability is worth, learned from what was accepted.

    Predictions fall into bins by their logarithm. A bin's value starts as the prediction itself and moves to the observed share;
    what all bins have in common is learned first.
    """

    BINS = 16
    WEIGHT = 12.0  # predicted acceptances that it takes to weigh the observed ones as much as the prediction

    def __init__(self) -> None:
        self.counts = np.zeros((2, self.BINS))  # sums of predictions and of acceptances

    def __call__(self, predicted: np.ndarray) -> np.ndarray:
        """Calibrated probabilities, float64 ``[n]``."""
        return np.array([_calibrated(p, self.counts, _ratio(self.counts, self.WEIGHT), self.WEIGHT) for p in predicted])

    def observe(self, predicted: np.ndarray, accepted: np.ndarray) -> None:
        """Count verified nodes: predicted probability, and whether each was accepted; ``[n]`` each."""
        _count(np.asarray(predicted, dtype=np.float64), np.asarray(accepted, dtype=np.bool_), self.counts)


class FixedBudget:
    """As many nodes as the user said."""

    def __init__(self, nodes: int, why: str) -> None:
        self.cap = nodes
        self._budget = Budget(nodes, why)

    def trim(self, tree: DraftTree, context: int) -> DraftTree:
        """The draft as it is."""
        return tree

    def explain(self) -> Budget:
        """What was allowed, and why."""
        return self._budget

    def observe(self, tree: DraftTree, path: Sequence[int], emitted: int, seconds: float) -> None:
        """Nothing is learned."""


class AutomaticBudget:
    """The draft as large as it pays on this model, device and context, and no draft where none pays.

    Attributes:
        cap: nodes to ask the drafter for next; 1 spares the drafting itself while it does not pay.
    """

    PATIENCE = 4  # drafts in a row that have not paid before drafting is tried less and less often
    LONGEST_PAUSE = 128
    RECENT = 10  # drafts whose gain counts
    SURE = 1.5  # standard errors below zero at which a mean gain counts as a loss: drafts that pay may fail four times in a row
    WORST = 3.0  # plain steps: a step that took longer, so much longer did, says that the machine was busy
    FORGET = 0.95  # weight of the past in the running throughput, by step

    def __init__(self, cost: StepCost, curve: AcceptanceCurve | None = None, largest: int = LARGEST) -> None:
        """``curve``: what earlier decodes have learned, continued here."""
        self.cost = cost
        self.largest = self.cap = largest
        self.curve = curve or AcceptanceCurve()
        self._by_depth = np.full((64, 2), (1.2, 2.0))  # accepted and tried, for drafters that give no probabilities
        self._tokens = self._seconds = 0.0
        self._gain, self._spread, self._tries = 0.0, 0.0, 0  # mean and variance of the newest drafts' gains, tokens a step
        self._pause, self._next_pause = 0, self.PATIENCE
        self._drawn = 0
        self._plain_seconds: float | None = None  # of a plain step here, where a draft was made
        self._tables: dict[int, np.ndarray] = {}
        self._last: tuple[int, np.ndarray, np.ndarray, float] | None = None

    def trim(self, tree: DraftTree, context: int) -> DraftTree:
        """The part of a draft that pays over ``context`` committed tokens; one that was sampled stays whole.

        To drop what was drawn for its small probability would be to draw from something else than the draft says.
        """
        self._last, self._drawn, self._plain_seconds = None, len(tree) if tree.drawn is not None else 0, None
        if len(tree) == 1:
            return tree
        seconds = self._table(context, len(tree))
        self._plain_seconds = None if tree.required else float(seconds[0])  # a method that needs its passes is not paused
        if self._drawn:
            return tree
        rate = max(self._tokens / self._seconds if self._seconds > 0 else 0.0, 1.0 / seconds[0])
        n, order, gain = _choose(
            tree.parents, self.prior(tree), tree.required, self.curve.counts, AcceptanceCurve.WEIGHT, seconds, rate
        )
        self._last = (n, gain, seconds, rate)
        return tree if n == len(tree) else tree.select(np.sort(order[:n]))

    def explain(self) -> Budget:
        """What the last draft was allowed, and why."""
        if self._drawn:
            return Budget(self._drawn, "automatic: a sampled draft is kept whole, its method chose its size before it drew")
        if self._last is None:
            paused = self.cap == 1
            return Budget(1, "automatic: drafts have not paid here, the next try comes soon" if paused else "automatic: no draft")
        n, gain, seconds, rate = self._last
        return Budget(n, _why(n, gain, seconds, rate))

    def observe(self, tree: DraftTree, path: Sequence[int], emitted: int, seconds: float) -> None:
        """Learn from a step: its verified draft, the accepted path, the tokens it wrote, and its seconds, drafting included."""
        self._tokens = self.FORGET * self._tokens + emitted
        self._seconds = self.FORGET * self._seconds + seconds
        self._plan(emitted, seconds)
        if len(tree) == 1:
            return
        accepted = np.asarray(path, dtype=np.int64)
        _learn(tree.parents, self.prior(tree), tree.required, accepted, self.curve.counts, self._by_depth)

    def prior(self, tree: DraftTree) -> np.ndarray:
        """Predicted probability that each node is accepted if its parent is, float64 ``[n]``."""
        prior = tree.columns.get("prior")
        if prior is None:
            prior = (self._by_depth[:, 0] / self._by_depth[:, 1])[np.minimum(tree.depths, len(self._by_depth) - 1)]
        return prior

    def _table(self, context: int, nodes: int) -> np.ndarray:
        place = context // 32
        if place not in self._tables or len(self._tables[place]) < nodes:
            self._tables[place] = self.cost.table(32 * place + 16, max(self.largest, nodes))
        return self._tables[place]

    def _plan(self, emitted: int, seconds: float) -> None:
        """While drafts do not pay for their making and verification, spare them: ever longer pauses between tries.

        Not where drafts are sampled: what is drawn would depend on the clock, and runs would not repeat. Methods that draw
        choose what pays by costs that were measured once (see ``aded.drafters.draft_length_policy``).
        """
        if self._pause > 0:
            self._pause -= 1
        elif self._plain_seconds is not None and not self._drawn:
            known = self._count_gain(emitted - min(seconds / self._plain_seconds, emitted + self.WORST))
            if self._gain > 0 and known == self.RECENT:
                self._next_pause = self.PATIENCE
            elif self._gain + self.SURE * (self._spread / known) ** 0.5 <= 0 and known >= self.PATIENCE:
                self._pause, self._next_pause = self._next_pause, min(self.LONGEST_PAUSE, 2 * self._next_pause)
                self._tries = 0
        self.cap = 1 if self._pause else self.largest

    def _count_gain(self, gain: float) -> int:
        """Take a draft's gain in; over how many of the newest ones the mean now goes."""
        self._tries += 1
        known = min(self._tries, self.RECENT)
        surprise = gain - self._gain
        self._gain += surprise / known
        self._spread = (1 - 1 / known) * (self._spread + surprise**2 / known)
        return known


def _why(n: int, gain: np.ndarray, seconds: np.ndarray, rate: float) -> str:
    if n >= len(gain):
        return f"automatic: all {n} nodes of the draft pay"
    more = n + int((gain[n:].cumsum() - rate * (seconds[n : len(gain)] - seconds[n - 1])).argmax()) + 1
    cost = seconds[more - 1] - seconds[n - 1]
    bring = f"would bring {gain[n:more].sum():.2f} tokens and cost {1e3 * cost:.2f} ms, the time of {rate * cost:.2f} tokens"
    if n == 1:
        return f"automatic: no draft pays here; {more - 1} nodes {bring}"
    return f"automatic: {more - n} more {'node' if more == n + 1 else 'nodes'} {bring}"


@njit(cache=True)
def _ratio(counts, weight):
    return (counts[1].sum() + weight) / (counts[0].sum() + weight)


@njit(cache=True)
def _bin(predicted, bins):
    return min(max(int(-2.0 * np.log2(max(predicted, 1e-6))), 0), bins - 1)


@njit(cache=True)
def _calibrated(predicted, counts, overall, weight):
    place = _bin(predicted, counts.shape[1])
    ratio = (counts[1, place] + weight * overall) / (counts[0, place] + weight)
    return min(max(predicted * ratio, 0.0), 1.0)


@njit(cache=True)
def _count(predicted, accepted, counts):
    for i in range(len(predicted)):
        place = _bin(predicted[i], counts.shape[1])
        counts[0, place] += predicted[i]
        counts[1, place] += accepted[i]
    if counts[0].sum() > MEMORY:
        counts *= 0.5


@njit(cache=True)
def _joint(parents, prior):
    """Product of the priors along each node's path; unknown ones count a half."""
    joint = np.ones(len(parents))
    for node in range(1, len(parents)):
        p = prior[node]
        joint[node] = joint[parents[node]] * (0.5 if np.isnan(p) else min(max(p, 0.0), 1.0))
    return joint


@njit(cache=True)
def _choose(parents, prior, required, counts, weight, seconds, rate):
    """Nodes to keep, all nodes from the most to the least probable (parents first), and what each of those brings.

    The root and the required nodes come first and are always kept; they bring nothing now.
    """
    joint = _joint(parents, prior)
    joint[1 : required + 1] = 1.0
    order = np.argsort(-joint, kind="mergesort")  # stable: a parent is no less probable than its child and stands before it
    overall = _ratio(counts, weight)
    gain = np.ones(len(parents))
    gain[1 : required + 1] = 0.0
    best, value, total = required + 1, 1.0 - rate * seconds[required], 1.0
    for i in range(required + 1, len(parents)):
        gain[i] = _calibrated(joint[order[i]], counts, overall, weight)
        total += gain[i]
        worth = total - rate * seconds[i]
        if worth > value:
            best, value = i + 1, worth
    return best, order, gain


@njit(cache=True)
def _learn(parents, prior, required, path, counts, by_depth):
    joint = _joint(parents, prior)
    n = len(parents)
    accepted = np.zeros(n, dtype=np.bool_)
    depth = np.zeros(n, dtype=np.int64)
    accepted[path] = True
    for node in range(1, n):
        depth[node] = min(depth[parents[node]] + 1, len(by_depth) - 1)
        if node > required and accepted[parents[node]]:
            by_depth[depth[node], 1] += 1.0
            by_depth[depth[node], 0] += accepted[node]
    _count(joint[required + 1 :], accepted[required + 1 :], counts)


def warm_up() -> None:
    """Compile what is compiled here, so that it does not happen inside a timed step."""
    policy = AutomaticBudget(StepCost((1, 2), (1,), ((1.0, 1.0),), False), largest=2)
    for columns in ({}, {"prior": np.array([np.nan, 0.5])}):
        tree = DraftTree(np.array([0, 1]), np.array([-1, 0]), columns)
        policy.trim(tree, 1)
        policy.observe(tree, [0, 1], 2, 1.0)
    AcceptanceCurve()(np.array([0.5]))
