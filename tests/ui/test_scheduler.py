"""The scheduler: fair, one step at a time, within limits, and not delayed by slow readers."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from typing import Any
from weakref import ref

import pytest
from waiting import HANG, until

from aded.core.errors import AdedError
from ui.serving.follow import follow
from ui.serving.jobs import Control, Job
from ui.serving.limits import HOUR, Allowance, Limits
from ui.serving.scheduler import Scheduler, expected_remaining, processor_sharing
from ui.words import Refused


class Clock:
    """A clock that advances only with the steps of jobs."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Counting:
    def __init__(self) -> None:
        self.refusals: list[str] = []
        self.outcomes: list[str] = []
        self.waits: list[float] = []

    def refused(self, reason: str) -> None:
        self.refusals.append(reason)

    def scheduled(self, job: Job[Any], waited: float) -> None:
        self.waits.append(waited)

    def ended(self, job: Job[Any]) -> None:
        self.outcomes.append(str(job.outcome))


class Work:
    """Work for jobs that records each step, and whether another step ran at the same time."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.order: list[str] = []
        self.closed: list[str] = []
        self.overlaps = 0
        self._clock = clock
        self._busy = threading.Lock()

    def steps(self, name: str, steps: int, seconds: float = 0.0, hold: Callable[[], Any] = lambda: None) -> Any:
        def made(control: Control) -> Iterator[str | None]:
            try:
                for step in range(steps):
                    if control.reason:
                        yield f"{name} ended: {control.reason}"
                        return
                    self.overlaps += not self._busy.acquire(blocking=False)
                    hold()
                    self.order.append(name)
                    control.tokens += 1
                    if self._clock:
                        self._clock.now += seconds
                    with suppress(RuntimeError):
                        self._busy.release()
                    yield f"{name} {step}"
            finally:
                self.closed.append(name)

        return made


@contextmanager
def scheduling(**limits: Any) -> Iterator[Scheduler]:
    clock, watcher = limits.pop("clock", time.monotonic), limits.pop("watcher", None)
    scheduler = Scheduler(Limits(**limits), watcher, clock)
    try:
        yield scheduler
    finally:
        assert scheduler.close(HANG)


def settle(job: Job[Any]) -> Job[Any]:
    until(lambda: job.finished)
    return job


def held(work: Work, scheduler: Scheduler, name: str = "first", steps: int = 50) -> tuple[Job[Any], threading.Event]:
    """A job in the middle of its first step, and the gate that releases it."""
    gate, on = threading.Event(), threading.Event()
    job = scheduler.submit(name, work.steps(name, steps, hold=lambda: (on.set(), gate.wait(HANG))))
    assert on.wait(HANG)
    return job, gate


def test_sessions_alternate_step_by_step_and_one_step_runs_at_a_time():
    work = Work()
    with scheduling(at_once=3) as scheduler:
        first, gate = held(work, scheduler, steps=10)
        others = [scheduler.submit(name, work.steps(name, 10)) for name in ("b", "c")]
        gate.set()
        for job in (first, *others):
            settle(job)
    assert work.overlaps == 0
    assert [work.order[i : i + 3] for i in range(0, 30, 3)] == [["first", "b", "c"]] * 10


def test_a_short_job_overtakes_a_long_one():
    work = Work()
    with scheduling(at_once=2) as scheduler:
        long, gate = held(work, scheduler, steps=200)
        short = scheduler.submit("short", work.steps("short", 3))
        gate.set()
        settle(short)
        assert work.order.index("short") < 3
        settle(long)
    assert work.order.count("first") == 200


def test_the_time_of_a_job_contains_its_own_steps_only():
    clock = Clock()
    work = Work(clock)
    with scheduling(clock=clock) as scheduler:
        slow = scheduler.submit("slow", work.steps("slow", 5, seconds=10.0))
        quick = scheduler.submit("quick", work.steps("quick", 5, seconds=1.0))
        settle(slow), settle(quick)
    assert (slow.seconds, quick.seconds) == (50.0, 5.0)


def test_a_session_has_one_job_at_a_time_and_another_once_it_is_stopped():
    work, watcher = Work(), Counting()
    with scheduling(watcher=watcher) as scheduler:
        job, gate = held(work, scheduler)
        with pytest.raises(Refused, match="One race at a time"):
            scheduler.submit("first", work.steps("again", 1))
        job.stop()
        again = scheduler.submit("first", work.steps("again", 1))
        gate.set()
        settle(again)
    assert watcher.refusals == ["one"]


def test_too_many_jobs_are_refused_with_their_number():
    work = Work()
    with scheduling(at_once=1, queue_size=2) as scheduler:
        _, gate = held(work, scheduler)
        jobs = [scheduler.submit(name, work.steps(name, 1)) for name in ("b", "c")]
        assert [job.place for job in jobs] == [1, 2]
        with pytest.raises(Refused, match="3 requests are in progress or queued"):
            scheduler.submit("d", work.steps("d", 1))
        gate.set()
        assert [settle(job).outcome for job in jobs] == ["done", "done"]
        assert settle(scheduler.submit("d", work.steps("d", 1))).outcome == "done"


def test_queued_jobs_start_in_order():
    work = Work()
    with scheduling(at_once=1) as scheduler:
        _, gate = held(work, scheduler, steps=2)
        jobs = [scheduler.submit(name, work.steps(name, 2)) for name in "bcd"]
        gate.set()
        for job in jobs:
            settle(job)
    assert work.order == ["first", "first", "b", "b", "c", "c", "d", "d"]


def test_a_stopped_job_makes_no_further_step_and_delivers_its_last_update():
    work = Work()
    with scheduling() as scheduler:
        job, gate = held(work, scheduler)
        job.stop()
        gate.set()
        settle(job)
    assert work.order == ["first"]
    assert (job.outcome, job.take()) == ("stopped", "first ended: stopped")


def test_a_job_without_reader_is_freed_before_the_next_step_of_others():
    work = Work()
    with scheduling(at_once=3) as scheduler:
        job, gate = held(work, scheduler)
        other = scheduler.submit("other", work.steps("other", 5))
        job.leave()
        gate.set()
        settle(job), settle(other)
    assert job.outcome == "left"
    assert work.closed == ["first", "other"]
    assert work.order == ["first"] + ["other"] * 5


def test_a_queued_job_can_leave_and_the_others_move_up():
    work = Work()
    with scheduling(at_once=1) as scheduler:
        _, gate = held(work, scheduler, steps=2)
        jobs = [scheduler.submit(name, work.steps(name, 1)) for name in "bc"]
        jobs[0].leave()
        assert jobs[1].place == 1
        gate.set()
        settle(jobs[1]), settle(jobs[0])
    assert "b" not in work.order


def test_a_job_ends_at_its_limit_of_model_time():
    clock, watcher = Clock(), Counting()
    work = Work(clock)
    with scheduling(clock=clock, watcher=watcher, run_seconds=30) as scheduler:
        job = settle(scheduler.submit("long", work.steps("long", 100, seconds=7.0)))
    assert job.outcome == "seconds"
    assert len(work.order) == 5
    assert watcher.outcomes == ["seconds"]


def test_tokens_per_hour_are_counted_by_session():
    clock = Clock()
    work = Work(clock)
    with scheduling(clock=clock, session_tokens=10) as scheduler:
        settle(scheduler.submit("a", work.steps("a", 10, seconds=1.0)))
        with pytest.raises(Refused, match=r"used its 10 tokens of the current hour. The next race can start in 60 min"):
            scheduler.submit("a", work.steps("a", 1))
        settle(scheduler.submit("b", work.steps("b", 1)))
        clock.now += HOUR
        settle(scheduler.submit("a", work.steps("a", 1)))


def test_an_allowance_recovers_after_an_hour():
    clock = Clock()
    allowance = Allowance(10, clock)
    for _ in range(3):
        allowance.spend("a", 5)
        clock.now += 100
    assert allowance.wait("a") == HOUR - 200
    assert allowance.wait("b") == 0
    clock.now += HOUR - 200
    assert allowance.wait("a") == 0
    assert Allowance(None, clock).wait("a") == 0


def test_a_failing_job_does_not_affect_others():
    def failing(control: Control) -> Iterator[str]:
        yield "on"
        raise MemoryError("no more")

    def wrong(control: Control) -> Iterator[str]:
        raise AdedError("the prompt is empty; write one")
        yield

    work, watcher = Work(), Counting()
    with scheduling(watcher=watcher) as scheduler:
        other = scheduler.submit("other", work.steps("other", 20))
        failed = settle(scheduler.submit("a", failing))
        refused = settle(scheduler.submit("b", wrong))
        assert settle(other).outcome == "done"
        assert settle(scheduler.submit("a", work.steps("a", 1))).outcome == "done"
    assert (failed.outcome, refused.outcome) == ("failed", "refused")
    assert isinstance(failed.error, MemoryError)


def test_a_failed_job_is_freed_although_its_error_is_kept():
    class Held:
        pass

    def wrong(control: Control) -> Iterator[str]:
        held = Held()
        kept.append(ref(held))
        yield "on"
        try:
            raise MemoryError("no more")
        except MemoryError:
            raise AdedError("the memory of the device is used up; ask for fewer new tokens") from None

    kept: list[ref[Held]] = []
    gc.collect()
    gc.disable()
    try:
        with scheduling() as scheduler:
            job = settle(scheduler.submit("a", wrong))
        assert isinstance(job.error, AdedError)
        assert [one() for one in kept] == [None]
    finally:
        gc.enable()


def test_system_exit_inside_a_job_does_not_stop_the_scheduler():
    def leaving(control: Control) -> Iterator[str]:
        raise SystemExit(1)
        yield

    with scheduling() as scheduler:
        assert settle(scheduler.submit("a", leaving)).outcome == "failed"
        assert settle(scheduler.submit("a", Work().steps("a", 1))).outcome == "done"


def test_a_job_that_is_not_ready_keeps_its_place_and_is_overtaken():
    work, ready = Work(), threading.Event()
    with scheduling(at_once=1) as scheduler:
        late = scheduler.submit("late", work.steps("late", 1), ready=ready.is_set)
        settle(scheduler.submit("b", work.steps("b", 1)))
        assert late.place == 1
        ready.set()
        settle(late)
    assert work.order == ["b", "late"]


def test_closing_stops_all_jobs_and_refuses_new_ones():
    work = Work()
    scheduler = Scheduler(Limits(at_once=1))
    job, gate = held(work, scheduler)
    waiting = scheduler.submit("b", work.steps("b", 5))
    threading.Thread(target=lambda: (until(lambda: job.control.reason), gate.set())).start()
    assert scheduler.close(HANG)
    assert (job.outcome, waiting.outcome) == ("shutdown", "shutdown")
    assert waiting.take() == "b ended: shutdown"
    assert work.order == ["first"]
    with pytest.raises(Refused, match="shutting down"):
        scheduler.submit("c", work.steps("c", 1))


def test_a_slow_reader_delays_nobody_and_reads_the_latest_update():
    work = Work()
    with scheduling() as scheduler:
        unread = scheduler.submit("slow", work.steps("slow", 300), merge=lambda old, new: f"{old.split('…')[0]}…{new}")
        other = scheduler.submit("other", work.steps("other", 300))
        settle(unread), settle(other)
    assert unread.take() == "slow 0…slow 299"
    assert unread.take() is None


async def read(job: Job[str], meanwhile: Callable[[], str | None] = lambda: None, pause: float = 0.0) -> list[str]:
    found = []
    async with aclosing(follow(job, meanwhile, poll=0.01)) as updates:
        async for one in updates:
            found.append(one)
            await asyncio.sleep(pause)
    return found


def test_a_reader_gets_its_place_then_updates_then_the_end():
    work = Work()
    with scheduling(at_once=1) as scheduler:
        _, gate = held(work, scheduler, steps=1)
        job = scheduler.submit("b", work.steps("b", 4))

        def meanwhile() -> str:
            found = f"place {job.place}"
            gate.set()
            return found

        found = asyncio.run(read(job, meanwhile))
    assert found[0] == "place 1"
    assert found[-1] == "b 3"


def test_a_reader_that_leaves_stops_the_job():
    work = Work()

    async def glance(job: Job[str]) -> None:
        async with aclosing(follow(job, lambda: None)) as updates:
            await anext(updates)

    with scheduling() as scheduler:
        job = scheduler.submit("a", work.steps("a", 10_000, hold=lambda: time.sleep(0.001)))
        asyncio.run(glance(job))
        made = len(work.order)
        assert settle(job).outcome == "left"
    assert len(work.order) <= made + 2


def test_a_slow_reader_gets_only_the_latest_update():
    work, behind = Work(), [100]

    async def late(job: Job[str]) -> list[str]:
        asyncio.get_running_loop().run_in_executor(None, lambda: (until(lambda: job.finished), behind.clear()))
        return [one async for one in follow(job, lambda: None, lambda: sum(behind), poll=0.01)]

    with scheduling() as scheduler:
        job = scheduler.submit("a", work.steps("a", 50))
        assert asyncio.run(late(job)) == ["a 49"]


def test_a_reader_that_reads_nothing_times_out():
    work = Work()

    async def deaf(job: Job[str]) -> list[str]:
        return [one async for one in follow(job, lambda: None, lambda: 100, poll=0.01, max_idle=0.1)]

    with scheduling() as scheduler:
        job = scheduler.submit("a", work.steps("a", 100_000, hold=lambda: time.sleep(0.001)))
        assert asyncio.run(deaf(job)) == []
        assert settle(job).outcome == "left"


def test_a_reader_gets_the_exception_of_the_job():
    def wrong(control: Control) -> Iterator[str]:
        raise AdedError("no such method")
        yield

    with scheduling() as scheduler, pytest.raises(AdedError, match="no such method"):
        asyncio.run(read(scheduler.submit("a", wrong)))


def test_a_reader_with_a_closed_event_loop_affects_no_other_job():
    work = Work()

    async def forget(job: Job[str]) -> None:
        await anext(follow(job, lambda: None))

    with scheduling() as scheduler:
        first, gate = held(work, scheduler, steps=3)
        threading.Timer(0.02, gate.set).start()
        asyncio.run(forget(first))
        settle(first)
        assert settle(scheduler.submit("b", work.steps("b", 3))).outcome == "done"


@pytest.mark.parametrize(
    ("left", "place", "expected"),
    [([], 1, 0.0), ([4.0], 1, 0.0), ([4.0, 4.0], 1, 8.0), ([4.0, 4.0], 2, 8.0), ([1.0, 4.0], 1, 2.0), ([1.0, 4.0], 2, 8.0)],
)
def test_the_expected_wait_is_that_of_processor_sharing(left: list[float], place: int, expected: float):
    """By hand: two slots, jobs of 4 s; with 1 s and 4 s left the first ends after 2 s, then both jobs need 3 s."""
    assert processor_sharing(left, 4.0, place, 2) == expected


@pytest.mark.parametrize(
    ("durations", "elapsed", "expected"),
    [([], 0.0, None), ([2.0, 8.0], 0.0, 5.0), ([2.0, 8.0], 4.0, 4.0), ([2.0, 8.0], 8.0, None)],
)
def test_the_remaining_time_is_the_mean_over_longer_jobs(durations: list[float], elapsed: float, expected: float | None):
    assert expected_remaining(durations, elapsed) == expected


def test_no_wait_is_estimated_behind_a_job_longer_than_all_before():
    clock = Clock()
    work = Work(clock)
    with scheduling(clock=clock, at_once=1) as scheduler:
        settle(scheduler.submit("a", work.steps("a", 2, seconds=1.0)))
        old, gate = held(work, scheduler)
        waiting = scheduler.submit("b", work.steps("b", 1))
        assert waiting.wait == 2.0
        old.seconds = 2.5
        assert (waiting.place, waiting.wait) == (1, None)
        gate.set()


def test_no_wait_is_estimated_for_a_job_that_is_not_ready():
    clock = Clock()
    work = Work(clock)
    with scheduling(clock=clock, at_once=1) as scheduler:
        settle(scheduler.submit("a", work.steps("a", 2, seconds=1.0)))
        loading = scheduler.submit("b", work.steps("b", 1), ready=lambda: False)
        assert (loading.place, loading.wait) == (1, None)


def test_the_wait_is_estimated_once_jobs_have_ended():
    clock = Clock()
    work = Work(clock)
    with scheduling(clock=clock, at_once=1) as scheduler:
        settle(scheduler.submit("a", work.steps("a", 4, seconds=2.0)))
        _, gate = held(work, scheduler)
        waiting = scheduler.submit("b", work.steps("b", 1))
        further = scheduler.submit("c", work.steps("c", 1))
        assert (waiting.wait, further.wait) == (8.0, 16.0)
        gate.set()


def test_if_a_step_does_not_end_all_readers_get_a_last_update():
    work = Work()
    with scheduling(at_once=2) as scheduler:
        on, gate = threading.Event(), threading.Event()
        steps = iter((lambda: None, lambda: (on.set(), gate.wait(HANG))))
        bye: Any = {"on_shutdown": lambda latest: f"bye after {latest}"}
        job = scheduler.submit("a", work.steps("a", 2, hold=lambda: next(steps)()), **bye)
        assert on.wait(HANG)
        behind = scheduler.submit("b", work.steps("b", 2), **bye)
        assert not scheduler.close(0.05)
        assert [(one.finished, one.outcome, one.take()) for one in (job, behind)] == [
            (True, "shutdown", "bye after a 0"),
            (True, "shutdown", "bye after None"),
        ]
        gate.set()
