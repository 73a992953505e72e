"""A run: a job in the scheduler's hands, what it is told and what it tells. Knows no Gradio and no engine."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from aded.core.errors import AdedError
from ui.serving.quota import WorkerLost

if TYPE_CHECKING:
    from ui.serving.scheduler import Scheduler

Reason = Literal["stopped", "seconds", "left", "shutdown"]
"""Why a run was ended: by its visitor, by its limit, because nobody listens any more, because the server closes."""

T = TypeVar("T")

log = logging.getLogger(__name__)


class Control:
    """What a run is told, and what it tells.

    Attributes:
        reason: why it is to end, once it is.
        tokens: how many it has written.
        seconds: how many it was allowed, where that is not the server's own limit.
        context: what holds where the run was asked for, such as whose request it was.
    """

    def __init__(self) -> None:
        self.reason: Reason | None = None
        self.tokens = 0
        self.seconds: float | None = None
        self.context = copy_context()

    def stop(self, reason: Reason) -> None:
        """Ask the run to end after the step that it makes now; the first reason counts."""
        self.reason = self.reason or reason


Job = Callable[[Control], "Iterator[T | None]"]


class Watcher(Protocol):
    """Who is told what happens, to count it."""

    def refused(self, reason: str) -> None: ...

    def turned(self, run: Run[Any], waited: float) -> None: ...

    def ended(self, run: Run[Any]) -> None: ...


class Unwatched:
    """Nobody counts."""

    def refused(self, reason: str) -> None: ...

    def turned(self, run: Run[Any], waited: float) -> None: ...

    def ended(self, run: Run[Any]) -> None: ...


class Run(Generic[T]):
    """One run in the scheduler's hands.

    Attributes:
        session: whose it is.
        seconds: of its own turns so far.
        submitted, first: when it was asked for and when it first wrote a token, by the scheduler's clock.
        outcome: None until it ended; then ``done``, ``refused``, ``failed`` or the ``Reason`` that it was ended for.
        error: what it ended with, if it raised.
        over: whether it has ended, and everything that is to be said of it has been.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        session: str,
        job: Job[T],
        merge: Callable[[T, T], T],
        ready: Callable[[], bool],
        submitted: float,
        farewell: Callable[[T | None], T | None],
    ) -> None:
        self.session, self.ready, self.submitted = session, ready, submitted
        self.control = Control()
        self.seconds = 0.0
        self.first: float | None = None
        self.asked = submitted
        self.outcome: str | None = None
        self.error: BaseException | None = None
        self.over = False
        self._scheduler = scheduler
        self._steps = job(self.control)
        self._merge = merge
        self._farewell = farewell
        self._news: T | None = None
        self._latest: T | None = None
        self._lock = threading.Lock()
        self._listener: Callable[[], None] = _nothing

    @property
    def place(self) -> int:
        """1 for the next in line, 0 for a run that takes turns or has ended."""
        return self._scheduler.place(self)

    @property
    def wait(self) -> float | None:
        """Seconds that it will stand in line, as far as can be told from the runs before."""
        return self._scheduler.expected_wait(self)

    def listen(self, listener: Callable[[], None]) -> None:
        """Have ``listener`` called, from the model's thread, whenever there is news."""
        self._listener = listener

    def take(self) -> T | None:
        """The news since the last time, as one; None if there is none."""
        with self._lock:
            news, self._news = self._news, None
        return news

    def leave(self) -> None:
        """Nobody listens any more: end it within a step."""
        self._listener = _nothing
        self._scheduler.stop(self, "left")

    def stop(self) -> None:
        """Its visitor ends it: within a step it tells its last news."""
        self._scheduler.stop(self, "stopped")

    def advance(self) -> bool:
        """Make one step; whether there may be another."""
        try:
            news = next(self._steps)
        except StopIteration:
            return False
        except BaseException as error:  # whatever it is, the next run goes on
            self.error = error
            return False
        if news is not None:
            with self._lock:
                self._news = news if self._news is None else self._merge(self._news, news)
                self._latest = news
            self._tell()
        return True

    def end(self) -> None:
        """Free what the run holds, and find how it ended."""
        try:
            self._steps.close()  # type: ignore[attr-defined]
        except BaseException as error:
            self.error = self.error or error
        refused = isinstance(self.error, AdedError) and not isinstance(self.error, WorkerLost)
        self.outcome = ("refused" if refused else "failed") if self.error else self.control.reason or "done"
        if self.error and not refused:
            log.error("a run failed", exc_info=self.error)
        if self.error:
            _forget_frames(self.error)

    def finish(self) -> None:
        """Tell the listener that it is over."""
        self.over, self._latest = True, None
        self._tell()

    def abandon(self) -> None:
        """Tell the listener that it is over though its step has not ended; nobody is told what the step still makes."""
        with self._lock:
            self._news = self._farewell(self._latest)
            self.outcome, self.over = self.control.reason, True
        self._tell()

    def _tell(self) -> None:
        with suppress(RuntimeError):  # the listener's event loop has closed
            self._listener()


def _forget_frames(error: BaseException) -> None:
    """Let go of the frames that an error came through, and those that led to it: they hold the run's decoders."""
    error.__cause__ = error.__context__ = error.__traceback__ = None


def _nothing() -> None:
    pass
