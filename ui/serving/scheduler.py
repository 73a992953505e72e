"""Turns on the one model: every step of every run is made by one thread, one after the other, fairly between sessions.

A run is a *job*: a generator that makes one step of work each time it is asked, and yields what there is to tell of it,
or None. Runs that are on take turns, a step each (round robin); further ones wait in line. Since one thread makes all
steps, only one runs on the model at a time: a lane's clock counts its own steps alone, and no step's time holds another's.
Whoever reads a run's news reads the newest: a slow reader keeps nobody waiting. Knows no Gradio and no engine.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ui.serving.limits import Allowance, Limits
from ui.serving.runs import Job, Reason, Run, Unwatched, Watcher
from ui.words import Refused

T = TypeVar("T")
LOOK_AGAIN = 0.1
"""Seconds after which a run that is not ready is asked again."""
REMEMBERED = 32
"""Runs that have ended, by which it is told how long others may take."""


class TurnedAway(Refused):
    """By the scheduler, which has counted it."""


def _newest(old: T, new: T) -> T:
    return new


def _always() -> bool:
    return True


def _nothing_more(latest: T | None) -> T | None:
    return None


class Scheduler:
    """One model's turns. ``close`` ends all runs and the thread."""

    def __init__(
        self, limits: Limits | None = None, watcher: Watcher | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limits = limits or Limits()
        self._lives: deque[float] = deque(maxlen=REMEMBERED)
        self._watcher = watcher or Unwatched()
        self._clock = clock
        self._allowance = Allowance(self.limits.session_tokens, clock)
        self._on: deque[Run[Any]] = deque()
        self._waiting: list[Run[Any]] = []
        self._turn: Run[Any] | None = None
        self._closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="turns", daemon=True)
        self._thread.start()

    def submit(
        self,
        session: str,
        job: Job[T],
        merge: Callable[[T, T], T] = _newest,
        ready: Callable[[], bool] = _always,
        farewell: Callable[[T | None], T | None] = _nothing_more,
    ) -> Run[T]:
        """Put a run into line.

        Args:
            session: whose it is; a session has one run at a time.
            job: its steps; made when its first turn comes, and never asked by two threads at once.
            merge: two pieces of news, of which nobody has read the older one, as one.
            ready: whether it can begin; asked now and then. It keeps its place meanwhile, and others overtake it.
            farewell: of what it told last, what it is to tell where the server ends and a step does not.

        Raises:
            Refused: too many wait, the session has one already or has used up its hour, or the server closes.
        """
        with self._changed:
            self._admit(session)
            run = Run(self, session, job, merge, ready, self._clock(), farewell)
            self._waiting.append(run)
            self._changed.notify_all()
            return run

    def _admit(self, session: str) -> None:
        others = [run for run in self._all() if run.control.reason is None]
        wait = self._allowance.wait(session)
        if self._closing:
            raise self._refusal("closing")
        if any(run.session == session for run in others):
            raise self._refusal("one")
        if wait:
            raise self._refusal("hour", count=self._allowance.tokens, minutes=math.ceil(wait / 60))
        if len(self._all()) >= self.limits.queue_size + self.limits.at_once:
            raise self._refusal("full", count=len(self._all()))

    def _refusal(self, reason: str, **values: Any) -> Refused:
        self._watcher.refused(reason)
        return TurnedAway(f"notice.{reason}", **values)

    def _begun(self) -> list[Run[Any]]:
        """Runs that take turns, the one whose turn it is first."""
        return [*self._on] if self._turn is None else [self._turn, *self._on]

    def _all(self) -> list[Run[Any]]:
        return [*self._begun(), *self._waiting]

    @property
    def alive(self) -> bool:
        """Whether turns are made."""
        return self._thread.is_alive() and not self._closing

    @property
    def running(self) -> int:
        """Runs that take turns."""
        with self._changed:
            return len(self._begun())

    @property
    def waiting(self) -> int:
        """Runs in line."""
        return len(self._waiting)

    def place(self, run: Run[Any]) -> int:
        with self._changed:
            return 1 + self._waiting.index(run) if run in self._waiting else 0

    def expected_wait(self, run: Run[Any]) -> float | None:
        """Seconds until the run has its first turn; None where past runs do not tell, or it waits for more than its turn."""
        with self._changed:
            begun = self._begun()
            if run not in self._waiting or len(begun) < self.limits.at_once:
                return None
            left = [remaining(self._lives, other.seconds) for other in begun]
            average = remaining(self._lives, 0.0)
            known = [seconds for seconds in left if seconds is not None]
            if average is None or len(known) < len(left):
                return None
            return processor_sharing(known, average, 1 + self._waiting.index(run), self.limits.at_once)

    def stop(self, run: Run[Any], reason: Reason) -> None:
        """End a run within a step; one that waits ends now if nobody listens, else it tells its last news first."""
        with self._changed:
            run.control.stop(reason)
            if run in self._waiting:
                self._waiting.remove(run)
                self._on.appendleft(run)
            elif run in self._on:
                self._on.remove(run)
                self._on.appendleft(run)
            self._changed.notify_all()

    def close(self, seconds: float = 5.0) -> bool:
        """Take no more runs, end all there are, and wait for the thread; whether it ended within ``seconds``.

        If it did not, what it does cannot be interrupted: all readers are told that their runs are over.
        """
        with self._changed:
            self._closing = True
            for run in self._all():
                run.control.stop("shutdown")
            self._on.extend(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
        self._thread.join(max(0.0, seconds))
        with self._changed:
            left = [run for run in self._all() if not run.over]
        for run in left:
            run.abandon()
        return not self._thread.is_alive()

    def _work(self) -> None:
        while (run := self._next()) is not None:
            started = self._clock()
            self._watcher.turned(run, started - run.asked)
            more = run.control.reason != "left" and run.advance() and run.control.reason != "left"
            now = self._clock()
            run.seconds += now - started
            if run.first is None and run.control.tokens:
                run.first = now
            if run.seconds >= self.limits.run_seconds:
                run.control.stop("seconds")
            run.asked = now
            self._give_back(run, more)

    def _next(self) -> Run[Any] | None:
        """The run whose turn it is; waits for one, and is None once the scheduler is closed and empty."""
        with self._changed:
            while True:
                self._promote()
                if self._on:
                    self._turn = self._on.popleft()
                    return self._turn
                if self._closing:
                    return None
                self._changed.wait(LOOK_AGAIN if self._waiting else None)

    def _promote(self) -> None:
        """Let those in line begin, first come first, that are ready and for whom there is room."""
        for run in [run for run in self._waiting if run.ready()]:
            if len(self._begun()) >= self.limits.at_once:
                return
            self._waiting.remove(run)
            self._on.append(run)

    def _give_back(self, run: Run[Any], more: bool) -> None:
        if more:
            with self._changed:
                self._promote()  # who begins has a first turn before this one has another
                self._turn = None
                (self._on.appendleft if run.control.reason else self._on.append)(run)
            return
        run.end()
        with self._changed:
            self._turn = None
            self._allowance.spend(run.session, run.control.tokens)
            if run.control.tokens:
                self._lives.append(run.seconds)
        self._watcher.ended(run)
        run.finish()


def remaining(lives: Iterable[float], age: float) -> float | None:
    """Mean of what those that lived longer than ``age`` lived on for, in seconds; None if none did."""
    left = [life - age for life in lives if life > age]
    return sum(left) / len(left) if left else None


def processor_sharing(left: list[float], average: float, place: int, at_once: int) -> float:
    """Seconds until ``place`` slots have come free, where runs share the model evenly.

    Args:
        left: seconds on the model that the runs that are on still need.
        average: what each run that begins meanwhile needs.
        place: 1 for the next in line.
        at_once: slots.
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
