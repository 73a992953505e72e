"""A visitor's race through queue, steps and end, as the page follows it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import aclosing
from types import SimpleNamespace
from typing import Any

import pytest
from serving_fakes import BrokenEngine, FakeEngine, GatedEngine, fake_service, form, updates, words
from waiting import HANG, until

from aded.core.errors import AdedError
from aded.drafters.registry import RunSpec
from ui.race.models import Models
from ui.race.run import Update
from ui.serving.jobs import Control
from ui.serving.limits import Limits
from ui.serving.service import Service


def test_a_race_streams_and_ends_with_a_verdict():
    service = fake_service()
    found = updates(service)
    assert words(found[-1]).startswith("Done in")
    assert not found[-1].running
    assert found[-1].view
    assert found[-1].view.count('"t":"run"') == 2
    service.close()


def test_stop_ends_a_race_that_runs_and_keeps_what_was_written():
    engine = GatedEngine()
    engine.gate.set()
    service = fake_service(engine)
    session = service.sessions.get("a")
    found = updates(service, session=session, when=lambda update: session.stop() if update.view else None)
    assert words(found[-1]).startswith("Stopped.")
    assert engine.closed
    assert found[-1].view
    service.close()


def test_a_race_can_be_stopped_before_it_starts():
    service = fake_service()
    session = service.sessions.get("a")
    session.begin()
    session.stop()
    (only,) = updates(service, session=session)
    assert words(only) == "Stopped before the race started."
    session.begin()
    assert words(updates(service, session=session)[-1]).startswith("Done")
    service.close()


def test_a_queued_race_reports_its_place_and_can_be_stopped():
    engine = GatedEngine()
    service = fake_service(engine, at_once=1)
    first = threading.Thread(target=updates, args=(service,))
    first.start()
    assert engine.on.wait(HANG)
    session = service.sessions.get("b")

    def stop(update: Update) -> None:
        session.stop()
        engine.gate.set()

    found = updates(service, session=session, when=stop)
    assert words(found[0]).startswith("You are next in the queue for the model. The waiting time is not known yet.")
    assert words(found[-1]) == "Stopped before the race started."
    first.join(HANG)
    service.close()


def test_loading_is_reported_and_tried_again_after_a_failure():
    results: list[Any] = [AdedError("unknown model 'x'; give a folder"), SimpleNamespace(label="x")]

    reported = threading.Event()

    def loader(spec: str, device: str, dtype: str, progress: Any) -> Any:
        progress("fetching", 0.5)
        assert reported.wait(HANG)
        found = results.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    service = Service(Models(("x",), loader=loader), Limits(), FakeEngine())
    session = service.sessions.get("a")
    found = updates(service, session=session, when=lambda update: words(update) == "Fetching…" and reported.set())
    assert reported.is_set()
    assert words(found[-1]) == "Unknown model 'x'; give a folder."
    assert words(updates(service, session=session)[-1]).startswith("Done")
    service.close()


def test_errors_become_notices_and_the_next_race_works():
    engine = BrokenEngine()
    service = fake_service(engine)
    session = service.sessions.get("a")
    assert "RuntimeError: out of memory." in words(updates(service, session=session)[-1])
    engine.broken = False
    assert words(updates(service, session=session)[-1]).startswith("Done")
    assert service.counters.value("aded_runs_total", {"outcome": "failed"}) == 1
    service.close()


def test_closing_the_page_stops_the_race_within_a_step():
    engine = GatedEngine()
    engine.gate.set()
    service = fake_service(engine)

    async def glance() -> None:
        async with aclosing(service.race(service.sessions.get("a"), form(), {})) as news:
            async for update in news:
                if update.view:
                    return

    asyncio.run(glance())
    job = service.sessions.get("a").job
    assert job is not None
    until(lambda: job.finished)
    assert (job.outcome, engine.closed) == ("left", True)
    service.close()


def test_learned_state_belongs_to_a_session_and_outlasts_a_race():
    service = fake_service()
    keeping = form(options={"aded": {"keep": True}})
    for key in ("a", "a", "b"):
        updates(service, keeping, service.sessions.get(key))
    (first,), (second,) = (service.sessions.get(key).memories.values() for key in "ab")
    assert (first.prompts, second.prompts) == (2, 1)
    assert first.drafter is not second.drafter
    service.close()


class PreparingEngine(FakeEngine):
    """A fake engine that measures, and compiles the drafter of its second run until ``ready``."""

    def __init__(self) -> None:
        super().__init__()
        self.ready, self.busy = threading.Event(), threading.Event()

    def unmeasured(self, model: Any) -> bool:
        return True

    def compiling(self) -> bool:
        return self.busy.is_set()

    def decoder(self, model: Any, run: RunSpec, settings: Any, drafter: Any = None, *, record: bool = True, **kept: Any) -> Any:
        if run.method == "aded":
            self.busy.set()
            self.ready.wait(HANG)
            self.busy.clear()
        return super().decoder(model, run, settings, drafter, record=record)


def test_a_race_says_what_is_prepared_and_compiled_and_a_waiting_one_too():
    engine = PreparingEngine()
    service = fake_service(engine, at_once=1)
    seen: dict[str, list[str]] = {"a": [], "b": []}
    compiling = "Preparing ADED (run 2 of 2)… Compiling the draft search (once per machine)…"

    def watch(session: str) -> None:
        def note(update: Update) -> None:
            seen[session].append(words(update))
            if all(any(compiling in text for text in texts) for texts in seen.values()):
                engine.ready.set()

        updates(service, session=service.sessions.get(session), when=note)

    threads = [threading.Thread(target=watch, args=(session,)) for session in seen]
    threads[0].start()
    assert engine.busy.wait(HANG)
    threads[1].start()
    for thread in threads:
        thread.join(HANG)
    assert compiling in seen["a"]
    queued = [text for text in seen["b"] if compiling in text]
    assert queued[0].endswith(f"A race before yours is being prepared: {compiling}")
    assert all(texts[-1].startswith("Done in") for texts in seen.values())
    service.close()


@pytest.fixture
def waiting() -> Iterator[tuple[Any, Any, Callable[[], str | None]]]:
    """A queued job, the engine of its server, and what the page is told about it while it has no update."""
    service = fake_service()
    job = SimpleNamespace(place=1, wait=None, seconds=0.0, control=Control())
    notice = service._meanwhile(job, SimpleNamespace(busy=False))  # type: ignore[arg-type]
    yield job, service.engine, lambda: (update := notice()) and words(update)
    service.close()


def test_no_line_about_the_queue_stays_when_a_race_has_left_it(waiting):
    job, _, told = waiting
    assert "You are next in the queue" in told()
    job.place = 0
    assert told() == "Waiting for the model…"  # its first turn comes after a step of each running race
    assert told() is None
    job.control.stop("stopped")
    assert told() == "Stopping after this step…"
    assert told() is None


def test_no_line_about_the_queue_stays_when_a_race_is_stopped_there(waiting):
    job, _, told = waiting
    assert "You are next in the queue" in told()
    job.place = 0
    job.control.stop("stopped")
    assert told() == "Stopping after this step…"


def test_what_the_updates_of_a_race_say_is_not_replaced(waiting, monkeypatch):
    job, engine, told = waiting
    job.place, job.control.doing = 0, ("notice.reading", {})
    assert told() is None
    monkeypatch.setattr(engine, "compiling", lambda: True)
    assert told() == "Reading the prompt… Compiling the draft search (once per machine)…"
    monkeypatch.setattr(engine, "compiling", lambda: False)
    assert told() == "Reading the prompt…"
    assert told() is None
    job.control.doing, job.seconds = None, 1.0
    assert told() is None


def test_a_race_can_be_stopped_while_it_is_prepared():
    engine = PreparingEngine()
    service = fake_service(engine)
    session = service.sessions.get("a")

    def stop(update: Update) -> None:
        if engine.busy.is_set():
            session.stop()
            engine.ready.set()

    found = updates(service, session=session, when=stop)
    assert words(found[-1]) == "Stopped before the race started."
    service.close()
