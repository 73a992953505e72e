"""State of each visitor: what drafters have learned, and the current job. Limited in number and age."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import ref

from ui.serving.jobs import Job

MAX_SESSIONS = 1000
MAX_DRAFTERS = 64
"""Maximum number of drafters of all sessions; the session counts of one take about 5 MB."""
IDLE_SECONDS = 3600.0
"""Sessions without a request for this time are deleted."""


@dataclass
class Memory:
    """What a method has learned and keeps.

    Attributes:
        drafter: the drafter with the learned state; None before the first race, or if it was freed.
        prompts: number of prompts that it learned from.
        settings: the settings on which the learned state depends (``aded.drafters.registry.StateSettings``).
    """

    drafter: Any = None
    prompts: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)


class Session:
    """State of one visitor.

    Attributes:
        key: identifies the session.
        memories: what its methods have learned, by method name; with calls of the API, on the model of ``ids``.
        prefix_cache: the KV cache of its last decode (``aded.engine.prefix_cache``); None if none is kept.
        ids: the model of that decode, by its spec, and its token ids, prompt and answer (see ``aded.core.chat.Chat``).
        conversation: its latest race on the page, which can be continued (``ui.race.conversation``); None if there is none.
        job: the latest job, as long as the scheduler or a reader refers to it (its latest update may be large).
        stopped: whether Stop was pressed after Run; ``forgets``: how often it was asked to delete what the drafters have learned.
    """

    def __init__(self, key: str = "") -> None:
        self.key = key
        self.memories: dict[str, Memory] = {}
        self.prefix_cache: Any = None
        self.ids: tuple[str, tuple[int, ...]] = "", ()
        self.conversation: Any = None
        self.stopped, self.forgets = False, 0
        self.seen = 0.0
        self._job: ref[Job[Any]] | None = None

    @property
    def job(self) -> Job[Any] | None:
        return self._job() if self._job else None

    @job.setter
    def job(self, job: Job[Any]) -> None:
        self._job = ref(job)

    def begin(self) -> None:
        """Run was pressed: a job of which the page has lost the connection ends."""
        self.stopped = False
        if job := self.job:
            job.leave()

    def stop(self) -> None:
        """Stop was pressed."""
        self.stopped = True
        if job := self.job:
            job.stop()

    @property
    def kept(self) -> int:
        """Number of drafters that are kept."""
        kept = sum(memory.drafter is not None for memory in list(self.memories.values()))
        return kept + (self.conversation.drafters if self.conversation else 0)

    def free_drafters(self) -> None:
        """Free the drafters; the entries stay, so that the next race or turn can report the loss."""
        for memory in list(self.memories.values()):
            memory.drafter = None
        if self.conversation:
            self.conversation.free_drafters()

    def forget(self) -> None:
        """Delete what the drafters have learned; a race in progress sees by ``forgets`` that it keeps nothing."""
        self.forgets += 1  # first: a race that ends meanwhile has stored its conversation before it reads this
        self.memories.clear()
        if self.conversation:
            self.conversation.forget()

    @property
    def prefix_bytes(self) -> int:
        """Memory of its KV caches."""
        cache = self.prefix_cache  # another thread may free it
        own = cache.bytes if cache else 0
        return own + (self.conversation.bytes if self.conversation else 0)

    def free_prefix_caches(self) -> None:
        """Free its KV caches; the next turn reads the whole conversation."""
        cache, self.prefix_cache = self.prefix_cache, None
        if cache:
            cache.free()
        if self.conversation:
            self.conversation.free_caches()

    @property
    def busy(self) -> bool:
        job = self.job
        return job is not None and not job.finished


class Sessions:
    """All sessions by key, the latest used last.

    Args:
        prefix_bytes: see ``Limits``.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, prefix_bytes: int = 0) -> None:
        self._clock, self._prefix_bytes = clock, prefix_bytes
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def memories(self) -> int:
        """Number of drafters that are kept."""
        return sum(session.kept for session in list(self._sessions.values()))

    @property
    def prefix_bytes(self) -> int:
        """Memory of the kept KV caches."""
        return sum(session.prefix_bytes for session in list(self._sessions.values()))

    def get(self, key: str) -> Session:
        """The session with this key; it is created if necessary."""
        with self._lock:
            session = self._sessions.setdefault(key, Session(key))
            session.seen = self._clock()
            self._sessions.move_to_end(key)
        self.sweep()
        return session

    def free(self, key: str) -> None:
        """The visitor has left: stop the job and delete the session."""
        with self._lock:
            session = self._sessions.pop(key, None)
        if session is None:
            return
        session.free_prefix_caches()
        if job := session.job:
            job.leave()

    def sweep(self) -> None:
        """Delete sessions that are too old or too many, and free drafters and KV caches beyond the limits, the oldest first."""
        now = self._clock()
        with self._lock:
            idle = [s for s in self._sessions.values() if not s.busy]
            old = [s for s in idle if now - s.seen >= IDLE_SECONDS]
            for session in [*old, *idle[: max(0, len(self._sessions) - MAX_SESSIONS)]]:
                self._sessions.pop(session.key, None)
                session.free_prefix_caches()
            for session in [s for s in idle if s.kept or s.prefix_bytes]:
                if self.memories > MAX_DRAFTERS:
                    session.free_drafters()
                if self.prefix_bytes > self._prefix_bytes:
                    session.free_prefix_caches()
