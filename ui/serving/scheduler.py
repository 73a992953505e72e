"""The scheduler: one thread runs all steps of all jobs on the model, round robin.

A job's *work* is a generator that runs one step per ``next`` and yields an update, or None. Up to ``at_once`` jobs run in turns
of one step; others wait in a queue. Since one thread runs all steps, the decode time of a run contains only its own steps.
Readers get the latest update, so a slow reader delays nobody. Independent of Gradio and of the engine.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ui.serving.jobs import Job, NullWatcher, Reason, Watcher, Work
from ui.serving.limits import Allowance, Limits
from ui.words import Message, Refused

T = TypeVar("T")
READY_POLL_SECONDS = 0.1
"""Interval at which a job that is not ready is checked again."""
HISTORY = 32
"""Number of ended jobs from which durations are estimated."""


class QueueRefused(Refused):
    """A refusal by the scheduler, which has counted it."""


def _newest(old: T, new: T) -> T:
    return new


def _always() -> bool:
    return True


def _no_update(latest: T | None) -> T | None:
    return None


class Scheduler:
    """Runs the jobs of one model. ``close`` stops all jobs and the thread."""

    def __init__(
        self, limits: Limits | None = None, watcher: Watcher | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limits = limits or Limits()
        self._durations: deque[float] = deque(maxlen=HISTORY)
        self._watcher = watcher or NullWatcher()
        self._clock = clock
        self._allowance = Allowance(self.limits.session_tokens, clock)
        self._active: deque[Job[Any]] = deque()
        self._waiting: list[Job[Any]] = []
        self._current: Job[Any] | None = None
        self._closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="turns", daemon=True)
        self._thread.start()

    def submit(
        self,
        session: str,
        work: Work[T],
        merge: Callable[[T, T], T] = _newest,
        ready: Callable[[], bool] = _always,
        on_shutdown: Callable[[T | None], T | None] = _no_update,
    ) -> Job[T]:
        """Add a job to the queue.

        Args:
            session: key of its session; a session has one job at a time.
            work: its steps; started at its first step, and never called by two threads at once.
            merge: combines two updates, of which the older one was not read.
            ready: whether it can start; checked repeatedly. A job that is not ready keeps its place, and others may overtake it.
            on_shutdown: the last update of a job whose step does not end before the server shuts down, from its latest update.

        Raises:
            Refused: the queue is full, the session has a job or has used its hourly limit, or the server shuts down.
        """
        with self._changed:
            self._admit(session)
            job = Job(self, session, work, merge, ready, self._clock(), on_shutdown)
            self._waiting.append(job)
            self._changed.notify_all()
            return job

    def _admit(self, session: str) -> None:
        others = [job for job in self._all() if job.control.reason is None]
        wait = self._allowance.wait(session)
        if self._closing:
            raise self._refusal("closing")
        if any(job.session == session for job in others):
            raise self._refusal("one")
        if wait:
            raise self._refusal("hour", count=self._allowance.tokens, minutes=math.ceil(wait / 60))
        if len(self._all()) >= self.limits.queue_size + self.limits.at_once:
            raise self._refusal("full", count=len(self._all()))

    def _refusal(self, reason: str, **values: Any) -> Refused:
        self._watcher.refused(reason)
        return QueueRefused(f"notice.{reason}", **values)

    def _running_jobs(self) -> list[Job[Any]]:
        """Jobs that run in turns, the current one first."""
        return [*self._active] if self._current is None else [self._current, *self._active]

    def _all(self) -> list[Job[Any]]:
        return [*self._running_jobs(), *self._waiting]

    @property
    def alive(self) -> bool:
        """Whether the scheduler accepts and runs jobs."""
        return self._thread.is_alive() and not self._closing

    @property
    def running(self) -> int:
        """Number of jobs that run in turns."""
        with self._changed:
            return len(self._running_jobs())

    @property
    def waiting(self) -> int:
        """Number of queued jobs."""
        return len(self._waiting)

    @property
    def doing(self) -> Message | None:
        """What a running job does before its first step; None if none does."""
        with self._changed:
            return next((job.control.doing for job in self._running_jobs() if job.control.doing), None)

    def place(self, job: Job[Any]) -> int:
        with self._changed:
            return 1 + self._waiting.index(job) if job in self._waiting else 0

    def expected_wait(self, job: Job[Any]) -> float | None:
        """Seconds until the job starts; None if past jobs give no estimate, or if it waits for something else."""
        with self._changed:
            running = self._running_jobs()
            if job not in self._waiting or len(running) < self.limits.at_once:
                return None
            left = [expected_remaining(self._durations, other.seconds) for other in running]
            average = expected_remaining(self._durations, 0.0)
            estimates = [seconds for seconds in left if seconds is not None]
            if average is None or len(estimates) < len(left):
                return None
            return processor_sharing(estimates, average, 1 + self._waiting.index(job), self.limits.at_once)

    def stop(self, job: Job[Any], reason: Reason) -> None:
        """Stop a job within a step; a queued one ends now if its reader left, else it delivers its last update first."""
        with self._changed:
            job.control.stop(reason)
            if job in self._waiting:
                self._waiting.remove(job)
                self._active.appendleft(job)
            elif job in self._active:
                self._active.remove(job)
                self._active.appendleft(job)
            self._changed.notify_all()

    def close(self, seconds: float = 5.0) -> bool:
        """Accept no more jobs, stop all, and wait for the thread; returns whether it ended within ``seconds``.

        If it did not, its step cannot be interrupted: all readers are notified that their jobs have ended.
        """
        with self._changed:
            self._closing = True
            for job in self._all():
                job.control.stop("shutdown")
            self._active.extend(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
        self._thread.join(max(0.0, seconds))
        with self._changed:
            left = [job for job in self._all() if not job.finished]
        for job in left:
            job.abandon()
        return not self._thread.is_alive()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            started = self._clock()
            self._watcher.scheduled(job, started - job.queued_since)
            more = job.control.reason != "left" and job.advance() and job.control.reason != "left"
            now = self._clock()
            job.seconds += 0.0 if job.control.waiting else now - started
            if job.first_token is None and job.control.tokens:
                job.first_token = now
            if job.seconds >= self.limits.run_seconds:
                job.control.stop("seconds")
            job.queued_since = now
            self._give_back(job, more)

    def _next(self) -> Job[Any] | None:
        """The job whose turn it is; blocks until there is one; None when the scheduler is closed and empty."""
        with self._changed:
            while True:
                self._promote()
                if self._active:
                    self._current = self._active.popleft()
                    return self._current
                if self._closing:
                    return None
                self._changed.wait(READY_POLL_SECONDS if self._waiting else None)

    def _promote(self) -> None:
        """Start queued jobs that are ready, in order, up to ``at_once``."""
        for job in [job for job in self._waiting if job.ready()]:
            if len(self._running_jobs()) >= self.limits.at_once:
                return
            self._waiting.remove(job)
            self._active.append(job)

    def _give_back(self, job: Job[Any], more: bool) -> None:
        if more:
            with self._changed:
                self._promote()  # a job that starts gets its first step before this one continues
                self._current = None
                (self._active.appendleft if job.control.reason else self._active.append)(job)
            return
        job.end()
        with self._changed:
            self._current = None
            self._allowance.spend(job.session, job.control.tokens)
            if job.control.tokens:
                self._durations.append(job.seconds)
        self._watcher.ended(job)
        job.finish()


def expected_remaining(durations: Iterable[float], elapsed: float) -> float | None:
    """Mean remaining seconds of jobs that took longer than ``elapsed``; None if there were none."""
    left = [duration - elapsed for duration in durations if duration > elapsed]
    return sum(left) / len(left) if left else None


def processor_sharing(left: list[float], average: float, place: int, at_once: int) -> float:
    """Seconds until ``place`` slots are free, if jobs share the model evenly.

    Args:
        left: seconds on the model that the running jobs still need.
        average: seconds that each job needs that starts meanwhile.
        place: 1 for the next job in the queue.
        at_once: number of slots.
    """
    left, time_passed = sorted(left), 0.0
    while True:
        free = at_once - len(left)
        if place <= free:
            return time_passed
        place -= free
        left = sorted([*left, *[average] * free])
        shortest = left.pop(0)
        time_passed += shortest * (1 + len(left))
        left = [seconds - shortest for seconds in left]
