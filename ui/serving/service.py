"""One server's parts in one place: models, scheduler, sessions, limits, counters. Knows no Gradio."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from aded.core.errors import AdedError
from ui.engine import Engine
from ui.form import Form
from ui.models import ModelHolder, Models, name_of
from ui.run import Notice, Update, check_form, failed, loading, race
from ui.serving.counters import MEGABYTE, Counters, device_memory, resident_memory
from ui.serving.limits import Limits
from ui.serving.quota import NoCard, WorkerLost
from ui.serving.reading import follow
from ui.serving.runs import Control, Run
from ui.serving.scheduler import Scheduler, TurnedAway
from ui.serving.sessions import Session, Sessions
from ui.wire import Colours
from ui.words import Saying

T = TypeVar("T")
SHUT_DOWN = Update(notice=Notice("info", [("notice.shutdown", {})]), running=False)
"""The end of a race on the page that the server could not wait for."""


class Service:
    """What all visitors share, and what is kept of each.

    Attributes:
        calls: runs by the events that programs made them by, as long as anybody holds them.
        unread: pieces of news of a stream that were not read yet; the server tells.
    """

    def __init__(self, models: Models | None = None, limits: Limits | None = None, engine: Engine | None = None) -> None:
        self.models, self.engine = models or Models(), engine or Engine()
        self.limits = limits or Limits()
        self.counters = Counters()
        self.sessions = Sessions()
        self.scheduler = Scheduler(self.limits, self.counters)
        self.calls: WeakValueDictionary[str, Run[Any]] = WeakValueDictionary()
        self.unread: Callable[[str], int] = lambda stream: 0
        self._count()

    def _count(self) -> None:
        gauge = self.counters.gauge
        gauge("queue_length", "Runs in line", lambda: self.scheduler.waiting)
        gauge("running", "Runs that take turns", lambda: self.scheduler.running)
        gauge("sessions", "Sessions that something is kept of", lambda: len(self.sessions))
        gauge("memories", "Drafters that are kept for sessions", lambda: self.sessions.memories)
        gauge("device_memory_bytes", "Memory held on the cards", device_memory)

    def submit(
        self,
        session: Session,
        holder: ModelHolder,
        job: Callable[[Control], Iterator[T | None]],
        **settings: Any,
    ) -> Run[T]:
        """Put a run into line; it waits for its model too.

        Args:
            settings: ``merge`` and ``farewell``, as ``Scheduler.submit`` has them.

        Raises:
            Refused: see ``Scheduler.submit``.
        """
        holder.start()
        run = self.scheduler.submit(session.key, job, ready=lambda: not holder.busy, **settings)
        session.run = run
        return run

    async def race(self, session: Session, form: Form, colours: Colours) -> AsyncGenerator[Update, None]:
        """A visitor's race from press to end. Never raises: what goes wrong becomes a notice."""
        try:
            holder = self.models.first
            check_form(form, self.limits)
            if session.stopped:
                yield Update(notice=Notice("info", [("notice.early", {})]), running=False)
                return
            job = partial(race, form, session.memories, holder, colours, limits=self.limits, engine=self.engine)
            ways = {"merge": lambda old, new: new.over(old), "farewell": lambda latest: SHUT_DOWN}
            run: Run[Update] = self.submit(session, holder, lambda control: job(control), **ways)
            async with aclosing(self.follow(run, lambda: Update(notice=in_line(run, holder)))) as updates:
                async for update in updates:
                    yield update
        except Exception as error:
            self.count(error)
            yield failed(error)

    def follow(self, run: Run[T], in_line: Callable[[], T | None], stream: str | None = None) -> AsyncGenerator[T, None]:
        """See ``ui.serving.reading.follow``; ``stream``: where its news is read, if not in the session's own stream."""
        return follow(run, in_line, lambda: self.unread(stream or run.session))

    def stop_call(self, event: str, session: str) -> bool:
        """End a program's run, so that its last answer tells so; whether there was one of this session to end."""
        run = self.calls.get(event)
        if run is None or run.over or run.session != session:
            return False
        run.stop()
        return True

    def count(self, error: Exception) -> None:
        """Count what was asked and could not be; the scheduler counts its own refusals, and runs that fail."""
        if isinstance(error, AdedError) and not isinstance(error, (TurnedAway, WorkerLost)):
            self.counters.refused("card" if isinstance(error, NoCard) else "asked")

    def status(self) -> Notice:
        """How the server is, in one line."""
        holder, memory = self.models.first, round(resident_memory(self.counters) / MEGABYTE)
        values = {"model": holder.model.label if holder.loaded else name_of(holder.spec), "memory": memory}
        if not holder.loaded:
            return Notice("info", [("status.asleep", values)])
        values |= {"running": self.scheduler.running, "waiting": self.scheduler.waiting}
        held = round(device_memory() / MEGABYTE)
        card: list[Saying] = [("status.card", {"device": held})] if held else []
        return Notice("info", [("status.line", values), *card])

    def close(self, seconds: float = 5.0) -> bool:
        """End all runs within a step; whether nothing is at work then, which a step, or a model's loading, can delay."""
        return self.scheduler.close(seconds) and not self.models.busy


def in_line(run: Run[Update], holder: ModelHolder) -> Notice:
    """What a run waits for, in words."""
    if holder.busy:
        return loading(holder.latest)
    wait = run.wait
    expected: Saying = ("notice.nowait", {}) if wait is None else ("notice.wait", {"seconds": max(1, round(wait))})
    return Notice("busy", [("notice.place", {"count": run.place}), expected])
