"""The measuring loop, resumable: for each repeat and each question, all methods in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from aded.evaluation.bench.cells import Cell, CellFile
from aded.evaluation.bench.contenders import Contender, Task

Progress = Callable[[str, "float | None"], None]
SettingsOf = Callable[[int, int], Any]
"""Maps (task index, repeat) to the generation settings, the same for all methods."""


def schedule(tasks: int, contenders: int, repeats: int) -> Iterator[tuple[int, int, int]]:
    """Indices (repeat, task, contender) in measuring order; the contender that goes first rotates, to balance order effects."""
    for repeat in range(repeats):
        for task in range(tasks):
            for offset in range(contenders):
                yield repeat, task, (offset + task + repeat) % contenders


def measure(
    tasks: Sequence[Task],
    contenders: Sequence[Contender],
    repeats: int,
    settings_of: SettingsOf,
    warm_up: Any,
    file: CellFile,
    progress: Progress,
) -> list[Cell]:
    """Measure every cell that the file lacks; returns all cells in the order of the schedule.

    Args:
        tasks: the inputs.
        contenders: the methods and peers.
        repeats: number of measurements of each task.
        settings_of: the settings of a run.
        warm_up: settings of one discarded run per contender, on the first task.
        file: finished cells.
        progress: called with a message and the fraction done.

    Raises:
        AdedError: the file cannot be written, or a contender cannot run.
    """
    order = list(schedule(len(tasks), len(contenders), repeats))
    keys = [(tasks[task].id, contenders[contender].name, repeat) for repeat, task, contender in order]
    missing = [at for at, key in enumerate(keys) if key not in file.cells]
    for name in dict.fromkeys(keys[at][1] for at in missing):
        progress(f"warming up: {name}", None)
        next(c for c in contenders if c.name == name).run(tasks[0], warm_up)
    started = time.perf_counter()
    for done, at in enumerate(missing):
        repeat, task, contender = order[at]
        progress(_status(len(order) - len(missing) + done, len(order), done, len(missing), started), at / len(order))
        figures = contenders[contender].run(tasks[task], settings_of(task, repeat))
        file.add(Cell(tasks[task].id, tasks[task].category, contenders[contender].name, repeat, **figures))
    return [file.cells[key] for key in keys]


def _status(finished: int, total: int, done: int, missing: int, started: float) -> str:
    """``measured 40% (128 of 320): 3 min left``; the text before the colon changes every 10 %."""
    left = (time.perf_counter() - started) / done * (missing - done) if done else None
    estimate = "" if left is None else f"{left / 60:.0f} min left" if left >= 90 else f"{left:.0f} s left"
    return f"measured {10 * (10 * finished // total)}%: {finished} of {total} runs, {estimate or 'no estimate yet'}"
