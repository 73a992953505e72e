"""The measuring loop, resumable: for each repeat and each question, all methods in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from aded.evaluation.bench.cells import Cell, CellFile
from aded.evaluation.bench.systems import System, Task

Progress = Callable[[str, "float | None"], None]
SettingsOf = Callable[[int, int], Any]
"""Maps (task index, repeat) to the generation settings, the same for all methods."""


def schedule(tasks: int, systems: int, repeats: int) -> Iterator[tuple[int, int, int]]:
    """Indices (repeat, task, system) in measuring order; the system that goes first rotates, to balance order effects."""
    for repeat in range(repeats):
        for task in range(tasks):
            for offset in range(systems):
                yield repeat, task, (offset + task + repeat) % systems


def measure(
    tasks: Sequence[Task],
    systems: Sequence[System],
    repeats: int,
    settings_of: SettingsOf,
    warm_up: Any,
    file: CellFile,
    progress: Progress,
) -> list[Cell]:
    """Measure every cell that the file lacks; returns all cells in the order of the schedule.

    Args:
        tasks: the inputs.
        systems: the methods and peers.
        repeats: number of measurements of each task.
        settings_of: the settings of a run.
        warm_up: settings of one discarded run per system, on the first task.
        file: finished cells.
        progress: called with a message and the fraction done.

    Raises:
        AdedError: the file cannot be written, or a system cannot run.
    """
    order = list(schedule(len(tasks), len(systems), repeats))
    keys = [(tasks[task].id, systems[system].name, repeat) for repeat, task, system in order]
    missing = [at for at, key in enumerate(keys) if key not in file.cells]
    for name in dict.fromkeys(keys[at][1] for at in missing):
        progress(f"warming up: {name}", None)
        system = next(c for c in systems if c.name == name)
        system.run(tasks[0], warm_up)
        system.forget()
    started = time.perf_counter()
    for done, at in enumerate(missing):
        repeat, task, number = order[at]
        progress(_status(len(order) - len(missing) + done, len(order), done, len(missing), started), at / len(order))
        figures = systems[number].run(tasks[task], settings_of(task, repeat))
        file.add(Cell(tasks[task].id, tasks[task].category, systems[number].name, repeat, **figures))
    return [file.cells[key] for key in keys]


def _status(finished: int, total: int, done: int, missing: int, started: float) -> str:
    """``measured 40% (128 of 320): 3 min left``; the text before the colon changes every 10 %."""
    left = (time.perf_counter() - started) / done * (missing - done) if done else None
    estimate = "" if left is None else f"{left / 60:.0f} min left" if left >= 90 else f"{left:.0f} s left"
    return f"measured {10 * (10 * finished // total)}%: {finished} of {total} runs, {estimate or 'no estimate yet'}"
