"""A fake of the package ``spaces`` on ZeroGPU, for generators: forks a worker, and pickles arguments and results.

It follows ``zero/wrappers.py`` and ``utils.py`` of ``spaces`` 0.51.3. Arguments go through a queue to a forked worker, which may
be warm. Items come back through another queue, without a limit, which a thread reads. A worker that dies is an aborted task.
Closing the generator sets an event that the worker checks after each item. Of an error only the name of its class comes back.
`schedule` requests a GPU from the hub; a test may let it raise, wait or record.
"""

from __future__ import annotations

import inspect
import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import wraps
from multiprocessing.queues import SimpleQueue as _SimpleQueue
from pickle import PicklingError
from queue import Queue as ThreadQueue
from typing import Any

from waiting import HANG

FORK = multiprocessing.get_context("fork")


class Error(Exception):
    """As ``gradio.Error``: a title and a message."""

    def __init__(self, message: str, title: str = "Error") -> None:
        super().__init__(message)
        self.message, self.title = message, title


@dataclass
class Ok:
    value: Any


@dataclass
class Raised:
    error_class: str
    error: Error | None


class End:
    pass


class Queue(_SimpleQueue):  # type: ignore[type-arg]
    def __init__(self) -> None:
        super().__init__(ctx=FORK)

    def put(self, obj: Any) -> None:
        try:
            super().put(obj)
        except PicklingError:
            raise
        except Exception as error:
            if "pickle" not in str(error):
                raise
            raise PicklingError(str(error)) from None

    def lock(self) -> None:
        """Lock the queue as a process does that is writing to it."""
        self._wlock.acquire()  # type: ignore[attr-defined]

    def unlock(self) -> None:
        """Unlock the queue after a process was killed while writing to it."""
        with suppress(ValueError):
            self._wlock.release()  # type: ignore[attr-defined]


class Worker:
    """A forked process that runs one function for one call after another."""

    def __init__(self, task: Callable[..., Iterator[Any]]) -> None:
        self.arguments, self.results, self.stop_event = Queue(), Queue(), FORK.Event()
        self.process = FORK.Process(target=_serve, args=(task, self.arguments, self.results, self.stop_event), daemon=True)
        self.process.start()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        self.process.join()
        self.results.unlock()
        self.results.put(None)


def _serve(task: Callable[..., Iterator[Any]], arguments: Queue, results: Queue, stop_event: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while True:
        args, kwargs = arguments.get()
        stop_event.clear()
        with ThreadPoolExecutor(1) as thread:
            thread.submit(copy_context().run, _iterate, task, args, kwargs, results, stop_event)
        results.put(End())


def _iterate(task: Any, args: Any, kwargs: Any, results: Queue, stop_event: Any) -> None:
    items = task(*args, **kwargs)
    while True:
        try:
            item = next(items)
        except StopIteration:
            return
        except Exception as error:
            results.put(_raised(error))
            return
        if stop_event.is_set():
            items.close()
            return
        try:
            results.put(Ok(item))
        except PicklingError as error:
            results.put(_raised(error))
            return


def _raised(error: Exception) -> Raised:
    return Raised(type(error).__name__, error if isinstance(error, Error) else None)


class Spaces:
    """The package; one per test.

    Attributes:
        decorated: the decorated functions.
        schedule: called with the seconds that a call requests, before it gets a worker.
        workers: all that were started; ``warm``: those that can be reused.
    """

    def __init__(self, schedule: Callable[[float], None] = lambda seconds: None) -> None:
        self.schedule = schedule
        self.decorated: list[Callable[..., Any]] = []
        self.workers: list[Worker] = []
        self.warm: list[Worker] = []

    def GPU(self, task: Any = None, *, duration: Any = 60, size: str | None = None) -> Any:
        if task is None:
            return lambda task: self.GPU(task, duration=duration, size=size)
        if inspect.iscoroutinefunction(task) or inspect.isasyncgenfunction(task):
            raise NotImplementedError
        assert inspect.isgeneratorfunction(task), "the fake is only for generators"
        self.decorated.append(task)

        @wraps(task)
        def handler(*args: Any, **kwargs: Any) -> Iterator[Any]:
            self.schedule(duration(*args, **kwargs) if callable(duration) else duration)
            yield from self._call(task, args, kwargs)

        return handler

    def _call(self, task: Any, args: Any, kwargs: Any) -> Iterator[Any]:
        worker = self._worker(task)
        worker.arguments.put((args, kwargs))
        items: ThreadQueue[Any] = ThreadQueue()
        with ThreadPoolExecutor(1) as thread:
            thread.submit(self._fill, worker, items)
            while not isinstance(item := items.get(timeout=HANG), End):
                if item is None:
                    raise Error("GPU task aborted", "ZeroGPU worker error")
                if isinstance(item, Raised):
                    raise item.error or Error(item.error_class, "ZeroGPU worker error")
                try:
                    yield item.value
                except GeneratorExit:
                    worker.stop_event.set()
                    raise

    def _worker(self, task: Any) -> Worker:
        while self.warm:
            worker = self.warm.pop()
            if worker.process.is_alive():
                return worker
        self.workers.append(Worker(task))
        return self.workers[-1]

    def _fill(self, worker: Worker, items: ThreadQueue[Any]) -> None:
        while True:
            item = worker.results.get()
            if isinstance(item, End):
                self.warm.append(worker)
            items.put(item)
            if not isinstance(item, Ok):
                return

    def close(self) -> None:
        """End all workers."""
        for worker in self.workers:
            worker.process.kill()
            worker.process.join(HANG)


_spaces = Spaces()
GPU = _spaces.GPU
"""The decorator, if this module is imported under the name of the package."""
