"""Evaluation of a drafter on recorded greedy outputs, replayed without a model.

The recorded continuation replaces the target: a draft token is accepted if it equals the recorded token, and the bonus or
correction token of a step is the next recorded one. The tokens of a step are the accepted draft tokens and this token; the last
step of a record may have only accepted ones.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from aded.core.tree import DraftTree
from aded.data.records import Record
from aded.drafters.base import Context, Drafter, Outcome
from aded.evaluation.positions import PositionCounts


@dataclass
class Tally:
    """Counts over replayed steps. Lists have one entry per step: times in seconds, and nodes of the draft tree with the root."""

    tokens: int = 0
    steps: int = 0
    drafted: int = 0
    accepted: int = 0
    draft_seconds: list[float] = field(default_factory=list)
    update_seconds: list[float] = field(default_factory=list)
    tree_nodes: list[int] = field(default_factory=list)
    positions: PositionCounts = field(default_factory=PositionCounts)

    @property
    def tokens_per_step(self) -> float:
        return self.tokens / self.steps if self.steps else 0.0

    @property
    def drafted_per_step(self) -> float:
        return self.drafted / self.steps if self.steps else 0.0

    @property
    def draft_ms(self) -> float:
        """Median time of drafting, in milliseconds."""
        return 1e3 * statistics.median(self.draft_seconds) if self.draft_seconds else 0.0

    @property
    def update_ms(self) -> float:
        """Median time of the update after a step, in milliseconds."""
        return 1e3 * statistics.median(self.update_seconds) if self.update_seconds else 0.0

    @property
    def host_ms(self) -> float:
        """Median time of drafting and update together, in milliseconds."""
        totals = [d + u for d, u in zip(self.draft_seconds, self.update_seconds)]
        return 1e3 * statistics.median(totals) if totals else 0.0

    def add(self, other: Tally) -> None:
        """Add the counts of another tally."""
        for name in ("tokens", "steps", "drafted", "accepted"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.draft_seconds += other.draft_seconds
        self.update_seconds += other.update_seconds
        self.tree_nodes += other.tree_nodes
        self.positions.add_counts(other.positions.reached, other.positions.accepted)


@dataclass(frozen=True)
class Report:
    """The tally of all records, and one per category."""

    all: Tally
    categories: dict[str, Tally]

    def excluding(self, *, without: Sequence[str] = ()) -> Tally:
        """The tally of all categories except the named ones."""
        tally = Tally()
        for name, counted in self.categories.items():
            if name not in without:
                tally.add(counted)
        return tally


def replay(drafter: Drafter, records: Iterable[Record], budget: int) -> Report:
    """Replay every record, restarting the drafter each time, with at most ``budget`` nodes per draft tree."""
    report = Report(Tally(), defaultdict(Tally))
    for record in records:
        tally = replay_one(drafter, record, budget)
        report.all.add(tally)
        report.categories[record.category].add(tally)
    return report


def replay_one(drafter: Drafter, record: Record, budget: int) -> Tally:
    """Replay one record."""
    text = np.concatenate([record.prompt, record.output]).astype(np.int32)
    prompt_length = position = len(record.prompt)
    tally = Tally()
    drafter.start(record.prompt.tolist())
    while position < len(text):
        context = Context(text[:position], prompt_length)
        before = perf_counter()
        tree = drafter.propose(context, budget)
        drafted = perf_counter()
        path = accepted_path(tree, text[position:])
        emitted = text[position : position + len(path)]
        outcome = Outcome(tree, path, context, emitted)
        observed = perf_counter()
        drafter.observe(outcome)
        tally.update_seconds.append(perf_counter() - observed)
        tally.draft_seconds.append(drafted - before)
        tally.tokens += len(emitted)
        tally.accepted += min(len(path) - 1, len(emitted))
        tally.drafted += tree.drafted
        tally.tree_nodes.append(len(tree))
        tally.positions.add(tree.parents.tolist(), path[: len(emitted)].tolist())
        tally.steps += 1
        position += len(emitted)
    return tally


def accepted_path(tree: DraftTree, continuation: np.ndarray) -> np.ndarray:
    """The accepted path: the nodes, from the root, whose tokens equal the continuation (int ``[n]``); int32 ``[a + 1]``."""
    path = [0]
    for token in continuation.tolist():
        child = tree.child(path[-1], token)
        if child is None:
            break
        path.append(child)
    return np.array(path, dtype=np.int32)
