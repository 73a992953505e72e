"""Races in ZeroGPU workers, on a fake that forks and pickles as ZeroGPU does: same results, stops, learning, lost workers."""

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
from aded.drafters.base import Drafter
from aded.drafters.methods.aded import AdedDrafter
from aded.drafters.registry import RunSpec
from ui.race.engine import Engine
from ui.race.form import Form
from ui.race.models import Models
from ui.race.run import Update
from ui.serving import api
from ui.serving.jobs import Control
from ui.serving.limits import Limits
from ui.serving.service import Service
from ui.serving.sessions import Session
from ui.serving.zerogpu import worker, zero
from ui.serving.zerogpu.quota import RULES, NoGpu, WorkerLost, as_refusal
from ui.serving.zerogpu.worker import Task
from ui.serving.zerogpu.zero import ZeroEngine
from ui.words import say, tables

pytest_plugins = ("zero_fixtures",)
KEEPING = {"aded": {"keep": True}, "suffix": {"keep": True}, "token-recycling": {"keep": True}}


class CountedEngine(FakeEngine):
    """An engine that counts its steps, and whether it was closed, in memory that both processes of a fork share.

    Each step takes one of its permits, of which there are ``steps`` at first; None: it needs none.
    The counter has no lock: a process that is killed while it counts would keep it locked.
    """

    def __init__(self, steps: int | None = None) -> None:
        super().__init__()
        self.made, self.shut = FORK.Value("i", 0, lock=False), FORK.Event()
        self.permits = None if steps is None else FORK.Semaphore(steps)

    def decoder(self, *arguments: Any, **options: Any) -> Any:
        decoder = super().decoder(*arguments, **options)
        decoder.drafter = arguments[-1]
        return decoder

    def race(self, decoders: Any, prompts: Any) -> Iterator[Any]:
        try:
            for step in super().race(decoders, prompts):
                if self.permits is not None:
                    self.permits.acquire()
                self.made.value += 1
                yield step
        finally:
            self.shut.set()


def traces(service: Service, asked: Form) -> Race:
    """The trace of a race, without what differs between repetitions."""

    async def read() -> dict[str, Any]:
        formats = (api.trace_progress, lambda runs: {"race": Race(list(runs))})
        async with aclosing(api.stream(service, "t", "", asked, *formats)) as answers:
            return [answer async for answer in answers][-1]

    return Race([_timeless(run) for run in asyncio.run(asyncio.wait_for(read(), HANG))["race"].lanes])


def _timeless(trace: Any) -> Any:
    steps = [replace(step, seconds=Seconds(), budget=replace(step.budget, why="")) for step in trace.steps]
    return replace(trace, steps=steps, prefill_seconds=0.0)


def test_a_race_in_a_worker_equals_the_race_in_this_process(on_zero: Any):
    target = tiny_target("llama")
    assert target.cost.sizes  # measured once for both, because it is in the trace
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
    assert found[-1].view.count('"t":"run"') == 2  # type: ignore[union-attr]
    assert worker.GPU_MODELS == {}


def test_the_gpu_function_is_one_synchronous_generator_and_a_warm_worker_is_reused(on_zero: Any, spaces: Spaces):
    service = on_zero()
    for _ in range(2):
        assert words(updates(service)[-1]).startswith("Done in")
    assert spaces.decorated == [worker.work]
    assert len(spaces.workers) == 1


def task(count: int = 2, tokens: int = 64) -> Task:
    runs = [RunSpec("plain")] * count
    return Task("default", "auto", "auto", ["hello"] * count, {**NUMBERS, "max_new_tokens": tokens}, runs, [None] * count)


def test_the_requested_time_grows_with_runs_and_tokens_up_to_a_limit():
    seconds = [task(1, 16).seconds, task(2, 16).seconds, task(2, 256).seconds, task(6, 100_000).seconds]
    assert seconds == sorted(set(seconds))
    assert worker.START_SECONDS < seconds[0] < 20
    assert seconds[-1] == worker.MAX_SECONDS < 120


def test_the_time_of_a_race_is_requested_before_it_runs(on_zero: Any, spaces: Spaces):
    requested: list[float] = []
    spaces.schedule = requested.append
    updates(on_zero(max_new_tokens=64), form(numbers={**NUMBERS, "max_new_tokens": 5000}))
    assert requested == [task(2, 64).seconds]


def test_arguments_that_cannot_be_pickled_are_reported(on_zero: Any):
    service = on_zero()
    last = updates(service, form(options={"aded": {"search": lambda: None}}))[-1]
    assert "PicklingError" in words(last)
    assert words(updates(service)[-1]).startswith("Done in")


def test_results_that_cannot_be_pickled_are_reported(on_zero: Any):
    class Unpicklable(FakeEngine):
        def race(self, decoders: Any, prompts: Any) -> Iterator[Any]:
            for run, _ in super().race(decoders, prompts):
                yield run, SimpleNamespace(emitted=threading.Lock())

    last = updates(on_zero(Unpicklable()))[-1]
    assert "The race failed on the shared GPU (PicklingError)." in words(last)


@pytest.mark.parametrize("method", ["aded", "suffix", pytest.param("token-recycling", marks=pytest.mark.slow)])
def test_what_drafters_learned_in_a_worker_is_returned_and_used_in_the_next_race(on_zero: Any, spaces: Spaces, method: str):
    """The reference is the same two races with drafters that stay in the process."""
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
    assert there[0] != there[1], "nothing was learned from the first race: the test checks nothing"
    assert len(spaces.workers) == 2
    here.close()


def _shape(view: str | None) -> list[Any]:
    """Run, drafted tokens and written tokens of every step in a view."""
    import json

    lines = [json.loads(text) for text in (view or "").splitlines()]
    found = [(one["run"], one["step"]["tree"]["tokens"], one["step"]["emitted"]) for one in lines if one["t"] == "step"]
    return sorted(found, key=lambda one: one[0])


def test_learning_in_place_in_a_worker_is_lost_and_the_test_above_would_notice(
    on_zero: Any, spaces: Spaces, monkeypatch: pytest.MonkeyPatch
):
    """An injected error: a worker that changes its arguments in place and returns nothing."""
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
    arrays = {"now", "keys", "successors", "weights", "counts", "last_seen", "trust", "target_top"}
    assert set(memory.drafter.learned) == arrays
    assert len(pickle.dumps(memory.drafter.learned)) < 6_000_000


def ends_within_a_step(engine: CountedEngine, spaces: Spaces, service: Service) -> None:
    """There is no reader: the next item of the worker closes its generator, and its next step is the last one."""
    until(lambda: service.scheduler.running == 0)
    made = engine.made.value
    engine.permits.release()
    until(spaces.workers[0].stop_event.is_set)
    engine.permits.release()
    assert engine.shut.wait(HANG), "it waits for a permit to continue"
    assert engine.made.value <= made + 2


def test_stop_ends_the_worker_within_a_step_and_nothing_is_learned(on_zero: Any, spaces: Spaces):
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
    engine.permits = None  # a worker that is forked now sees it
    until(lambda: spaces.warm)
    spaces.warm.clear()
    session.begin()
    assert words(updates(service, session=session)[-1]).startswith("Done in")


def test_a_visitor_who_leaves_frees_the_gpu_within_a_step(on_zero: Any, spaces: Spaces):
    engine = CountedEngine(steps=1)
    service = on_zero(engine)

    async def leave_early() -> None:
        async with aclosing(service.race(service.sessions.get("a"), form(), {})) as changes:
            async for update in changes:
                if update.view:
                    return

    asyncio.run(leave_early())
    ends_within_a_step(engine, spaces, service)


def test_stop_while_a_gpu_is_awaited_acts_at_once_and_the_gpu_is_returned_unused(on_zero: Any, spaces: Spaces):
    engine, free, scheduled = CountedEngine(steps=0), threading.Event(), []
    spaces.schedule = lambda seconds: scheduled.append(free.wait(HANG))
    service = on_zero(engine)
    session = service.sessions.get("a")

    def stop(update: Update) -> None:
        if words(update).startswith("Waiting for a shared GPU"):
            threading.Timer(0.2, session.stop).start()

    assert words(updates(service, session=session, when=stop)[-1]) == "Stopped before the race started."
    assert scheduled == [], "there is no GPU yet"
    free.set()
    until(lambda: spaces.workers and spaces.workers[0].stop_event.is_set())
    engine.permits.release()
    until(lambda: spaces.warm)
    assert engine.made.value <= 1


def test_a_session_that_waits_for_a_gpu_does_not_block_the_others(on_zero: Any, spaces: Spaces):
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


def test_waiting_for_a_gpu_is_no_model_time(on_zero: Any, spaces: Spaces):
    now, free = [0.0], threading.Event()

    def clock() -> float:
        now[0] += not free.is_set()
        return now[0]

    def schedule(seconds: float) -> None:
        until(lambda: now[0] > 100)
        free.set()

    spaces.schedule = schedule
    service = on_zero(run_seconds=20)
    service.scheduler._clock = clock
    assert words(updates(service)[-1]).startswith("Done in")


@pytest.mark.parametrize("while_writing", [False, True])
def test_a_killed_worker_fails_its_race_with_a_message_and_the_next_race_works(on_zero: Any, spaces: Spaces, while_writing: bool):
    engine = CountedEngine(steps=3)
    service = on_zero(engine)

    def kill(update: Update) -> None:
        if update.view and len(spaces.workers) == 1 and engine.permits is not None:
            engine.permits = None
            if while_writing:
                spaces.workers[0].results.lock()
            os.kill(spaces.workers[0].process.pid, signal.SIGKILL)  # type: ignore[arg-type]

    last = updates(service, when=kill)[-1]
    assert words(last).startswith("The shared GPU ended the race. Use fewer tokens or methods")
    assert words(last).endswith("Recorded races can still be played.")
    assert last.notice.kind == "error"  # type: ignore[union-attr]
    assert not last.running
    assert service.counters.value("aded_runs_total", {"outcome": "failed"}) == 1
    assert words(updates(service)[-1]).startswith("Done in")
    assert len(spaces.workers) == 2


def test_a_worker_that_hangs_fails_its_race_after_its_time_and_the_next_race_works(
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
            now[0] += task(2, 32).seconds + zero.GRACE_SECONDS

    last = updates(service, when=hang)[-1]
    assert words(last).startswith("The shared GPU ended the race.")
    assert service.counters.value("aded_runs_total", {"outcome": "failed"}) == 1
    assert words(updates(service)[-1]).startswith("Done in")


def test_the_message_of_an_engine_that_refuses_in_a_worker_is_passed_on(on_zero: Any):
    service = on_zero(Engine(), tiny_target("llama"))
    last = updates(service, form(prompt="w5 w17", options={"aded": {"depth": 900}}))[-1]
    assert words(last) == "Depth is 900; give a whole number from 1 to 64."
    assert service.counters.value("aded_refusals_total", {"reason": "asked"}) == 1


def limit_to_15_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step, and each part of a prefill, takes one of the 15 seconds of a race; two are reserved for its end."""
    seconds = count()
    monkeypatch.setattr(worker, "MAX_SECONDS", 15)
    monkeypatch.setattr(worker, "time", SimpleNamespace(monotonic=lambda: float(next(seconds))))


def test_a_race_that_has_used_its_time_is_ended_with_a_message_and_keeps_what_was_learned(
    on_zero: Any, monkeypatch: pytest.MonkeyPatch
):
    limit_to_15_steps(monkeypatch)
    monkeypatch.setattr(Drafter, "state_dict", lambda drafter: {}, raising=False)
    service = on_zero(CountedEngine())
    session = service.sessions.get("a")
    last = updates(service, form(options=KEEPING), session)[-1]
    assert words(last) == f"The race reached its limit of {task(2, 32).seconds} s of model time and was ended."
    assert last.view
    assert [memory.prompts for memory in session.memories.values()] == [1]


def test_a_prefill_that_has_used_its_time_is_ended_with_a_message(on_zero: Any, monkeypatch: pytest.MonkeyPatch):
    class Reading(FakeEngine):
        def race(self, decoders: Any, prompts: Any) -> Iterator[Any]:
            yield from [None] * 20
            yield from super().race(decoders, prompts)

    limit_to_15_steps(monkeypatch)
    last = updates(on_zero(Reading()))[-1]
    assert words(last) == "The race reached its limit of 15 s of model time and was ended."
    assert last.view is None


def test_the_api_states_the_time_limit_on_the_gpu(on_zero: Any, monkeypatch: pytest.MonkeyPatch):
    limit_to_15_steps(monkeypatch)
    body = {"model": "default", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 32}
    with serving(on_zero()) as address:
        answer = http.post(f"{address}/v1/chat/completions", json=body).json()
    assert answer["notices"] == ["the request reached its limit of 15 s of model time"]


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
def test_every_error_of_quota_and_queue_has_a_remedy_and_mentions_recorded_races(title: str, message: str, key: str):
    found = as_refusal(Error(message, title))
    assert isinstance(found, (NoGpu, WorkerLost))
    assert isinstance(found, WorkerLost) == (title == "ZeroGPU worker error")
    keys = [name for name, _ in found.messages]
    assert (keys[0], keys[-1]) == (key, "gpu.recorded")
    for language in tables():
        text = " ".join(say(name, language, **values) for name, values in found.messages)
        assert "{" not in text
        assert "ZeroGPU" not in text or key == "gpu.other"


def test_every_rule_matches_an_error_and_other_errors_are_unchanged():
    assert {key for _, key in RULES} == {key for *_, key in ERRORS}
    other = ValueError("no such thing")
    assert as_refusal(other) is other


def test_the_rest_of_a_quota_is_reported():
    _, message, _ = ERRORS[0]
    assert "60 s were requested and 7 s are left; more in 3:02:01." in str(as_refusal(Error(message, QUOTA)))


def test_a_quota_that_is_used_up_keeps_the_view_and_is_counted(on_zero: Any, spaces: Spaces):
    def refuse(seconds: float) -> None:
        raise Error(ERRORS[0][1], QUOTA)

    spaces.schedule = refuse
    service = on_zero()
    found = updates(service)
    assert all(update.view is None for update in found)
    assert found[-1].notice.kind == "error"  # type: ignore[union-attr]
    assert words(found[-1]).endswith("Recorded races can still be played.")
    assert service.counters.value("aded_refusals_total", {"reason": "gpu"}) == 1
    assert spaces.workers == []


def test_the_gpu_is_requested_in_the_context_of_the_visitor_s_request(on_zero: Any, spaces: Spaces):
    """The package takes the token of the quota from Gradio's context, which the thread of the request must have."""
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


def test_the_package_is_imported_first_and_the_gpu_function_exists_before_the_page_is_launched(tmp_path: Path):
    (tmp_path / "spaces.py").write_text("from zero_fakes import *\nfrom zero_fakes import _spaces\n")
    code = (
        "import sys, app, spaces\n"
        "assert 'torch' not in sys.modules\n"
        "from ui import zerogpu\n"
        "import ui.serving.zerogpu.worker as worker\n"
        "worker.load_to_host = lambda *a: 'loaded'\n"
        "models, engine = zerogpu.backend(['default'], 'auto', 'auto')\n"
        "print(type(engine).__name__, [f.__name__ for f in spaces._spaces.decorated])\n"
        "while models.first.busy: pass\n"
        "print(models.first.model)\n"
    )
    paths = os.pathsep.join([str(tmp_path), str(ROOT / "tests"), str(ROOT)])
    environment = {**os.environ, "SPACES_ZERO_GPU": "true", "PYTHONPATH": paths}
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=HANG)
    assert done.stdout.split("\n")[:2] == ["ZeroEngine ['work']", "loaded"], done.stderr[-2000:]


def test_a_task_and_its_events_are_plain_data(on_zero: Any, monkeypatch: pytest.MonkeyPatch):
    """The worker yields no tensor, on any device, for a race of every method that needs only the model."""
    import torch

    monkeypatch.setattr(worker, "ENGINE", Engine())
    target = tiny_target("llama")
    monkeypatch.setattr(worker, "LOAD", lambda *_: target)
    names = ("plain", *KEEPING)
    runs = [RunSpec(name, KEEPING.get(name, {})) for name in names]
    asked = Task("default", "cpu", "auto", ["w5 w17"] * len(names), {**NUMBERS, "budget": 16}, runs, [None] * len(names))
    events = list(worker.work(pickle.loads(pickle.dumps(asked))))
    assert any(isinstance(event, worker.RaceEnded) for event in events)
    assert sum(event is None for event in events) == 1 + 2 * len(names)

    class NoTensors(pickle.Pickler):
        def persistent_id(self, found: object) -> None:
            assert not isinstance(found, torch.Tensor)

    import io

    for event in events:
        NoTensors(io.BytesIO()).dump(event)


def test_control_has_the_context_of_its_creation():
    from contextvars import ContextVar

    visitor: ContextVar[str] = ContextVar("visitor")
    visitor.set("first")
    control = Control()
    visitor.set("second")
    assert control.context[visitor] == "first"


@pytest.mark.slow
@pytest.mark.model
def test_the_real_model_writes_the_same_in_a_worker_and_in_this_process(
    spaces: Spaces, real_model: Any, monkeypatch: pytest.MonkeyPatch
):
    """The weights are read once, in the server. A worker makes a model of them; the server does not."""
    monkeypatch.setattr(worker, "START_SECONDS", 600)  # on a GPU it takes seconds
    monkeypatch.setattr(worker, "MAX_SECONDS", 600)
    asked = form(prompt="Why is the sky blue?", methods=("plain", "aded", "suffix"), options=KEEPING, budget="16")
    models = Models(dtype="float32", loader=worker.load_to_host)
    there = Service(models, Limits(), ZeroEngine(spaces.GPU, "cpu", "float32"))
    here = Service(Models(loader=lambda *_: real_model))
    assert [run.token_ids for run in traces(there, asked).lanes] == [run.token_ids for run in traces(here, asked).lanes]
    session = Session("a")
    for prompts in (1, 2):
        assert words(updates(there, asked, session)[-1]).startswith("Done in")
        assert {memory.prompts for memory in session.memories.values()} == {prompts}
    sent = [pickle.dumps(memory.drafter.learned) for memory in session.memories.values()]
    assert max(map(len, sent)) < 6_000_000 < sum(array.nbytes for array in models.first.model.weights.state_dict().values())
    assert api.row_of(models.first.model, "I would like to")["successors"]
    assert worker.GPU_MODELS == {}
    assert len(spaces.workers) == 1
    there.close()
    here.close()
    worker.HOST_MODELS.clear()
