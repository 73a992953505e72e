"""The walk through a draft tree along the target's choices, and what it says of every node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch

from aded.core.tree import DraftTree


@dataclass(frozen=True)
class Verification:
    """Where the walk went.

    Attributes:
        path: accepted nodes, the root first.
        next_token: the target's token at the end of the path, which no child held.
        draws: the random number of the token chosen at each node of the path; None when greedy.
        non_finite: the first node of the path whose logits hold NaN or infinity, where the choice means nothing; None if none.
    """

    path: list[int]
    next_token: int
    draws: list[float | None] = field(default_factory=list)
    non_finite: int | None = None

    def chosen(self, tree: DraftTree) -> list[int]:
        """The target's choice at each node of the path: what the step writes."""
        return [int(tree.tokens[node]) for node in self.path[1:]] + [self.next_token]


def walk(tree: DraftTree, choose: Callable[[int, list[int]], tuple[int, float | None]]) -> Verification:
    """From the root on: one choice a node; descend while a child holds it."""
    path, draws = [0], []
    while True:
        token, draw = choose(path[-1], path)
        draws.append(draw)
        child = tree.child(path[-1], token)
        if child is None:
            return Verification(path, token, draws)
        path.append(child)


def first_non_finite(path: Sequence[int], logits: torch.Tensor) -> int | None:
    """The first node of a path whose row of the logits ``[n, vocab]`` holds NaN or infinity (or only -infinity); None if none."""
    sound = logits[list(path)].amax(-1).isfinite().tolist()
    return None if all(sound) else path[sound.index(False)]


Verdict = Literal["root", "accepted", "rejected", "unreached"]


def verdicts(tree: DraftTree, path: Sequence[int], kept: int) -> tuple[list[str], list[str]]:
    """Each node's verdict and reason (see ``aded.core.trace``).

    Args:
        tree: ``n`` nodes.
        path: accepted nodes, the root first.
        kept: how many of the step's tokens were kept; less than ``len(path)`` where the text ended inside the path.

    Returns:
        Two lists of ``n``.
    """
    on_path = {node: i for i, node in enumerate(path)}
    verdict, reason = ["root"], ["root"]
    for node in range(1, len(tree)):
        parent = int(tree.parents[node])
        if node in on_path:
            cut = on_path[node] > kept
            verdict.append("unreached" if cut else "accepted")
            reason.append("cut at the end" if cut else "target chose it")
        elif parent in on_path and on_path[parent] < max(kept, 1):
            verdict.append("rejected")
            reason.append("target chose a sibling" if parent != path[-1] else "target chose an undrafted token")
        else:
            verdict.append("unreached")
            reason.append("cut at the end" if parent in on_path else "parent not accepted")
    return verdict, reason
