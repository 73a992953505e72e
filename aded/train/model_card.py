"""Writes the model card of trained heads or of a trained draft model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aded.train.loop import Run

SHOWN_RANKS = 5
"""Number of ranks in the accuracy table. The accuracy at rank k is the share of labels that are the k-th most probable token."""


def model_card(
    title: str, predictor: str, model: str, command: str, rows: Sequence[tuple[str, object]], figures: dict[str, Any], run: Run
) -> str:
    """The model card as Markdown.

    Args:
        title: what was trained.
        predictor: what each row of ``figures["accuracy"]`` belongs to, such as "head"; not used if it has only one row.
        model: label of the target model.
        command: the command that trains it again.
        rows: names and values of the first table, such as corpus, seed and device.
        figures: result of ``Objective.evaluate`` on held-out text; ``recorded``, if present, is its result on recorded outputs.
        run: the finished training run.
    """
    facts = [*rows, ("training time", f"{run.seconds:.0f} s, {run.step} steps"), ("training loss", _loss_summary(run.losses))]
    return "\n".join(
        [
            f"# {title}",
            "",
            f"For `{model}`. Trained with",
            "",
            "```",
            command,
            "```",
            "",
            *_table(("", ""), facts),
            "",
            "On held-out text:",
            "",
            *_figures(figures, predictor),
            "",
            *(["On recorded outputs:", "", *_figures(figures["recorded"], predictor), ""] if "recorded" in figures else []),
            "During training (acceptance length: tokens per step of greedily drafted chains on held-out text, simulated):",
            "",
            *_table(("step", "training loss", "acceptance length"), [_point(*point) for point in run.curve]),
            "",
        ]
    )


def _loss_summary(losses: Sequence[float]) -> str:
    return f"{losses[0]:.3f} at the start, {losses[-1]:.3f} at the end" if losses else "not measured"


def _point(step: int, loss: float, length: float) -> tuple[str, str, str]:
    return f"{step:,}", f"{loss:.3f}", f"{length:.2f}"


def _figures(figures: dict[str, Any], predictor: str) -> list[str]:
    accuracy = figures["accuracy"]
    names = [f"rank {rank + 1}" for rank in range(SHOWN_RANKS)]
    if isinstance(accuracy[0], list):
        lines = [
            (f"{predictor} {i + 1}", f"{loss:.3f}", *_percentages(row))
            for i, (loss, row) in enumerate(zip(figures["loss"], accuracy))
        ]
        return [*_table(("", "loss", *names), lines), "", f"Acceptance length: {figures['acceptance_length']:.3f}."]
    scalars = [(name.replace("_", " "), f"{value:.4f}") for name, value in figures.items() if isinstance(value, float)]
    return [*_table(("", ""), scalars), "", *_table(("accuracy at", *names), [("", *_percentages(accuracy))])]


def _percentages(row: Sequence[float]) -> list[str]:
    return [f"{100 * accuracy:.1f} %" for accuracy in row[:SHOWN_RANKS]]


def _table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    return [_line(header), _line(["---"] * len(header)), *map(_line, rows)]


def _line(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"
