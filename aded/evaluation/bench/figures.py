"""From measured cells to the rows of a table: pure arithmetic, medians and spreads over repeats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from aded.evaluation.bench.cells import Cell, Key
from aded.evaluation.bench.contenders import Contender
from aded.evaluation.bench.differences import Difference

PLAIN = "plain"
ALL = "all"
Row = dict[str, Any]


def rows_of(
    cells: Sequence[Cell],
    contenders: Sequence[Contender],
    texts: Mapping[str, Sequence[int]],
    compared: Mapping[Key, Difference | None],
) -> list[Row]:
    """One row a method over all questions, then one a method and category.

    Args:
        cells: all finished cells.
        contenders: in the order to show.
        texts: by question, the greedy or sampled output whose share of distinct 4-grams is told.
        compared: by cell, how its output differs from plain decoding's; None where it does not, absent where nobody compared.
    """
    categories = list(dict.fromkeys(cell.category for cell in cells if cell.category))
    rows = []
    for category in [ALL, *categories]:
        part = [cell for cell in cells if category in (ALL, cell.category)]
        plain = [cell for cell in part if cell.method == PLAIN]
        share = distinct_ngrams([texts[q] for q in dict.fromkeys(cell.question for cell in part) if q in texts])
        for contender in contenders:
            own = [cell for cell in part if cell.method == contender.name]
            if not own:
                continue
            head = {"method": contender.name, "label": contender.label, "lossless": contender.lossless, "category": category}
            rows.append(
                {
                    **head,
                    **row_of(own, plain),
                    "distinct_4grams": share,
                    **_identity([compared[c.key] for c in own if c.key in compared]),
                }
            )
    return rows


def row_of(cells: Sequence[Cell], plain: Sequence[Cell]) -> Row:
    """A method's figures on some questions; ``plain``: plain decoding's cells on the same ones."""
    rates, ratios = throughputs(cells), speedups(cells, plain)
    steps = sum(cell.steps for cell in cells)
    row: Row = {"questions": len({cell.question for cell in cells}), "repeats": len({cell.repeat for cell in cells})}
    row |= {"tokens": sum(cell.tokens for cell in cells), "steps": steps}
    row |= {"tokens_per_second": _median(rates), "tokens_per_second_spread": spread(rates)}
    row |= {"speedup": _median(ratios), "speedup_spread": spread(ratios)}
    row["verdict"] = None if cells[0].method == PLAIN else verdict(ratios)
    row["tokens_per_step"] = row["tokens"] / steps if steps else None
    row["accepted_per_step"] = sum(cell.accepted for cell in cells) / steps if steps else None
    for name in ("draft_ms", "verify_ms", "commit_ms", "update_ms", "step_ms"):
        row[name] = _median([value for cell in cells for value in getattr(cell, name)])
    row["host_ms"] = _median([value for cell in cells for value in host_ms(cell)])
    row["prefill_ms"] = _median([cell.prefill_ms for cell in cells if cell.prefill_ms is not None])
    for name in ("budget_nodes", "tree_nodes"):
        values = [value for cell in cells for value in getattr(cell, name)]
        row[name] = float(np.mean(values)) if values else None
    row["memory_mb"] = max((cell.memory_mb for cell in cells if cell.memory_mb is not None), default=None)
    return row


def throughputs(cells: Iterable[Cell]) -> list[float]:
    """Tokens a second of each repeat: all its tokens over all its time."""
    tokens: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for cell in cells:
        if cell.seconds is not None:
            tokens[cell.repeat] = tokens.get(cell.repeat, 0) + cell.tokens
            seconds[cell.repeat] = seconds.get(cell.repeat, 0.0) + cell.seconds
    return [tokens[repeat] / seconds[repeat] for repeat in sorted(tokens) if seconds[repeat] > 0]


def speedups(cells: Sequence[Cell], plain: Sequence[Cell]) -> list[float]:
    """Throughput over plain decoding's in the same repeat, one a repeat."""
    own, base = throughputs(cells), throughputs(plain)
    return [a / b for a, b in zip(own, base) if b > 0] if len(own) == len(base) else []


def verdict(ratios: Sequence[float]) -> str | None:
    """What speedups say in words."""
    if not ratios:
        return None
    if max(ratios) <= 1:
        return "slower than plain"
    return "faster than plain" if min(ratios) > 1 else "not clearly faster than plain"


def host_ms(cell: Cell) -> list[float]:
    """Everything of each step that is outside the target's pass; empty where a peer's inside cannot be seen."""
    commits = cell.commit_ms or [0.0] * len(cell.draft_ms)  # replayed text has no cache to keep
    return [sum(parts) for parts in zip(cell.draft_ms, commits, cell.update_ms)]


def distinct_ngrams(texts: Iterable[Sequence[int]], n: int = 4) -> float | None:
    """Share of distinct n-grams within each text, weighted by length: 1 is a text that never repeats itself."""
    distinct = total = 0
    for ids in texts:
        grams = [tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)]
        distinct, total = distinct + len(set(grams)), total + len(grams)
    return distinct / total if total else None


def spread(values: Sequence[float]) -> list[float] | None:
    """Smallest and largest of several repeats, None of a single one."""
    return [min(values), max(values)] if len(values) > 1 else None


def _median(values: Sequence[float]) -> float | None:
    return float(np.median(values)) if len(values) else None


def _identity(found: Sequence[Difference | None]) -> Row:
    """How many outputs equal plain decoding's, and the first that does not."""
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
