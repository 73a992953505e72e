"""Turns on the one model: fair, one at a time, within limits, and nobody waits for a slow reader."""

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
from ui.serving.limits import HOUR, Allowance, Limits
from ui.serving.reading import follow
from ui.serving.runs import Control, Run
from ui.serving.scheduler import Scheduler, processor_sharing, remaining
from ui.words import Refused


class Clock:
    """A clock that only a job's own work moves."""

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

    def turned(self, run: Run[Any], waited: float) -> None:
        self.waits.append(waited)

    def ended(self, run: Run[Any]) -> None:
        self.outcomes.append(str(run.outcome))


class Work:
    """Jobs that write down whose step was made, and whether another one was being made at the time."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.order: list[str] = []
        self.closed: list[str] = []
        self.overlaps = 0
        self._clock = clock
        self._busy = threading.Lock()

    def job(self, name: str, steps: int, seconds: float = 0.0, hold: Callable[[], Any] = lambda: None) -> Any:
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


def settle(run: Run[Any]) -> Run[Any]:
    until(lambda: run.over)
    return run


def held(work: Work, scheduler: Scheduler, name: str = "first", steps: int = 50) -> tuple[Run[Any], threading.Event]:
    """A run in the middle of its first step, and the gate that lets it go on."""
    gate, on = threading.Event(), threading.Event()
    run = scheduler.submit(name, work.job(name, steps, hold=lambda: (on.set(), gate.wait(HANG))))
    assert on.wait(HANG)
    return run, gate


def test_sessions_take_turns_a_step_each_and_only_one_step_runs_at_a_time():
    work = Work()
    with scheduling(at_once=3) as scheduler:
        first, gate = held(work, scheduler, steps=10)
        others = [scheduler.submit(name, work.job(name, 10)) for name in ("b", "c")]
        gate.set()
        for run in (first, *others):
            settle(run)
    assert work.overlaps == 0
    assert [work.order[i : i + 3] for i in range(0, 30, 3)] == [["first", "b", "c"]] * 10


def test_a_short_run_overtakes_a_long_one():
    work = Work()
    with scheduling(at_once=2) as scheduler:
        long, gate = held(work, scheduler, steps=200)
        short = scheduler.submit("short", work.job("short", 3))
        gate.set()
        settle(short)
        assert work.order.index("short") < 3
        settle(long)
    assert work.order.count("first") == 200


def test_a_clock_counts_a_runs_own_steps_and_not_the_waiting():
    clock = Clock()
    work = Work(clock)
    with scheduling(clock=clock) as scheduler:
        slow = scheduler.submit("slow", work.job("slow", 5, seconds=10.0))
        quick = scheduler.submit("quick", work.job("quick", 5, seconds=1.0))
        settle(slow), settle(quick)
    assert (slow.seconds, quick.seconds) == (50.0, 5.0)


def test_a_session_has_one_run_at_a_time_and_another_once_that_one_is_told_to_end():
    work, watcher = Work(), Counting()
    with scheduling(watcher=watcher) as scheduler:
        run, gate = held(work, scheduler)
        with pytest.raises(Refused, match="One run at a time"):
            scheduler.submit("first", work.job("again", 1))
        run.stop()
        again = scheduler.submit("first", work.job("again", 1))
        gate.set()
        settle(again)
    assert watcher.refusals == ["one"]


def test_too_many_are_refused_and_say_how_many_there_are():
    work = Work()
    with scheduling(at_once=1, queue_size=2) as scheduler:
        _, gate = held(work, scheduler)
        runs = [scheduler.submit(name, work.job(name, 1)) for name in ("b", "c")]
        assert [run.place for run in runs] == [1, 2]
        with pytest.raises(Refused, match="3 runs are on or in line"):
            scheduler.submit("d", work.job("d", 1))
        gate.set()
        assert [settle(run).outcome for run in runs] == ["done", "done"]
        assert settle(scheduler.submit("d", work.job("d", 1))).outcome == "done"


def test_those_that_wait_begin_in_their_order():
    work = Work()
    with scheduling(at_once=1) as scheduler:
        _, gate = held(work, scheduler, steps=2)
        runs = [scheduler.submit(name, work.job(name, 2)) for name in "bcd"]
        gate.set()
        for run in runs:
            settle(run)
    assert work.order == ["first", "first", "b", "b", "c", "c", "d", "d"]


def test_a_stopped_run_makes_no_further_step_and_tells_its_last_news():
    work = Work()
    with scheduling() as scheduler:
        run, gate = held(work, scheduler)
        run.stop()
        gate.set()
        settle(run)
    assert work.order == ["first"]
    assert (run.outcome, run.take()) == ("stopped", "first ended: stopped")


def test_a_run_that_nobody_reads_any_more_is_freed_before_anyone_elses_next_step():
    work = Work()
    with scheduling(at_once=3) as scheduler:
        run, gate = held(work, scheduler)
        other = scheduler.submit("other", work.job("other", 5))
        run.leave()
        gate.set()
        settle(run), settle(other)
    assert run.outcome == "left"
    assert work.closed == ["first", "other"]
    assert work.order == ["first"] + ["other"] * 5


def test_one_that_waits_can_leave_and_the_others_move_up():
    work = Work()
    with scheduling(at_once=1) as scheduler:
        _, gate = held(work, scheduler, steps=2)
        runs = [scheduler.submit(name, work.job(name, 1)) for name in "bc"]
        runs[0].leave()
        assert runs[1].place == 1
        gate.set()
        settle(runs[1]), settle(runs[0])
    assert "b" not in work.order


def test_a_run_ends_at_its_seconds_of_the_model():
    clock, watcher = Clock(), Counting()
    work = Work(clock)
    with scheduling(clock=clock, watcher=watcher, run_seconds=30) as scheduler:
        run = settle(scheduler.submit("long", work.job("long", 100, seconds=7.0)))
    assert run.outcome == "seconds"
    assert len(work.order) == 5
    assert watcher.outcomes == ["seconds"]


def test_tokens_of_an_hour_are_counted_by_session():
    clock = Clock()
    work = Work(clock)
    with scheduling(clock=clock, session_tokens=10) as scheduler:
        settle(scheduler.submit("a", work.job("a", 10, seconds=1.0)))
        with pytest.raises(Refused, match=r"tokens of this hour \(10\). The next run can start in 60 min"):
            scheduler.submit("a", work.job("a", 1))
        settle(scheduler.submit("b", work.job("b", 1)))
        clock.now += HOUR
        settle(scheduler.submit("a", work.job("a", 1)))


def test_an_allowance_comes_back_as_its_tokens_grow_old():
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


def test_a_run_that_fails_ends_alone():
    def failing(control: Control) -> Iterator[str]:
        yield "on"
        raise MemoryError("no more")

    def wrong(control: Control) -> Iterator[str]:
        raise AdedError("the prompt is empty; write one")
        yield

    work, watcher = Work(), Counting()
    with scheduling(watcher=watcher) as scheduler:
        other = scheduler.submit("other", work.job("other", 20))
        failed = settle(scheduler.submit("a", failing))
        refused = settle(scheduler.submit("b", wrong))
        assert settle(other).outcome == "done"
        assert settle(scheduler.submit("a", work.job("a", 1))).outcome == "done"
    assert (failed.outcome, refused.outcome) == ("failed", "refused")
    assert isinstance(failed.error, MemoryError)


def test_what_a_run_held_is_freed_though_it_failed_and_its_error_is_kept():
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
            run = settle(scheduler.submit("a", wrong))
        assert isinstance(run.error, AdedError)
        assert [one() for one in kept] == [None]
    finally:
        gc.enable()


def test_even_an_exit_inside_a_job_leaves_the_turns_going():
    def leaving(control: Control) -> Iterator[str]:
        raise SystemExit(1)
        yield

    with scheduling() as scheduler:
        assert settle(scheduler.submit("a", leaving)).outcome == "failed"
        assert settle(scheduler.submit("a", Work().job("a", 1))).outcome == "done"


def test_one_that_is_not_ready_keeps_its_place_and_is_overtaken():
    work, ready = Work(), threading.Event()
    with scheduling(at_once=1) as scheduler:
        late = scheduler.submit("late", work.job("late", 1), ready=ready.is_set)
        settle(scheduler.submit("b", work.job("b", 1)))
        assert late.place == 1
        ready.set()
        settle(late)
    assert work.order == ["b", "late"]


def test_closing_ends_every_run_and_refuses_further_ones():
    work = Work()
    scheduler = Scheduler(Limits(at_once=1))
    run, gate = held(work, scheduler)
    waiting = scheduler.submit("b", work.job("b", 5))
    threading.Thread(target=lambda: (until(lambda: run.control.reason), gate.set())).start()
    assert scheduler.close(HANG)
    assert (run.outcome, waiting.outcome) == ("shutdown", "shutdown")
    assert waiting.take() == "b ended: shutdown"
    assert work.order == ["first"]
    with pytest.raises(Refused, match="closing"):
        scheduler.submit("c", work.job("c", 1))


def test_a_slow_reader_holds_nobody_and_reads_the_newest():
    work = Work()
    with scheduling() as scheduler:
        unread = scheduler.submit("slow", work.job("slow", 300), merge=lambda old, new: f"{old.split('…')[0]}…{new}")
        other = scheduler.submit("other", work.job("other", 300))
        settle(unread), settle(other)
    assert unread.take() == "slow 0…slow 299"
    assert unread.take() is None


async def read(run: Run[str], in_line: Callable[[], str | None] = lambda: None, pause: float = 0.0) -> list[str]:
    found = []
    async with aclosing(follow(run, in_line, beat=0.01)) as news:
        async for one in news:
            found.append(one)
            await asyncio.sleep(pause)
    return found


def test_a_reader_is_told_its_place_then_the_news_then_the_end():
    work = Work()
    with scheduling(at_once=1) as scheduler:
        _, gate = held(work, scheduler, steps=1)
        run = scheduler.submit("b", work.job("b", 4))

        def in_line() -> str:
            found = f"place {run.place}"
            gate.set()
            return found

        found = asyncio.run(read(run, in_line))
    assert found[0] == "place 1"
    assert found[-1] == "b 3"


def test_a_reader_that_goes_away_ends_the_run():
    work = Work()

    async def glance(run: Run[str]) -> None:
        async with aclosing(follow(run, lambda: None)) as news:
            await anext(news)

    with scheduling() as scheduler:
        run = scheduler.submit("a", work.job("a", 10_000, hold=lambda: time.sleep(0.001)))
        asyncio.run(glance(run))
        made = len(work.order)
        assert settle(run).outcome == "left"
    assert len(work.order) <= made + 2


def test_a_reader_that_falls_behind_is_given_the_newest_alone():
    work, behind = Work(), [100]

    async def late(run: Run[str]) -> list[str]:
        asyncio.get_running_loop().run_in_executor(None, lambda: (until(lambda: run.over), behind.clear()))
        return [one async for one in follow(run, lambda: None, lambda: sum(behind), beat=0.01)]

    with scheduling() as scheduler:
        run = scheduler.submit("a", work.job("a", 50))
        assert asyncio.run(late(run)) == ["a 49"]


def test_a_reader_that_reads_nothing_for_long_is_nobody():
    work = Work()

    async def deaf(run: Run[str]) -> list[str]:
        return [one async for one in follow(run, lambda: None, lambda: 100, beat=0.01, patience=0.1)]

    with scheduling() as scheduler:
        run = scheduler.submit("a", work.job("a", 100_000, hold=lambda: time.sleep(0.001)))
        assert asyncio.run(deaf(run)) == []
        assert settle(run).outcome == "left"


def test_a_reader_is_given_what_the_run_ended_with():
    def wrong(control: Control) -> Iterator[str]:
        raise AdedError("no such method")
        yield

    with scheduling() as scheduler, pytest.raises(AdedError, match="no such method"):
        asyncio.run(read(scheduler.submit("a", wrong)))


def test_a_reader_whose_loop_has_closed_stops_nothing():
    work = Work()

    async def forget(run: Run[str]) -> None:
        await anext(follow(run, lambda: None))

    with scheduling() as scheduler:
        first, gate = held(work, scheduler, steps=3)
        threading.Timer(0.02, gate.set).start()
        asyncio.run(forget(first))
        settle(first)
        assert settle(scheduler.submit("b", work.job("b", 3))).outcome == "done"


@pytest.mark.parametrize(
    ("left", "place", "expected"),
    [([], 1, 0.0), ([4.0], 1, 0.0), ([4.0, 4.0], 1, 8.0), ([4.0, 4.0], 2, 8.0), ([1.0, 4.0], 1, 2.0), ([1.0, 4.0], 2, 8.0)],
)
def test_the_expected_wait_is_that_of_runs_that_share_the_model(left: list[float], place: int, expected: float):
    """By hand: two slots, runs of 4 s; of 1 s and 4 s left the first ends after 2 s, its successor and it then share 3 s each."""
    assert processor_sharing(left, 4.0, place, 2) == expected


@pytest.mark.parametrize(
    ("lives", "age", "expected"), [([], 0.0, None), ([2.0, 8.0], 0.0, 5.0), ([2.0, 8.0], 4.0, 4.0), ([2.0, 8.0], 8.0, None)]
)
def test_what_a_run_has_left_is_what_those_lived_on_that_grew_older(lives: list[float], age: float, expected: float | None):
    assert remaining(lives, age) == expected


def test_no_wait_is_told_behind_a_run_that_is_older_than_any_before():
    clock = Clock()
    work = Work(clock)
    with scheduling(clock=clock, at_once=1) as scheduler:
        settle(scheduler.submit("a", work.job("a", 2, seconds=1.0)))
        old, gate = held(work, scheduler)
        waiting = scheduler.submit("b", work.job("b", 1))
        assert waiting.wait == 2.0
        old.seconds = 2.5
        assert (waiting.place, waiting.wait) == (1, None)
        gate.set()


def test_no_wait_is_told_where_a_run_waits_for_more_than_its_turn():
    clock = Clock()
    work = Work(clock)
    with scheduling(clock=clock, at_once=1) as scheduler:
        settle(scheduler.submit("a", work.job("a", 2, seconds=1.0)))
        loading = scheduler.submit("b", work.job("b", 1), ready=lambda: False)
        assert (loading.place, loading.wait) == (1, None)


def test_the_wait_is_told_once_runs_have_ended():
    clock = Clock()
    work = Work(clock)
    with scheduling(clock=clock, at_once=1) as scheduler:
        settle(scheduler.submit("a", work.job("a", 4, seconds=2.0)))
        _, gate = held(work, scheduler)
        waiting = scheduler.submit("b", work.job("b", 1))
        further = scheduler.submit("c", work.job("c", 1))
        assert (waiting.wait, further.wait) == (8.0, 16.0)
        gate.set()


def test_where_a_step_does_not_end_with_the_server_all_readers_are_told_what_there_was():
    work = Work()
    with scheduling(at_once=2) as scheduler:
        on, gate = threading.Event(), threading.Event()
        steps = iter((lambda: None, lambda: (on.set(), gate.wait(HANG))))
        bye: Any = {"farewell": lambda latest: f"bye after {latest}"}
        run = scheduler.submit("a", work.job("a", 2, hold=lambda: next(steps)()), **bye)
        assert on.wait(HANG)
        behind = scheduler.submit("b", work.job("b", 2), **bye)
        assert not scheduler.close(0.05)
        assert [(one.over, one.outcome, one.take()) for one in (run, behind)] == [
            (True, "shutdown", "bye after a 0"),
            (True, "shutdown", "bye after None"),
        ]
        gate.set()
