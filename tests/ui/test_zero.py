"""Races in ZeroGPU's workers, on a stand-in that forks and pickles as ZeroGPU does: the same races, stopped, taught, and lost."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import ROOT
from fakes import tiny_target
from serving_fakes import NUMBERS, FakeEngine, form, serving, updates, words
from waiting import HANG, http, until
from zero_fakes import FORK, Error, Spaces

from aded.core.trace import Race, Seconds
from aded.drafters.aded import AdedDrafter
from aded.drafters.base import Drafter
from ui.engine import Engine
from ui.form import Entrant, Form
from ui.models import Models
from ui.run import Update
from ui.serving import programs, worker, zero
from ui.serving.limits import Limits
from ui.serving.quota import RULES, NoCard, WorkerLost, said
from ui.serving.runs import Control
from ui.serving.service import Service
from ui.serving.sessions import Session
from ui.serving.worker import Task
from ui.serving.zero import ZeroEngine
from ui.words import say, tables

pytest_plugins = ("zero_fixtures",)
KEEPING = {"aded": {"keep": True}, "suffix": {"keep": True}, "token-recycling": {"keep": True}}


class CountedEngine(FakeEngine):
    """One that counts its steps, and whether it was closed, where both sides of a fork see it.

    Each step takes one of its permits, of which there are ``steps`` at first; None: it needs none.
    No lock: who is killed as it counts would keep it.
    """

    def __init__(self, steps: int | None = None) -> None:
        super().__init__()
        self.made, self.shut = FORK.Value("i", 0, lock=False), FORK.Event()
        self.permits = None if steps is None else FORK.Semaphore(steps)

    def decoder(self, *arguments: Any) -> Any:
        decoder = super().decoder(*arguments)
        decoder.drafter = arguments[-1]
        return decoder

    def race(self, decoders: Any, prompt: str) -> Iterator[Any]:
        try:
            for turn in super().race(decoders, prompt):
                if self.permits is not None:
                    self.permits.acquire()
                self.made.value += 1
                yield turn
        finally:
            self.shut.set()


def traces(service: Service, asked: Form) -> Race:
    """The record of a race, without what differs from one time to the next."""

    async def read() -> dict[str, Any]:
        told = (programs.told_trace, lambda lanes: {"race": Race(list(lanes))})
        async with aclosing(programs.stream(service, "t", "", asked, *told)) as answers:
            return [answer async for answer in answers][-1]

    return Race([_timeless(lane) for lane in asyncio.run(asyncio.wait_for(read(), HANG))["race"].lanes])


def _timeless(trace: Any) -> Any:
    steps = [replace(step, seconds=Seconds(), budget=replace(step.budget, why="")) for step in trace.steps]
    return replace(trace, steps=steps, prefill_seconds=0.0)


def test_a_race_in_a_worker_is_the_race_that_runs_here(on_zero: Any):
    target = tiny_target("llama")
    assert target.cost.sizes  # measured once for both: the record holds it
    asked = form(prompt="w5 w17 w40", methods=("plain", "aded", "prompt-lookup"), budget="16")
    there = on_zero(Engine(), target)
    here = Service(Models(loader=lambda *_: target))
    assert traces(there, asked) == traces(here, asked)
    here.close()


def test_the_page_s_race_streams_from_a_worker_and_ends_with_a_verdict(on_zero: Any):
    service = on_zero()
    found = updates(service)
    assert "Waiting for a shared GPU…" in [words(update) for update in found]
    assert words(found[-1]).startswith("Done in")
    assert found[-1].view.count('"t":"lane"') == 2  # type: ignore[union-attr]
    assert worker.READY == {}


def test_one_synchronous_generator_gets_the_card_and_a_warm_worker_is_used_again(on_zero: Any, spaces: Spaces):
    service = on_zero()
    for _ in range(2):
        assert words(updates(service)[-1]).startswith("Done in")
    assert spaces.decorated == [worker.work]
    assert len(spaces.workers) == 1


def task(count: int = 2, tokens: int = 64) -> Task:
    entrants = [Entrant("plain")] * count
    return Task("default", "auto", "auto", "hello", {**NUMBERS, "max_new_tokens": tokens}, entrants, [None] * count)


def test_the_time_asked_for_grows_with_lanes_and_tokens_and_has_a_bound():
    seconds = [task(1, 16).seconds, task(2, 16).seconds, task(2, 256).seconds, task(6, 100_000).seconds]
    assert seconds == sorted(set(seconds))
    assert worker.START_SECONDS < seconds[0] < 20
    assert seconds[-1] == worker.LONGEST_SECONDS < 120


def test_the_time_of_a_run_is_asked_for_before_it_runs(on_zero: Any, spaces: Spaces):
    asked: list[float] = []
    spaces.schedule = asked.append
    updates(on_zero(max_new_tokens=64), form(numbers={**NUMBERS, "max_new_tokens": 5000}))
    assert asked == [task(2, 64).seconds]


def test_what_cannot_be_pickled_is_caught_on_its_way_in(on_zero: Any):
    service = on_zero()
    last = updates(service, form(options={"aded": {"search": lambda: None}}))[-1]
    assert "PicklingError" in words(last)
    assert words(updates(service)[-1]).startswith("Done in")


def test_what_cannot_be_pickled_is_caught_on_its_way_out(on_zero: Any):
    class Telling(FakeEngine):
        def race(self, decoders: Any, prompt: str) -> Iterator[Any]:
            for lane, _ in super().race(decoders, prompt):
                yield lane, SimpleNamespace(emitted=threading.Lock())

    last = updates(on_zero(Telling()))[-1]
    assert "The run failed on the shared GPU (PicklingError)." in words(last)


@pytest.mark.parametrize("method", ["aded", "suffix", "token-recycling"])
def test_what_drafters_learned_in_a_worker_comes_back_and_teaches_the_next_race(on_zero: Any, spaces: Spaces, method: str):
    """The oracle is the same pair of races with drafters that never left the process."""
    target = tiny_target("llama")
    asked = form(prompt="w5 w17 w40", methods=("plain", method), options=KEEPING, budget="16")

    def views(service: Service, between: Callable[[], None]) -> list[Any]:
        session, found = Session("a"), []
        for _ in range(2):
            found.append(_shape(updates(service, asked, session)[-1].view))
            between()
        assert [memory.prompts for memory in session.memories.values()] == [2]
        return found

    def forget_workers() -> None:
        spaces.warm.clear()

    here = Service(Models(loader=lambda *_: target))
    local = views(here, lambda: None)
    there = views(on_zero(Engine(), target), forget_workers)
    assert there == local
    assert there[0] != there[1], "the first race taught nothing: the test sees nothing"
    assert len(spaces.workers) == 2
    here.close()


def _shape(view: str | None) -> list[Any]:
    """Lane, tokens drafted and tokens written, of every step of a view's lanes."""
    import json

    lines = [json.loads(text) for text in (view or "").splitlines()]
    found = [(one["lane"], one["step"]["tree"]["tokens"], one["step"]["emitted"]) for one in lines if one["t"] == "step"]
    return sorted(found, key=lambda one: one[0])


def test_what_is_taught_in_place_is_lost_and_seen_to_be(on_zero: Any, spaces: Spaces, monkeypatch: pytest.MonkeyPatch):
    """A planted fault: a worker that changes what it was given, and sends nothing back."""
    target, session = tiny_target("llama"), Session("a")
    asked = form(prompt="w5 w17 w40", options=KEEPING, budget="16")
    updates(on_zero(Engine(), target), asked, session)
    (memory,) = session.memories.values()
    before = pickle.dumps(memory.drafter.learned)

    def in_place(drafter: Any, known: Any) -> None:
        for array in known.values():
            array += 1

    monkeypatch.setattr(AdedDrafter, "load_state_dict", in_place)
    monkeypatch.setattr(AdedDrafter, "state_dict", lambda drafter: None)
    spaces.warm.clear()
    assert words(updates(on_zero(Engine(), target), asked, session)[-1]).startswith("Done in")
    assert (pickle.dumps(memory.drafter.learned), memory.prompts) == (before, 1)


def test_only_what_the_session_learned_is_sent(on_zero: Any):
    target, session = tiny_target("llama"), Session("a")
    updates(on_zero(Engine(), target), form(prompt="w5 w17", options=KEEPING, budget="16"), session)
    (memory,) = session.memories.values()
    assert set(memory.drafter.learned) == {"now", "keys", "successors", "weights", "counts", "last_seen", "trust", "target_top"}
    assert len(pickle.dumps(memory.drafter.learned)) < 6_000_000


def ends_within_a_step(engine: CountedEngine, spaces: Spaces, service: Service) -> None:
    """Nobody reads any more: the worker's next item closes its generator, and its next step is its last."""
    until(lambda: service.scheduler.running == 0)
    made = engine.made.value
    engine.permits.release()
    until(spaces.workers[0].stop_event.is_set)
    engine.permits.release()
    assert engine.shut.wait(HANG), "it waits for a permit to go on"
    assert engine.made.value <= made + 2


def test_stop_ends_the_worker_within_a_step_and_what_it_would_have_taught_is_not_counted(on_zero: Any, spaces: Spaces):
    engine = CountedEngine(steps=1)
    service = on_zero(engine)
    session = service.sessions.get("a")

    def stop(update: Update) -> None:
        if update.view:
            session.stop()

    last = updates(service, form(options=KEEPING), session, stop)[-1]
    assert words(last).startswith("Stopped.")
    assert last.view
    ends_within_a_step(engine, spaces, service)
    assert session.memories == {}
    engine.permits = None  # which a worker that is forked now knows
    until(lambda: spaces.warm)
    spaces.warm.clear()
    session.begin()
    assert words(updates(service, session=session)[-1]).startswith("Done in")


def test_a_visitor_who_leaves_frees_the_card_within_a_step(on_zero: Any, spaces: Spaces):
    engine = CountedEngine(steps=1)
    service = on_zero(engine)

    async def glance() -> None:
        async with aclosing(service.race(service.sessions.get("a"), form(), {})) as news:
            async for update in news:
                if update.view:
                    return

    asyncio.run(glance())
    ends_within_a_step(engine, spaces, service)


def test_stop_while_a_card_is_waited_for_is_heard_at_once_and_the_card_goes_back_unused(on_zero: Any, spaces: Spaces):
    engine, free, scheduled = CountedEngine(steps=0), threading.Event(), []
    spaces.schedule = lambda seconds: scheduled.append(free.wait(HANG))
    service = on_zero(engine)
    session = service.sessions.get("a")

    def stop(update: Update) -> None:
        if words(update).startswith("Waiting for a shared GPU"):
            threading.Timer(0.2, session.stop).start()

    assert words(updates(service, session=session, when=stop)[-1]) == "Stopped before the race began."
    assert scheduled == [], "there is no card yet"
    free.set()
    until(lambda: spaces.workers and spaces.workers[0].stop_event.is_set())
    engine.permits.release()
    until(lambda: spaces.warm)
    assert engine.made.value <= 1


def test_one_who_waits_for_a_card_keeps_nobody_else_waiting(on_zero: Any, spaces: Spaces):
    free, first = threading.Event(), threading.Event()

    def schedule(seconds: float) -> None:
        if not first.is_set():
            first.set()
            free.wait(HANG)

    spaces.schedule = schedule
    service = on_zero()
    found: list[list[Update]] = []
    waiting = threading.Thread(target=lambda: found.append(updates(service, session=service.sessions.get("a"))))
    waiting.start()
    assert first.wait(HANG)
    assert words(updates(service, session=service.sessions.get("b"))[-1]).startswith("Done in")
    free.set()
    waiting.join(HANG)
    assert words(found[0][-1]).startswith("Done in")


@pytest.mark.parametrize("as_it_writes", [False, True])
def test_a_killed_worker_fails_its_run_with_words_and_the_next_run_works(on_zero: Any, spaces: Spaces, as_it_writes: bool):
    engine = CountedEngine(steps=3)
    service = on_zero(engine)

    def kill(update: Update) -> None:
        if update.view and len(spaces.workers) == 1 and engine.permits is not None:
            engine.permits = None
            if as_it_writes:
                spaces.workers[0].results.hold()
            os.kill(spaces.workers[0].process.pid, signal.SIGKILL)  # type: ignore[arg-type]

    last = updates(service, when=kill)[-1]
    assert words(last).startswith("The shared GPU ended the run. Ask for fewer tokens or methods")
    assert words(last).endswith("Recorded races still play.")
    assert last.notice.kind == "error"  # type: ignore[union-attr]
    assert not last.running
    assert service.counters.value("aded_runs_total", {"outcome": "failed"}) == 1
    assert words(updates(service)[-1]).startswith("Done in")
    assert len(spaces.workers) == 2


def test_a_worker_that_hangs_fails_its_run_once_its_time_is_over_and_the_next_run_works(
    on_zero: Any, spaces: Spaces, monkeypatch: pytest.MonkeyPatch
):
    now = [1.0]
    monkeypatch.setattr(zero, "time", SimpleNamespace(monotonic=lambda: now[0]))
    engine = CountedEngine(steps=3)
    service = on_zero(engine)

    def hang(update: Update) -> None:
        if update.view and len(spaces.workers) == 1:
            engine.permits = None
            os.kill(spaces.workers[0].process.pid, signal.SIGSTOP)  # type: ignore[arg-type]
            now[0] += task(2, 32).seconds + zero.LATE_SECONDS

    last = updates(service, when=hang)[-1]
    assert words(last).startswith("The shared GPU ended the run.")
    assert service.counters.value("aded_runs_total", {"outcome": "failed"}) == 1
    assert words(updates(service)[-1]).startswith("Done in")


def test_what_the_engine_refuses_in_a_worker_is_refused_in_its_own_words(on_zero: Any):
    service = on_zero(Engine(), tiny_target("llama"))
    last = updates(service, form(prompt="w5 w17", options={"aded": {"depth": 900}}))[-1]
    assert words(last) == "Depth is 900; give a number from 1 to 64."
    assert service.counters.value("aded_refusals_total", {"reason": "asked"}) == 1


def test_a_race_that_has_used_its_time_up_is_cut_and_says_so_and_keeps_what_it_taught(
    on_zero: Any, monkeypatch: pytest.MonkeyPatch
):
    seconds = count()  # one a step
    monkeypatch.setattr(worker, "LONGEST_SECONDS", 15)
    monkeypatch.setattr(worker, "time", SimpleNamespace(monotonic=lambda: float(next(seconds))))
    monkeypatch.setattr(Drafter, "state_dict", lambda drafter: {}, raising=False)
    service = on_zero(CountedEngine())
    session = service.sessions.get("a")
    last = updates(service, form(options=KEEPING), session)[-1]
    assert words(last) == f"The run has had its {task(2, 32).seconds} s of the model and was ended there."
    assert last.view
    assert [memory.prompts for memory in session.memories.values()] == [1]


QUOTA = "ZeroGPU quota exceeded"
CLIENT = "ZeroGPU client error"
ERRORS = [
    (QUOTA, "You have exceeded your free ZeroGPU quota (60s requested vs. 7s left). Try again in 3:02:01. ", "gpu.quota"),
    (QUOTA, "You have exceeded your ZeroGPU runs limit. Authenticate with a Hugging Face token", "gpu.runs"),
    (QUOTA, "Space app has reached its GPU limit. Try re-running outside of examples", "gpu.space"),
    (QUOTA, "No GPU was available after 60s. Try re-running outside of examples", "gpu.none"),
    ("ZeroGPU illegal duration", "The requested GPU duration (300s) is larger than the maximum allowed", "gpu.duration"),
    ("ZeroGPU pending credits exceeded", "You have too many ZeroGPU credits allocated to running tasks.", "gpu.credits"),
    ("ZeroGPU queue timeout", "No GPU was available after 60s. Retry later", "gpu.none"),
    (CLIENT, "No GPU was available", "gpu.none"),
    (CLIENT, "Expired ZeroGPU proxy token", "gpu.token"),
    (CLIENT, "Internal Gradio error", "gpu.other"),
    ("ZeroGPU worker error", "GPU task aborted", "gpu.aborted"),
    ("ZeroGPU worker error", "OutOfMemoryError", "gpu.worker"),
    ("Error", "ZeroGPU API /schedule error: 500 (Internal Server Error)", "gpu.other"),
    ("Error", "No @spaces.GPU function detected during startup", "gpu.function"),
]


@pytest.mark.parametrize(("title", "message", "key"), ERRORS)
def test_every_error_of_the_quota_and_the_queue_says_its_remedy_and_that_recorded_races_play(title: str, message: str, key: str):
    found = said(Error(message, title))
    assert isinstance(found, (NoCard, WorkerLost))
    assert isinstance(found, WorkerLost) == (title == "ZeroGPU worker error")
    keys = [name for name, _ in found.sayings]
    assert (keys[0], keys[-1]) == (key, "gpu.recorded")
    for language in tables():
        text = " ".join(say(name, language, **values) for name, values in found.sayings)
        assert "{" not in text
        assert "ZeroGPU" not in text or key == "gpu.other"


def test_every_rule_is_met_by_an_error_and_an_error_of_another_kind_stays_what_it_is():
    assert {key for _, key in RULES} == {key for *_, key in ERRORS}
    other = ValueError("no such thing")
    assert said(other) is other


def test_what_is_left_of_a_quota_is_told():
    _, message, _ = ERRORS[0]
    assert "60 s were asked for and 7 s are left; more in 3:02:01." in str(said(Error(message, QUOTA)))


def test_a_quota_that_is_used_up_leaves_the_picture_and_is_counted(on_zero: Any, spaces: Spaces):
    def refuse(seconds: float) -> None:
        raise Error(ERRORS[0][1], QUOTA)

    spaces.schedule = refuse
    service = on_zero()
    found = updates(service)
    assert all(update.view is None for update in found)
    assert found[-1].notice.kind == "error"  # type: ignore[union-attr]
    assert words(found[-1]).endswith("Recorded races still play.")
    assert service.counters.value("aded_refusals_total", {"reason": "card"}) == 1
    assert spaces.workers == []


def test_the_card_is_asked_for_in_the_name_of_the_visitor_s_own_request(on_zero: Any, spaces: Spaces):
    """The package takes the quota's token from Gradio's context: it must be there in the thread that asks."""
    from gradio.context import LocalContext

    tokens = []
    spaces.schedule = lambda seconds: tokens.append(LocalContext.request.get().headers.get("x-ip-token"))
    with serving(on_zero()) as address:
        for name, body in (("generate", {}), ("race", {"methods": ["plain", "aded"]}), ("trace", {})):
            call = f"{address}/gradio_api/call/v2/{name}"
            event = http.post(call, json={"prompt": "hello", **body}, headers={"X-IP-Token": name}).json()["event_id"]
            answer = http.get(f"{call}/{event}").text
            assert '"state": "done"' in answer or '"state":"done"' in answer
    assert tokens == ["generate", "race", "trace"]


def test_the_package_is_imported_first_and_the_card_s_function_is_there_before_the_page_is_launched(tmp_path: Path):
    (tmp_path / "spaces.py").write_text("from zero_fakes import *\nfrom zero_fakes import _spaces\n")
    code = (
        "import sys, app, spaces\n"
        "assert 'torch' not in sys.modules\n"
        "from ui import zerogpu\n"
        "import ui.serving.worker as worker\n"
        "worker.park = lambda *a: 'parked'\n"
        "models, engine = zerogpu.parts(['default'], 'auto', 'auto')\n"
        "print(type(engine).__name__, [f.__name__ for f in spaces._spaces.decorated])\n"
        "while models.first.busy: pass\n"
        "print(models.first.model)\n"
    )
    paths = os.pathsep.join([str(tmp_path), str(ROOT / "tests"), str(ROOT)])
    environment = {**os.environ, "SPACES_ZERO_GPU": "true", "PYTHONPATH": paths}
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=HANG)
    assert done.stdout.split("\n")[:2] == ["ZeroEngine ['work']", "parked"], done.stderr[-2000:]


def test_a_task_and_all_that_is_told_cross_as_plain_data(on_zero: Any, monkeypatch: pytest.MonkeyPatch):
    """No tensor, on a card or not, in what the worker yields for a race of every method that runs on a bare model."""
    import torch

    monkeypatch.setattr(worker, "ENGINE", Engine())
    target = tiny_target("llama")
    monkeypatch.setattr(worker, "LOAD", lambda *_: target)
    known = dict(KEEPING)
    names = ("plain", *known)
    entrants = [Entrant(name, known.get(name, {})) for name in names]
    asked = Task("default", "cpu", "auto", "w5 w17", {**NUMBERS, "budget": 16}, entrants, [None] * len(names))
    told = list(worker.work(pickle.loads(pickle.dumps(asked))))
    assert any(isinstance(news, worker.Closed) for news in told)
    assert sum(news is None for news in told) == 1 + 2 * len(names)

    class Watching(pickle.Pickler):
        def persistent_id(self, found: object) -> None:
            assert not isinstance(found, torch.Tensor)

    import io

    for news in told:
        Watching(io.BytesIO()).dump(news)


def test_control_carries_the_context_that_it_was_made_in():
    from contextvars import ContextVar

    who: ContextVar[str] = ContextVar("who")
    who.set("a visitor")
    control = Control()
    who.set("somebody else")
    assert control.context[who] == "a visitor"


@pytest.mark.slow
@pytest.mark.model
def test_the_real_model_writes_in_a_worker_what_it_writes_here(spaces: Spaces, real_model: Any, monkeypatch: pytest.MonkeyPatch):
    """The weights are read once, in the server; a worker makes its own model of them, and the server none."""
    monkeypatch.setattr(worker, "START_SECONDS", 600)  # on a card it is seconds
    monkeypatch.setattr(worker, "LONGEST_SECONDS", 600)
    asked = form(prompt="Why is the sky blue?", methods=("plain", "aded", "suffix"), options=KEEPING, budget="16")
    models = Models(dtype="float32", loader=worker.park)
    there = Service(models, Limits(), ZeroEngine(spaces.GPU, "cpu", "float32"))
    here = Service(Models(loader=lambda *_: real_model))
    assert [lane.token_ids for lane in traces(there, asked).lanes] == [lane.token_ids for lane in traces(here, asked).lanes]
    session = Session("a")
    for prompts in (1, 2):
        assert words(updates(there, asked, session)[-1]).startswith("Done in")
        assert {memory.prompts for memory in session.memories.values()} == {prompts}
    sent = [pickle.dumps(memory.drafter.learned) for memory in session.memories.values()]
    assert max(map(len, sent)) < 6_000_000 < sum(array.nbytes for array in models.first.model.weights.state_dict().values())
    assert programs.row_of(models.first.model, "I would like to")["successors"]
    assert worker.READY == {}
    assert len(spaces.workers) == 1
    there.close()
    here.close()
    worker.PARKED.clear()
