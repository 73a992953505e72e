"""All parts of a server: models, scheduler, sessions, limits, counters. Independent of Gradio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from aded.core.errors import AdedError
from ui.browser.wire import Colours
from ui.race.engine import Engine
from ui.race.form import Form
from ui.race.models import ModelHolder, Models, name_of
from ui.race.notices import Notice, loading
from ui.race.run import Update, check_form, failed, race
from ui.serving.counters import MEGABYTE, Counters, device_memory, resident_memory
from ui.serving.follow import follow
from ui.serving.jobs import Control, Job
from ui.serving.kept import KeptRaces
from ui.serving.limits import Limits
from ui.serving.scheduler import QueueRefused, Scheduler
from ui.serving.sessions import Session, Sessions
from ui.serving.zerogpu.quota import NoGpu, WorkerLost
from ui.words import Message

T = TypeVar("T")
SHUT_DOWN = Update(notice=Notice("info", [("notice.shutdown", {})]), running=False)
"""Last update of a race on the page that did not end before the server shut down."""


class Service:
    """What all visitors share, and their sessions.

    Attributes:
        calls: jobs of API calls by event id, as long as something refers to them.
        races: races of visitors that have ended, which links open again.
        unread: number of messages of a stream that were not read yet; set by the server.
    """

    def __init__(
        self,
        models: Models | None = None,
        limits: Limits | None = None,
        engine: Engine | None = None,
        races: KeptRaces | None = None,
    ) -> None:
        self.models, self.engine = models or Models(), engine or Engine()
        self.limits = limits or Limits()
        self.counters = Counters()
        self.sessions = Sessions(prefix_bytes=self.limits.prefix_bytes)
        self.races = KeptRaces() if races is None else races
        self.scheduler = Scheduler(self.limits, self.counters)
        self.calls: WeakValueDictionary[str, Job[Any]] = WeakValueDictionary()
        self.unread: Callable[[str], int] = lambda stream: 0
        self._count()

    def _count(self) -> None:
        gauge = self.counters.gauge
        gauge("queue_length", "Queued jobs", lambda: self.scheduler.waiting)
        gauge("running", "Running jobs", lambda: self.scheduler.running)
        gauge("sessions", "Sessions with state", lambda: len(self.sessions))
        gauge("kept_races", "Races kept for links", lambda: len(self.races))
        gauge("memories", "Drafters kept for sessions", lambda: self.sessions.memories)
        gauge("prefix_bytes", "Memory of the KV caches kept for conversations", lambda: self.sessions.prefix_bytes)
        gauge("device_memory_bytes", "Allocated GPU memory", device_memory)

    def submit(
        self,
        session: Session,
        holder: ModelHolder,
        work: Callable[[Control], Iterator[T | None]],
        **settings: Any,
    ) -> Job[T]:
        """Add a job to the queue; it also waits until its model is loaded.

        Args:
            settings: ``merge`` and ``on_shutdown`` of ``Scheduler.submit``.

        Raises:
            Refused: see ``Scheduler.submit``.
        """
        holder.start()
        job = self.scheduler.submit(session.key, work, ready=lambda: not holder.busy, **settings)
        session.job = job
        return job

    async def race(
        self, session: Session, form: Form, colours: Colours, message: str | None = None
    ) -> AsyncGenerator[Update, None]:
        """A race of a visitor, from start to end; ``message``: see ``ui.race.run.race``. Never raises: errors become notices."""
        try:
            holder = self.models.first
            check_form(form, self.limits)
            if session.stopped:
                yield Update(notice=Notice("info", [("notice.early", {})]), running=False)
                return
            work = partial(race, form, session, holder, colours, limits=self.limits, engine=self.engine, message=message)
            settings = {"merge": lambda old, new: new.merged(old), "on_shutdown": lambda latest: SHUT_DOWN}
            job: Job[Update] = self.submit(session, holder, lambda control: work(control), **settings)
            async with aclosing(self.follow(job, self._meanwhile(job, holder))) as updates:
                async for update in updates:
                    if update.view and not update.running:
                        await asyncio.to_thread(self.races.keep, update.view)
                    yield update
        except Exception as error:
            self.count(error)
            yield failed(error, turn=message is not None)

    def _meanwhile(self, job: Job[Update], holder: ModelHolder) -> Callable[[], Update | None]:
        """What a race without an update does or waits for: in the queue each time, later when it has changed."""
        shown: list[Message] = []

        def notice() -> Update | None:
            compiling: list[Message] = [("notice.compiling", {})] if self.engine.compiling() else []
            if job.place:
                doing = self.scheduler.doing
                return Update(notice=queue_notice(job, holder, [doing, *compiling] if doing else []))
            messages = unsaid(job, compiling, shown)
            if not messages or messages == shown:
                return None
            shown[:] = messages
            return Update(notice=Notice("busy", messages))

        return notice

    def follow(self, job: Job[T], meanwhile: Callable[[], T | None], stream: str | None = None) -> AsyncGenerator[T, None]:
        """See ``ui.serving.follow``; ``stream``: where its updates are read, if not in the session's own stream."""
        return follow(job, meanwhile, lambda: self.unread(stream or job.session))

    def stop_call(self, event: str, session: str) -> bool:
        """Stop the job of an API call, so that its last answer says so; returns whether this session has such a job."""
        job = self.calls.get(event)
        if job is None or job.finished or job.session != session:
            return False
        job.stop()
        return True

    def count(self, error: Exception) -> None:
        """Count a refused request; the scheduler counts its own refusals and failed jobs."""
        if isinstance(error, AdedError) and not isinstance(error, (QueueRefused, WorkerLost)):
            self.counters.refused("gpu" if isinstance(error, NoGpu) else "asked")

    def status(self) -> Notice:
        """The state of the server in one line."""
        holder, memory = self.models.first, round(resident_memory(self.counters) / MEGABYTE)
        values = {"model": holder.model.label if holder.loaded else name_of(holder.spec), "memory": memory}
        if not holder.loaded:
            return Notice("info", [("status.asleep", values)])
        values |= {"running": self.scheduler.running, "waiting": self.scheduler.waiting}
        held = round(device_memory() / MEGABYTE)
        gpu: list[Message] = [("status.gpu", {"device": held})] if held else []
        return Notice("info", [("status.line", values), *gpu])

    def close(self, seconds: float = 5.0) -> bool:
        """Stop all jobs within a step; returns whether nothing is running, which a step or the loading of a model can delay."""
        return self.scheduler.close(seconds) and not self.models.busy


def unsaid(job: Job[Update], compiling: Sequence[Message], shown: Sequence[Message]) -> list[Message]:
    """What the updates of a race that has left the queue do not say: that it waits for its first turn or for the end of the step
    after which it stops, and what is compiled; ``shown``: what was said last."""
    doing = job.control.doing
    if job.control.reason == "stopped":
        return [("notice.stopping", {})]
    if doing is None:
        return [] if job.seconds else [("notice.waiting", {})]
    return [doing, *compiling] if compiling or len(shown) > 1 else []


def queue_notice(job: Job[Update], holder: ModelHolder, before: Sequence[Message] = ()) -> Notice:
    """What a job waits for, as a notice; ``before``: how a race before it is being prepared."""
    if holder.busy:
        return loading(holder.latest)
    wait = job.wait
    expected: Message = ("notice.nowait", {}) if wait is None else ("notice.wait", {"seconds": max(1, round(wait))})
    other: list[Message] = [("notice.other", {}), *before] if before else []
    return Notice("busy", [("notice.place", {"count": job.place}), expected, *other])
