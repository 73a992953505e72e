"""What is kept of each visitor: apart from all others, bounded, and freed."""

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


def remember(session: Session, count: int = 1) -> None:
    session.memories.update({f"{session.key} {i}": Memory(object()) for i in range(count)})


def test_a_key_has_one_session_and_no_other_keys():
    kept = Sessions()
    remember(kept.get("a"))
    assert kept.get("a").memories
    assert not kept.get("b").memories


def test_a_visitor_that_leaves_is_forgotten_and_its_run_ends():
    engine = GatedEngine()
    service = fake_service(engine)
    session = service.sessions.get("a")
    remember(session)

    def steps(control):
        while control.reason is None:
            yield "on"

    run = service.submit(session, service.models.first, steps)
    service.sessions.free("a")
    assert len(service.sessions) == 0
    assert run.control.reason == "left"
    assert not service.sessions.get("a").memories
    service.close()


def test_a_run_that_has_ended_and_is_not_read_any_more_is_not_kept():
    """What it told last may be large, and a session may stay for an hour."""
    service = fake_service()
    session = service.sessions.get("a")
    run = service.submit(session, service.models.first, lambda control: (yield "the end"))
    assert session.run is run
    until(partial(getattr, run, "over"))
    service.close()
    kept = ref(run)
    del run
    assert kept() is session.run is None
    assert not session.busy
    session.stop()
    service.sessions.free("a")


def test_a_visitor_that_is_not_known_can_leave():
    Sessions().free("nobody")


def test_sessions_grow_old():
    clock = Clock()
    kept = Sessions(clock)
    kept.get("a")
    clock.now += sessions.IDLE_SECONDS - 1
    kept.get("b")
    assert len(kept) == 2
    clock.now += 1
    kept.sweep()
    assert len(kept) == 1


def test_the_number_of_sessions_is_bounded_the_oldest_goes_first(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sessions, "MAX_SESSIONS", 3)
    kept = Sessions()
    for key in "abc":
        remember(kept.get(key))
    kept.get("a")
    kept.get("d")
    assert len(kept) == 3
    assert not kept.get("b").memories
    assert kept.get("a").memories


def test_fewer_sessions_than_the_bound_stay():
    kept = Sessions()
    for i in range(200):
        kept.get(f"{i}")
    assert len(kept) == 200


def test_what_all_sessions_remember_is_bounded_the_oldest_is_forgotten_first(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sessions, "MAX_MEMORIES", 5)
    kept = Sessions()
    for key in "abc":
        remember(kept.get(key), 2)
    kept.sweep()
    assert [kept.get(key).kept for key in "abc"] == [0, 2, 2]
    assert kept.memories == 4
    assert [memory.drafter for memory in kept.get("a").memories.values()] == [None, None]


def test_a_memory_takes_no_more_than_was_reckoned_with():
    from aded.drafters.aded import AdedDrafter

    drafter = AdedDrafter(None, 97)
    parts = [part for part in drafter._overlay.arrays if isinstance(part, np.ndarray)]
    assert sum(part.nbytes for part in parts) < 8 << 20
