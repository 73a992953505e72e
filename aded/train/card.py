"""The card of a trained part: what it is, how it was made, what it is worth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aded.train.loop import Run

SHOWN_RANKS = 5


def card(title: str, model: str, command: str, rows: Sequence[tuple[str, object]], figures: dict[str, Any], run: Run) -> str:
    """Markdown.

    Args:
        title: what the part is; model: what it was trained for; command: what makes it again.
        rows: facts, name and value.
        figures: on held-out text (see the objective); under ``recorded``, if there, the same on recorded outputs.
        run: the finished run.
    """
    facts = [*rows, ("training time", f"{run.seconds:.0f} s, {run.step} steps"), ("training loss", _course(run.losses))]
    return "\n".join(
        [
            f"# {title}",
            "",
            f"For `{model}`. Made by",
            "",
            "```",
            command,
            "```",
            "",
            *_table(("", ""), facts),
            "",
            "On text that was held out:",
            "",
            *_figures(figures),
            "",
            *(["On recorded outputs:", "", *_figures(figures["recorded"]), ""] if "recorded" in figures else []),
        ]
    )


def _course(losses: Sequence[float]) -> str:
    return f"{losses[0]:.3f} at the start, {losses[-1]:.3f} at the end" if losses else "not measured"


def _figures(figures: dict[str, Any]) -> list[str]:
    accuracy = figures["accuracy"]
    names = [f"rank {rank + 1}" for rank in range(SHOWN_RANKS)]
    if isinstance(accuracy[0], list):
        lines = [(f"head {i + 1}", f"{loss:.3f}", *_shares(row)) for i, (loss, row) in enumerate(zip(figures["loss"], accuracy))]
        return _table(("", "loss", *names), lines)
    rest = [(name, f"{value:.4f}") for name, value in figures.items() if isinstance(value, float)]
    return [*_table(("", ""), rest), "", *_table(("right at", *names), [("", *_shares(accuracy))])]


def _shares(row: Sequence[float]) -> list[str]:
    return [f"{100 * share:.1f} %" for share in row[:SHOWN_RANKS]]


def _table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    return [_line(header), _line(["---"] * len(header)), *map(_line, rows)]


def _line(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"
