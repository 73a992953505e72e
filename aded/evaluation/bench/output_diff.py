"""Comparison of outputs with plain decoding's, and whether a first difference is a numerical tie of two logits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from aded.evaluation.bench.cells import Cell, Key
from aded.evaluation.bench.systems import System

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel
    from aded.evaluation.bench.systems import Task

TIES = {"float32": 2.0**-17, "bfloat16": 2.0**-6, "float16": 2.0**-9}
"""Maximum gap of a tie relative to the largest logit: about two units in the last place (some tens for float32)."""


@dataclass(frozen=True)
class Difference:
    """The first token at which an output differs from plain decoding's.

    Attributes:
        position: index in the output, from 0.
        gap: the target's largest logit there minus the smaller logit of the two chosen tokens; None for sampled outputs, and if
            one output is a prefix of the other.
        tie: whether the gap is within the rounding error of the dtype.
    """

    question: str
    repeat: int
    position: int
    gap: float | None
    tie: bool

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


TieCheck = Callable[[str, Sequence[int], int, int], "tuple[float, bool]"]
"""Maps (question, output before, plain decoding's token, the other token) to (gap, tie)."""


def compare(
    cells: Sequence[Cell], systems: Sequence[System], greedy: bool, tie_check: TieCheck, plain: str = "plain"
) -> dict[Key, Difference | None]:
    """Compare each output with plain decoding's for the same question and repeat; None where they are equal.

    Sampled outputs are compared only for coupled systems, which use plain decoding's random numbers.
    """
    plain_ids = {cell.key[::2]: cell.token_ids for cell in cells if cell.method == plain}
    comparable = {c.name for c in systems if c.name != plain and (greedy or c.coupled)}
    return {
        cell.key: _difference(cell, plain_ids[cell.key[::2]], tie_check, greedy) for cell in cells if cell.method in comparable
    }


def _difference(cell: Cell, plain: Sequence[int], tie_check: TieCheck, greedy: bool) -> Difference | None:
    position = first_difference(plain, cell.token_ids)
    if position is None:
        return None
    if not greedy or position >= min(len(plain), len(cell.token_ids)):
        return Difference(cell.question, cell.repeat, position, None, False)
    gap, tie = tie_check(cell.question, plain[:position], plain[position], cell.token_ids[position])
    return Difference(cell.question, cell.repeat, position, gap, tie)


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """The first index at which two token lists differ; None if they are equal."""
    for position, (a, b) in enumerate(zip(one, other)):
        if a != b:
            return position
    return None if len(one) == len(other) else min(len(one), len(other))


def tie_check_of(target: TargetModel, tasks: Iterable[Task]) -> TieCheck:
    """A tie_check that computes the target's logits again, with one forward pass over prompt and output."""
    prompts: Mapping[str, Sequence[int]] = {task.id: task.prompt for task in tasks}

    def tie_check(question: str, before: Sequence[int], one: int, other: int) -> tuple[float, bool]:
        import torch

        ids = torch.tensor([[*prompts[question], *before]], device=target.device)
        logits = target.forward(ids, None, None, None, keep=1).logits[0, -1].double()
        highest = float(logits.max())
        gap = highest - min(float(logits[one]), float(logits[other]))
        tolerance = TIES[str(target.dtype).removeprefix("torch.")] * float(logits.abs().max())
        return gap, gap <= tolerance

    return tie_check
