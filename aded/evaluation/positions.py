"""Acceptance by draft position: how often verification reached the i-th drafted token of a path, and accepted it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class PositionCounts:
    """Counts over steps; element i is of draft position i + 1.

    Attributes:
        reached: steps in which a token was drafted after the accepted ones before it.
        accepted: those of them in which such a token was accepted.
    """

    reached: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)

    def add(self, parents: Sequence[int], path: Sequence[int]) -> None:
        """Count a step.

        Args:
            parents: of the nodes of its draft tree.
            path: its accepted nodes, the root first.
        """
        inner = set(parents)
        reached = sum(node in inner for node in path)
        self.add_counts([1] * reached, [1] * (len(path) - 1))

    def add_counts(self, reached: Sequence[int], accepted: Sequence[int]) -> None:
        """Add the counts of other steps."""
        for own, others in ((self.reached, reached), (self.accepted, accepted)):
            own.extend([0] * (len(others) - len(own)))
            for position, number in enumerate(others):
                own[position] += number

    def rates(self, positions: int) -> list[float | None]:
        """Acceptance rates of the first ``positions`` positions; None for a position that was never reached."""
        accepted = [*self.accepted, *[0] * (len(self.reached) - len(self.accepted))]
        known = [a / r if r else None for a, r in zip(accepted, self.reached)]
        return [*known, *[None] * positions][:positions]
