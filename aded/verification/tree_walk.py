"""Walk through a draft tree along the target's choices, and the verdict on every node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch

from aded.core.tree import DraftTree


@dataclass(frozen=True)
class Verification:
    """Result of the verification of a draft tree.

    Attributes:
        path: accepted nodes, starting with the root.
        next_token: the target's token after the path: a bonus token if the last node is a leaf, else a correction token.
        draws: uniform random number of the token chosen at each node of the path; None if greedy.
        non_finite: first node of the path with NaN or infinite logits, where the choice is meaningless; None if there is none.
    """

    path: list[int]
    next_token: int
    draws: list[float | None] = field(default_factory=list)
    non_finite: int | None = None

    def chosen(self, tree: DraftTree) -> list[int]:
        """The tokens that the step emits: one per node of the path."""
        return [int(tree.tokens[node]) for node in self.path[1:]] + [self.next_token]


def walk(tree: DraftTree, choose: Callable[[int, list[int]], tuple[int, float | None]]) -> Verification:
    """Choose one token per node, starting at the root, and descend while a child holds the chosen token.

    Args:
        choose: (node, path to it) to the target's token and its uniform random number.
    """
    path, draws = [0], []
    while True:
        token, draw = choose(path[-1], path)
        draws.append(draw)
        child = tree.child(path[-1], token)
        if child is None:
            return Verification(path, token, draws)
        path.append(child)


def first_non_finite(path: Sequence[int], logits: torch.Tensor) -> int | None:
    """The first node of a path whose logits (``[n, vocab]``) contain NaN or +infinity, or only -infinity; None if none."""
    finite = logits[list(path)].amax(-1).isfinite().tolist()
    return None if all(finite) else path[finite.index(False)]


Verdict = Literal["root", "accepted", "rejected", "unreached"]


def verdicts(tree: DraftTree, path: Sequence[int], kept: int) -> tuple[list[str], list[str]]:
    """Verdict and reason for each node (see ``aded.core.trace``).

    Args:
        tree: ``n`` nodes.
        path: accepted nodes, starting with the root.
        kept: number of the step's tokens that were kept, below ``len(path)`` if the text ended inside the path.

    Returns:
        Two lists of length ``n``.
    """
    on_path, drafted = {node: i for i, node in enumerate(path)}, len(tree) - 1
    verdict, reason = ["root", *["unreached"] * drafted], ["root", *["parent not accepted"] * drafted]
    for node, parent in enumerate(tree.parents.tolist()):
        if parent not in on_path:
            continue
        if on_path[parent] >= (kept if node in on_path else max(kept, 1)):
            reason[node] = "cut at the end"
        elif node in on_path:
            verdict[node], reason[node] = "accepted", "target chose it"
        else:
            verdict[node] = "rejected"
            reason[node] = "target chose a sibling" if parent != path[-1] else "target chose an undrafted token"
    return verdict, reason
