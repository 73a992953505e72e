"""What the server keeps of each visitor: what drafters have learned, and the run that is on. Bounded, and freed by age."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import ref

from ui.serving.runs import Run

MAX_SESSIONS = 1000
MAX_MEMORIES = 64
"""Drafters of all sessions together; the overlay of one takes about 5 MB."""
IDLE_SECONDS = 3600.0
"""A session that was not heard of for so long is forgotten."""


@dataclass
class Memory:
    """What a method has learned and keeps.

    Attributes:
        drafter: the one that knows it; None before the first, or where it had to be given up.
        prompts: how many have taught it.
        state_settings: the settings that it rests on (``aded.drafters.registry.StateSettings``).
    """

    drafter: Any = None
    prompts: int = 0
    state_settings: Mapping[str, Any] = field(default_factory=dict)


class Session:
    """One visitor's own state.

    Attributes:
        key: what tells it apart from others.
        memories: what its methods have learned and keep, by their names.
        run: the newest run, as long as the scheduler or a reader holds it: what it told last may be large.
        stopped: whether Stop was pressed since Run was.
    """

    def __init__(self, key: str = "") -> None:
        self.key = key
        self.memories: dict[str, Memory] = {}
        self.stopped = False
        self.seen = 0.0
        self._run: ref[Run[Any]] | None = None

    @property
    def run(self) -> Run[Any] | None:
        return self._run() if self._run else None

    @run.setter
    def run(self, run: Run[Any]) -> None:
        self._run = ref(run)

    def begin(self) -> None:
        """Run was pressed."""
        self.stopped = False

    def stop(self) -> None:
        """Stop was pressed."""
        self.stopped = True
        if run := self.run:
            run.stop()

    @property
    def kept(self) -> int:
        """Drafters that are kept."""
        return sum(memory.drafter is not None for memory in list(self.memories.values()))

    def give_up(self) -> None:
        """Free what was learned; that it was learned stays known, so that the next race can tell."""
        for memory in list(self.memories.values()):
            memory.drafter = None

    @property
    def busy(self) -> bool:
        run = self.run
        return run is not None and not run.over


class Sessions:
    """All sessions by key, the one heard of last at the end."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def memories(self) -> int:
        """Drafters that are kept."""
        return sum(session.kept for session in self._sessions.values())

    def get(self, key: str) -> Session:
        """The session of this key, a new one if it is not known."""
        with self._lock:
            session = self._sessions.setdefault(key, Session(key))
            session.seen = self._clock()
            self._sessions.move_to_end(key)
        self.sweep()
        return session

    def free(self, key: str) -> None:
        """The visitor has left: end the run and forget everything."""
        with self._lock:
            session = self._sessions.pop(key, None)
        if session is not None and (run := session.run):
            run.leave()

    def sweep(self) -> None:
        """Forget sessions that are too old or too many, and memories beyond their bound, the oldest first."""
        now = self._clock()
        with self._lock:
            idle = [s for s in self._sessions.values() if not s.busy]
            old = [s for s in idle if now - s.seen >= IDLE_SECONDS]
            for session in [*old, *idle[: max(0, len(self._sessions) - MAX_SESSIONS)]]:
                self._sessions.pop(session.key, None)
            for session in idle:
                if self.memories <= MAX_MEMORIES:
                    break
                session.give_up()
