"""Rows of the results table from measured cells: medians, and ranges over repeats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from aded.evaluation.bench.cells import Cell, Key
from aded.evaluation.bench.output_diff import Difference
from aded.evaluation.bench.systems import System
from aded.evaluation.positions import PositionCounts

PLAIN = "plain"
ALL = "all"
RESAMPLES = 2000
POSITIONS = 8
"""Draft positions of which the acceptance rate is reported."""
Row = dict[str, Any]


def rows_of(
    cells: Sequence[Cell],
    systems: Sequence[System],
    texts: Mapping[str, Sequence[int]],
    compared: Mapping[Key, Difference | None],
) -> list[Row]:
    """One row per method over all questions, then one per method and category.

    Args:
        cells: all finished cells.
        systems: in display order.
        texts: by question, the output of which the fraction of distinct 4-grams is reported.
        compared: by cell, the difference of its output from plain decoding's; None if equal, absent if not compared.
    """
    categories = list(dict.fromkeys(cell.category for cell in cells if cell.category))
    rows = []
    for category in [ALL, *categories]:
        selected = [cell for cell in cells if category in (ALL, cell.category)]
        plain = [cell for cell in selected if cell.method == PLAIN]
        distinct = distinct_ngrams([texts[q] for q in dict.fromkeys(cell.question for cell in selected) if q in texts])
        for system in systems:
            measured = [cell for cell in selected if cell.method == system.name]
            if not measured:
                continue
            head = {"method": system.name, "label": system.label, "lossless": system.lossless, "category": category}
            rows.append(
                {
                    **head,
                    **row_of(measured, plain),
                    "distinct_4grams": distinct,
                    **_identity([compared[c.key] for c in measured if c.key in compared]),
                }
            )
    return rows


def row_of(cells: Sequence[Cell], plain: Sequence[Cell]) -> Row:
    """A method's figures over its cells; ``plain``: plain decoding's cells for the same questions."""
    rates, ratios = throughputs(cells), speedups(cells, plain)
    steps = sum(cell.steps for cell in cells)
    row: Row = {"questions": len({cell.question for cell in cells}), "repeats": len({cell.repeat for cell in cells})}
    row |= {"tokens": sum(cell.tokens for cell in cells), "steps": steps}
    row |= {"tokens_per_second": _median(rates), "tokens_per_second_spread": spread(rates)}
    row |= {"speedup": _median(ratios), "speedup_spread": spread(ratios)}
    row["verdict"] = None if cells[0].method == PLAIN else verdict(ratios)
    row["tokens_per_step"] = row["tokens"] / steps if steps else None
    row |= intervals(cells, plain)
    row["accepted_per_step"] = sum(cell.accepted for cell in cells) / steps if steps else None
    positions = PositionCounts()
    for cell in cells:
        positions.add_counts(cell.reached_at, cell.accepted_at)
    row["acceptance_by_position"] = positions.rates(POSITIONS)
    for name in ("draft_ms", "verify_ms", "commit_ms", "update_ms", "step_ms"):
        row[name] = _median([value for cell in cells for value in getattr(cell, name)])
    row["host_ms"] = _median([value for cell in cells for value in host_ms(cell)])
    row["prefill_ms"] = _median([cell.prefill_ms for cell in cells if cell.prefill_ms is not None])
    for name in ("budget_nodes", "tree_nodes"):
        values = [value for cell in cells for value in getattr(cell, name)]
        row[name] = float(np.mean(values)) if values else None
    row["memory_mb"] = max((cell.memory_mb for cell in cells if cell.memory_mb is not None), default=None)
    return row


def intervals(cells: Sequence[Cell], plain: Sequence[Cell]) -> Row:
    """95 % bootstrap intervals over questions of the speed-up and of the tokens per step; None for fewer than two questions.

    Each of ``RESAMPLES`` times, as many questions as there are are drawn with replacement (Efron 1979, percentile interval).
    """
    names = sorted({cell.question for cell in cells})
    sums = {name: np.zeros(5) for name in names}  # tokens, steps, seconds; tokens and seconds of plain decoding
    for cell in cells:
        sums[cell.question][:3] += cell.tokens, cell.steps, cell.seconds or 0.0
    for cell in plain:
        if cell.question in sums:
            sums[cell.question][3:] += cell.tokens, cell.seconds or 0.0
    drawn = np.random.default_rng(0).integers(len(names), size=(RESAMPLES, len(names)))
    tokens, steps, seconds, plain_tokens, plain_seconds = np.array([sums[name] for name in names])[drawn].sum(1).T
    with np.errstate(divide="ignore", invalid="ignore"):
        found = {"speedup": tokens / seconds * plain_seconds / plain_tokens, "tokens_per_step": tokens / steps}
    limits = {name: np.percentile(values, (2.5, 97.5)) for name, values in found.items()}
    known = {name: bool(len(names) > 1 and np.isfinite(pair).all() and pair[1] > 0) for name, pair in limits.items()}
    return {f"{name}_interval": pair.tolist() if known[name] else None for name, pair in limits.items()}


def throughputs(cells: Iterable[Cell]) -> list[float]:
    """Tokens per second of each repeat: total tokens over total time."""
    tokens: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for cell in cells:
        if cell.seconds is not None:
            tokens[cell.repeat] = tokens.get(cell.repeat, 0) + cell.tokens
            seconds[cell.repeat] = seconds.get(cell.repeat, 0.0) + cell.seconds
    return [tokens[repeat] / seconds[repeat] for repeat in sorted(tokens) if seconds[repeat] > 0]


def speedups(cells: Sequence[Cell], plain: Sequence[Cell]) -> list[float]:
    """Throughput relative to plain decoding's in the same repeat, one value per repeat."""
    rates, baseline = throughputs(cells), throughputs(plain)
    return [a / b for a, b in zip(rates, baseline) if b > 0] if len(rates) == len(baseline) else []


def verdict(ratios: Sequence[float]) -> str | None:
    """The speed-ups of all repeats in words; None if there are none."""
    if not ratios:
        return None
    if max(ratios) <= 1:
        return "slower than plain"
    return "faster than plain" if min(ratios) > 1 else "not clearly faster than plain"


def host_ms(cell: Cell) -> list[float]:
    """Time of each step outside the target's forward pass, in milliseconds; empty for peers that do not expose it."""
    commits = cell.commit_ms or [0.0] * len(cell.draft_ms)  # replay has no KV cache to compact
    return [sum(times) for times in zip(cell.draft_ms, commits, cell.update_ms)]


def distinct_ngrams(texts: Iterable[Sequence[int]], n: int = 4) -> float | None:
    """Fraction of n-grams that are distinct within their text, over all texts; 1 means no repetition, None no n-grams."""
    distinct = total = 0
    for ids in texts:
        grams = [tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)]
        distinct, total = distinct + len(set(grams)), total + len(grams)
    return distinct / total if total else None


def spread(values: Sequence[float]) -> list[float] | None:
    """Minimum and maximum over repeats; None for a single repeat."""
    return [min(values), max(values)] if len(values) > 1 else None


def _median(values: Sequence[float]) -> float | None:
    return float(np.median(values)) if len(values) else None


def _identity(found: Sequence[Difference | None]) -> Row:
    """Number of outputs equal to plain decoding's, and the first difference, preferably one that is not a tie."""
    if not found:
        return {"identical": None, "compared": None, "ties": None, "first_difference": None}
    different = [d for d in found if d is not None]
    first = next((d for d in different if not d.tie), different[0] if different else None)
    return {
        "identical": len(found) - len(different),
        "compared": len(found),
        "ties": sum(d.tie for d in different),
        "first_difference": first.to_json() if first else None,
    }
