"""Runs tasks in processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from aded.core.errors import RESUME_HINT, InterruptedJobError


class Processes:
    """Runs tasks in processes of this machine (see ``aded.tasks.engine``).

    Args:
        workers: number of processes; with 1, the tasks run in the calling process.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers

    @property
    def cluster(self) -> None:
        return None

    def map(self, function: Callable[[Any], Any], jobs: Iterable[Any]) -> Iterator[Any]:
        if self.workers == 1:
            yield from map(function, jobs)
            return
        with ProcessPoolExecutor(self.workers, multiprocessing.get_context("spawn"), _init_worker) as pool:
            try:
                yield from in_order(lambda job: pool.submit(function, job), lambda future: future.result(), jobs, self.workers)
            except BrokenProcessPool:
                raise InterruptedJobError(
                    f"a process was killed, probably for lack of memory; give fewer --processes and {RESUME_HINT}"
                ) from None
            finally:
                pool.shutdown(cancel_futures=True)


def in_order(submit: Callable[[Any], Any], result: Callable[[Any], Any], jobs: Iterable[Any], workers: int) -> Iterator[Any]:
    """Submit jobs and yield ``result`` of each, in the order of the jobs; at most ``workers + 1`` jobs are pending at a time."""
    pending: deque[Any] = deque()
    for job in jobs:
        pending.append(submit(job))
        if len(pending) > workers:
            yield result(pending.popleft())
    while pending:
        yield result(pending.popleft())


def _init_worker() -> None:
    """Initialize a worker process: it ignores Ctrl-C, which the parent handles, and exits when the parent exits."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
