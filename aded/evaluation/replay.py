"""How well a drafter drafts, told from recorded text: greedy outputs are replayed with no model in the loop.

The recorded continuation stands in for the target: a drafted token is accepted where it is the recorded one, and the
target's own token after it is the next recorded one. A step's tokens are the accepted ones plus the target's own; a
record's last step may be cut at its end.
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


@dataclass
class Tally:
    """Counts of replayed steps; lists have one entry a step: seconds, and nodes of the draft with its root."""

    tokens: int = 0
    steps: int = 0
    drafted: int = 0
    accepted: int = 0
    draft_seconds: list[float] = field(default_factory=list)
    update_seconds: list[float] = field(default_factory=list)
    tree_nodes: list[int] = field(default_factory=list)

    @property
    def tokens_per_step(self) -> float:
        return self.tokens / self.steps if self.steps else 0.0

    @property
    def drafted_per_step(self) -> float:
        return self.drafted / self.steps if self.steps else 0.0

    @property
    def draft_ms(self) -> float:
        """Median milliseconds of a draft."""
        return 1e3 * statistics.median(self.draft_seconds) if self.draft_seconds else 0.0

    @property
    def update_ms(self) -> float:
        """Median milliseconds of the update after a step."""
        return 1e3 * statistics.median(self.update_seconds) if self.update_seconds else 0.0

    @property
    def host_ms(self) -> float:
        """Median milliseconds of draft and update together."""
        together = [d + u for d, u in zip(self.draft_seconds, self.update_seconds)]
        return 1e3 * statistics.median(together) if together else 0.0

    def add(self, other: Tally) -> None:
        """Count the other's steps too."""
        for name in ("tokens", "steps", "drafted", "accepted"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.draft_seconds += other.draft_seconds
        self.update_seconds += other.update_seconds
        self.tree_nodes += other.tree_nodes


@dataclass(frozen=True)
class Report:
    """All records together, and each category apart."""

    all: Tally
    categories: dict[str, Tally]

    def part(self, *, without: Sequence[str] = ()) -> Tally:
        """The categories but the named ones, together."""
        tally = Tally()
        for name, counted in self.categories.items():
            if name not in without:
                tally.add(counted)
        return tally


def replay(drafter: Drafter, records: Iterable[Record], budget: int) -> Report:
    """Replay every record from a fresh start of the drafter, ``budget`` nodes a draft."""
    report = Report(Tally(), defaultdict(Tally))
    for record in records:
        tally = replay_one(drafter, record, budget)
        report.all.add(tally)
        report.categories[record.category].add(tally)
    return report


def replay_one(drafter: Drafter, record: Record, budget: int) -> Tally:
    """The steps of one record."""
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
        tally.steps += 1
        position += len(emitted)
    return tally


def accepted_path(tree: DraftTree, continuation: np.ndarray) -> np.ndarray:
    """The nodes from the root on whose tokens are the recorded ones, int32 ``[a + 1]``."""
    path = [0]
    for token in continuation.tolist():
        child = tree.child(path[-1], token)
        if child is None:
            break
        path.append(child)
    return np.array(path, dtype=np.int32)
