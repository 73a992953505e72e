"""Figures of the artifacts on the held-out conversations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aded.core import tensor_file
from aded.data.records import Record
from aded.drafters.artifacts import datastore_for, matrix_for
from aded.drafters.registry import METHODS
from aded.evaluation.ablation import BUDGET
from aded.evaluation.replay import replay
from aded.ngram.representative import TOP_KS
from aded.ngram.trigram import TrigramMatrix

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel

REPLAYED = 16
"""Number of conversations that are replayed."""


def matrix_figures(target: TargetModel, records: Sequence[Record]) -> dict[str, Any]:
    """How often the next token of an answer is among the first successors, and tokens per step of ADED, replayed."""
    matrix = matrix_for(target)
    assert matrix is not None, "it was just made"
    shares = {f"top_{k}": share for k, share in zip(TOP_KS, successor_shares(matrix, records))}
    return {"rows": len(matrix), **shares, "tokens_per_step": _replayed("aded", target, records)}


def datastore_figures(target: TargetModel, records: Sequence[Record]) -> dict[str, Any]:
    """The number of tokens, and tokens per step of REST, replayed."""
    datastore = datastore_for(target)
    assert datastore is not None, "it was just made"
    return {"tokens": len(datastore), "tokens_per_step": _replayed("rest", target, records)}


def trained_figures(path: Path) -> dict[str, Any]:
    """Accuracy of the most probable token, by position, and simulated acceptance length, from the header of a checkpoint."""
    header = tensor_file.read_header(path).metadata
    figures = json.loads(header["figures"])
    figures = figures.get("recorded", figures)
    accuracy = figures["accuracy"]
    first = [row[0] for row in accuracy] if isinstance(accuracy[0], list) else [accuracy[0]]
    steps = json.loads(header["training"])["steps"]
    return {"steps": steps, "accuracy": first, "acceptance_length": figures["acceptance_length"]}


def successor_shares(matrix: TrigramMatrix, records: Sequence[Record]) -> list[float]:
    """The shares of the tokens of all outputs that are among the first 1, 4 and 12 successors of the two tokens before them.

    A bigram that the matrix does not have is replaced by the second token alone, as in drafting.
    """
    ranks = []
    for record in records:
        text = [*record.prompt.tolist(), *record.output.tolist()]
        for at in range(max(2, len(record.prompt)), len(text)):
            successors, _ = matrix.row(text[at - 2], text[at - 1])
            if not len(successors):
                successors, _ = matrix.row(-1, text[at - 1])
            found = (successors == text[at]).nonzero()[0]
            ranks.append(int(found[0]) if len(found) else max(TOP_KS))
    return [sum(rank < k for rank in ranks) / max(len(ranks), 1) for k in TOP_KS]


def _replayed(method: str, target: TargetModel, records: Sequence[Record]) -> float:
    return replay(METHODS[method].make(target, {}, 0), records[:REPLAYED], BUDGET).all.tokens_per_step


def described(part: str, known: dict[str, Any]) -> str:
    """The figures of a part in words."""
    figures = known.get("figures", {})
    if not figures:
        return "–"
    if part == "matrix":
        shares = ", ".join(f"{figures[f'top_{k}']:.0%}" for k in TOP_KS)
        first = ", ".join(map(str, TOP_KS))
        return f"next token among the first {first} successors: {shares}; aded, replayed: {_steps(figures)}"
    if part == "datastore":
        return f"{figures['tokens']:,} tokens; rest, replayed: {_steps(figures)}"
    accuracy = ", ".join(f"{share:.0%}" for share in figures["accuracy"])
    by_position = " by position" if len(figures["accuracy"]) > 1 else ""
    return f"accuracy at rank 1{by_position}: {accuracy}; simulated acceptance length {figures['acceptance_length']:.2f}"


def _steps(figures: dict[str, Any]) -> str:
    return f"{figures['tokens_per_step']:.2f} tokens per step"
