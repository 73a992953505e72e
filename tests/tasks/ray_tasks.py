"""Tasks for tests of a cluster, in a module that a worker imports quickly."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from aded.core.errors import AdedError


def die_once(job: tuple[str, int]) -> int:
    """Kill this process at the first call for this path."""
    path, value = job
    if not os.path.exists(path):
        Path(path).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return value


def die(job: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def slow(job: int) -> int:
    time.sleep(0.5)
    return job


def refuse(job: int) -> int:
    if job == 2:
        raise AdedError("job 2 is wrong; leave it out")
    return job


class Make:
    """What makes the function of a pool's worker."""

    def __init__(self, function: Callable) -> None:
        self.function = function

    def __call__(self) -> Callable:
        return self.function


def parts_of(job: int) -> tuple[int, list[np.ndarray]]:
    """Four parts that are too large to be sent with the result, so they stay on the node."""
    time.sleep(0.5)
    return job, [np.full(100_000, job * part) for part in range(4)]


def total(values: Iterator[np.ndarray]) -> int:
    return int(sum(value.sum() for value in values))
