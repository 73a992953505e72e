"""The order of measuring: question by question, every method on each, one repeat after the other, resumable."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from aded.evaluation.bench.cells import Cell, CellFile
from aded.evaluation.bench.contenders import Contender, Task

Progress = Callable[[str, "float | None"], None]
SettingsOf = Callable[[int, int], Any]
"""(question's place in the list, repeat) to the settings of its runs; all methods get the same ones."""


def schedule(tasks: int, contenders: int, repeats: int) -> Iterator[tuple[int, int, int]]:
    """(repeat, task, contender): who goes first moves on from task to task, so that no method always follows the same one."""
    for repeat in range(repeats):
        for task in range(tasks):
            for place in range(contenders):
                yield repeat, task, (place + task + repeat) % contenders


def measure(
    tasks: Sequence[Task],
    contenders: Sequence[Contender],
    repeats: int,
    settings_of: SettingsOf,
    warm_up: Any,
    file: CellFile,
    progress: Progress,
) -> list[Cell]:
    """Measure every cell that is not there yet; returns all of them in the order of the schedule.

    Args:
        warm_up: settings of the run, on the first task, that each contender makes beforehand and that is thrown away.
    """
    order = list(schedule(len(tasks), len(contenders), repeats))
    keys = [(tasks[task].id, contenders[contender].name, repeat) for repeat, task, contender in order]
    left = [at for at, key in enumerate(keys) if key not in file.cells]
    for name in dict.fromkeys(keys[at][1] for at in left):
        progress(f"warming up: {name}", None)
        next(c for c in contenders if c.name == name).run(tasks[0], warm_up)
    started = time.perf_counter()
    for done, at in enumerate(left):
        repeat, task, contender = order[at]
        progress(_where(len(order) - len(left) + done, len(order), done, len(left), started), at / len(order))
        figures = contenders[contender].run(tasks[task], settings_of(task, repeat))
        file.add(Cell(tasks[task].id, tasks[task].category, contenders[contender].name, repeat, **figures))
    return [file.cells[key] for key in keys]


def _where(finished: int, total: int, done: int, left: int, started: float) -> str:
    """``measured 40% (128 of 320): 3 min left``; what stands before the colon changes every tenth."""
    rest = (time.perf_counter() - started) / done * (left - done) if done else None
    wait = "" if rest is None else f"{rest / 60:.0f} min left" if rest >= 90 else f"{rest:.0f} s left"
    return f"measured {10 * (10 * finished // total)}%: {finished} of {total} runs, {wait or 'no estimate yet'}"
