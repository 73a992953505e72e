"""State of each visitor: separate, limited, and freed."""

from __future__ import annotations

from functools import partial
from weakref import ref

import numpy as np
import pytest
from serving_fakes import GatedEngine, fake_service
from waiting import until

from ui.serving import sessions
from ui.serving.sessions import Memory, Session, Sessions


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def learn(session: Session, count: int = 1) -> None:
    session.memories.update({f"{session.key} {i}": Memory(object()) for i in range(count)})


def test_each_key_has_its_own_session():
    kept = Sessions()
    learn(kept.get("a"))
    assert kept.get("a").memories
    assert not kept.get("b").memories


def test_when_a_visitor_leaves_the_session_is_deleted_and_the_job_stops():
    engine = GatedEngine()
    service = fake_service(engine)
    session = service.sessions.get("a")
    learn(session)

    def steps(control):
        while control.reason is None:
            yield "on"

    job = service.submit(session, service.models.first, steps)
    service.sessions.free("a")
    assert len(service.sessions) == 0
    assert job.control.reason == "left"
    assert not service.sessions.get("a").memories
    service.close()


def test_run_ends_a_job_of_which_the_page_has_lost_the_connection():
    service = fake_service()
    session = service.sessions.get("a")

    def steps(control):
        while control.reason is None:
            yield "on"

    lost = service.submit(session, service.models.first, steps)
    session.begin()
    assert lost.control.reason == "left"
    assert service.submit(session, service.models.first, steps).control.reason is None
    service.close()


def test_a_finished_job_without_readers_is_freed():
    """Its last update may be large, and a session may last for an hour."""
    service = fake_service()
    session = service.sessions.get("a")
    job = service.submit(session, service.models.first, lambda control: (yield "the end"))
    assert session.job is job
    until(partial(getattr, job, "finished"))
    service.close()
    kept = ref(job)
    del job
    assert kept() is session.job is None
    assert not session.busy
    session.stop()
    service.sessions.free("a")


def test_an_unknown_visitor_can_leave():
    Sessions().free("nobody")


def test_old_sessions_are_deleted():
    clock = Clock()
    kept = Sessions(clock)
    kept.get("a")
    clock.now += sessions.IDLE_SECONDS - 1
    kept.get("b")
    assert len(kept) == 2
    clock.now += 1
    kept.sweep()
    assert len(kept) == 1


def test_the_number_of_sessions_is_limited_and_the_oldest_is_deleted_first(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sessions, "MAX_SESSIONS", 3)
    kept = Sessions()
    for key in "abc":
        learn(kept.get(key))
    kept.get("a")
    kept.get("d")
    assert len(kept) == 3
    assert not kept.get("b").memories
    assert kept.get("a").memories


def test_sessions_below_the_limit_are_kept():
    kept = Sessions()
    for i in range(200):
        kept.get(f"{i}")
    assert len(kept) == 200


def test_the_number_of_drafters_is_limited_and_the_oldest_are_freed_first(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sessions, "MAX_DRAFTERS", 5)
    kept = Sessions()
    for key in "abc":
        learn(kept.get(key), 2)
    kept.sweep()
    assert [kept.get(key).kept for key in "abc"] == [0, 2, 2]
    assert kept.memories == 4
    assert [memory.drafter for memory in kept.get("a").memories.values()] == [None, None]


def test_a_session_may_begin_while_drafters_are_counted():
    kept = Sessions()

    class Counted(Session):
        @property
        def kept(self) -> int:
            kept._sessions.setdefault("new", Session("new"))
            return 1

    kept._sessions |= {key: Counted(key) for key in "ab"}
    assert kept.memories == 2


def test_session_counts_take_at_most_8_megabytes():
    from aded.drafters.methods.aded import AdedDrafter

    drafter = AdedDrafter(None, 97)
    parts = [part for part in drafter._session.arrays if isinstance(part, np.ndarray)]
    assert sum(part.nbytes for part in parts) < 8 << 20
