"""Jobs of the scheduler, and how a job and its readers communicate. Independent of Gradio and of the engine."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from aded.core.errors import AdedError
from ui.serving.zerogpu.quota import WorkerLost
from ui.words import Message

if TYPE_CHECKING:
    from ui.serving.scheduler import Scheduler

Reason = Literal["stopped", "seconds", "left", "shutdown"]
"""Why a job was stopped: by its visitor, by its time limit, because its reader left, because the server shuts down."""

T = TypeVar("T")

log = logging.getLogger(__name__)


class Control:
    """Communication between a job and the scheduler.

    Attributes:
        reason: why the job is to stop; None while it may continue.
        tokens: number of new tokens so far.
        seconds: its own time limit, if it is not the server's.
        context: context variables of the request, such as the visitor's identity.
        doing: what is done before the first step, which may take long; None once there are steps.
        waiting: whether the job waits for a shared GPU, which is no model time.
    """

    def __init__(self) -> None:
        self.reason: Reason | None = None
        self.tokens = 0
        self.seconds: float | None = None
        self.context = copy_context()
        self.doing: Message | None = None
        self.waiting = False

    def stop(self, reason: Reason) -> None:
        """Ask the job to stop after its current step; the first reason is kept."""
        self.reason = self.reason or reason


Work = Callable[[Control], "Iterator[T | None]"]


class Watcher(Protocol):
    """Counts events of the scheduler."""

    def refused(self, reason: str) -> None: ...

    def scheduled(self, job: Job[Any], waited: float) -> None: ...

    def ended(self, job: Job[Any]) -> None: ...


class NullWatcher:
    """A watcher that counts nothing."""

    def refused(self, reason: str) -> None: ...

    def scheduled(self, job: Job[Any], waited: float) -> None: ...

    def ended(self, job: Job[Any]) -> None: ...


class Job(Generic[T]):
    """A job of the scheduler.

    Attributes:
        session: key of its session.
        seconds: time that it used the model so far.
        submitted, first_token: times of submission and of the first new token, on the scheduler's clock.
        outcome: None until it ended; then ``done``, ``refused``, ``failed`` or the ``Reason`` for which it was stopped.
        error: exception with which it ended, or None.
        finished: whether it has ended and all its updates are available.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        session: str,
        work: Work[T],
        merge: Callable[[T, T], T],
        ready: Callable[[], bool],
        submitted: float,
        on_shutdown: Callable[[T | None], T | None],
    ) -> None:
        self.session, self.ready, self.submitted = session, ready, submitted
        self.control = Control()
        self.seconds = 0.0
        self.first_token: float | None = None
        self.queued_since = submitted
        self.outcome: str | None = None
        self.error: BaseException | None = None
        self.finished = False
        self._scheduler = scheduler
        self._steps = work(self.control)
        self._merge = merge
        self._on_shutdown = on_shutdown
        self._update: T | None = None
        self._latest: T | None = None
        self._lock = threading.Lock()
        self._listener: Callable[[], None] = _nothing

    @property
    def place(self) -> int:
        """1 for the next job in the queue; 0 for a job that runs or has ended."""
        return self._scheduler.place(self)

    @property
    def wait(self) -> float | None:
        """Expected seconds in the queue; None if unknown."""
        return self._scheduler.expected_wait(self)

    def listen(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` from the scheduler's thread whenever there is an update."""
        self._listener = listener

    def take(self) -> T | None:
        """The updates since the last call, merged into one; None if there are none."""
        with self._lock:
            update, self._update = self._update, None
        return update

    def leave(self) -> None:
        """The reader has left: stop within a step."""
        self._listener = _nothing
        self._scheduler.stop(self, "left")

    def stop(self) -> None:
        """Stop for the visitor: the last update arrives within a step."""
        self._scheduler.stop(self, "stopped")

    def advance(self) -> bool:
        """Run one step; returns whether there may be another."""
        try:
            update = next(self._steps)
        except StopIteration:
            return False
        except BaseException as error:  # one job must not end the scheduler's thread
            self.error = error
            return False
        if update is not None:
            with self._lock:
                self._update = update if self._update is None else self._merge(self._update, update)
                self._latest = update
            self._notify()
        return True

    def end(self) -> None:
        """Free the job's resources and determine its outcome."""
        try:
            self._steps.close()  # type: ignore[attr-defined]
        except BaseException as error:
            self.error = self.error or error
        refused = isinstance(self.error, AdedError) and not isinstance(self.error, WorkerLost)
        self.outcome = ("refused" if refused else "failed") if self.error else self.control.reason or "done"
        if self.error and not refused:
            log.error("a job failed", exc_info=self.error)
        if self.error:
            _forget_frames(self.error)

    def finish(self) -> None:
        """Notify the listener that the job is finished."""
        self.finished, self._latest = True, None
        self._notify()

    def abandon(self) -> None:
        """Finish the job for its readers although its step has not ended; results of that step are discarded."""
        with self._lock:
            self._update = self._on_shutdown(self._latest)
            self.outcome, self.finished = self.control.reason, True
        self._notify()

    def _notify(self) -> None:
        with suppress(RuntimeError):  # the listener's event loop is closed
            self._listener()


def _forget_frames(error: BaseException) -> None:
    """Drop the frames of an error and of its causes, because they hold the job's decoders."""
    error.__cause__ = error.__context__ = error.__traceback__ = None


def _nothing() -> None:
    pass
