"""Races: several decodes interleaved by their decode times."""

import dataclasses
from dataclasses import replace

import pytest
from fakes import tiny_target

from aded.core.trace import Race, Seconds, Step, dumps, loads
from aded.decoding.decoder import Decoder, GenerationSettings
from aded.decoding.race import HELD_STEPS, interleaved, race, race_record

PROMPT = [5, 17, 40, 8]


def make_decoders(count=2):
    target = tiny_target("llama")
    return [
        Decoder(target, method, GenerationSettings(max_new_tokens=12)) for method in ("plain", "aded", "prompt-lookup")[:count]
    ]


def test_the_run_with_the_least_decode_time_takes_the_next_step():
    decoders = make_decoders(3)
    clocks = [0.0] * 3
    for run, step in race(decoders, PROMPT):
        running = [i for i, d in enumerate(decoders) if d.finish_reason is None or i == run]
        assert clocks[run] == min(clocks[i] for i in running)
        clocks[run] += step.seconds.total
    assert [decoder.clock for decoder in decoders] == clocks


def test_steps_that_are_recorded_together_are_those_recorded_alone(monkeypatch: pytest.MonkeyPatch):
    """Of a sampled race with each kind of record; only times and what depends on them differ."""

    def made(together: int) -> list[list[Step]]:
        monkeypatch.setattr("aded.decoding.race.HELD_STEPS", together)
        monkeypatch.setattr("aded.decoding.race.HELD_SECONDS", 1e9)
        settings = GenerationSettings(max_new_tokens=40, budget=12, temperature=0.9, top_p=0.95, seed=4)
        penalised = replace(settings, repetition_penalty=1.2)
        target = tiny_target("llama")
        decoders = [Decoder(target, method, settings) for method in ("plain", "aded", "prompt-lookup")]
        decoders.append(Decoder(target, "aded", penalised))
        order = [run for run, _ in race(decoders, PROMPT)]
        assert [order.count(run) for run in range(4)] == [len(decoder.trace.steps) for decoder in decoders]
        return [[replace(step, seconds=Seconds()) for step in decoder.trace.steps] for decoder in decoders]

    alone, together = made(1), made(7)
    assert max(map(len, alone)) > 14
    for one, other in zip(alone, together, strict=True):
        assert [step.emitted for step in one] == [step.emitted for step in other]
        for a, b in zip(one, other, strict=True):
            assert_close(dataclasses.asdict(a), dataclasses.asdict(b))


def assert_close(one: object, other: object) -> None:
    """Equal up to the rounding of recorded numbers."""
    if isinstance(one, dict) and isinstance(other, dict):
        assert one.keys() == other.keys()
        for name in one:
            assert_close(one[name], other[name])
    elif isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        assert len(one) == len(other)
        for a, b in zip(one, other):
            assert_close(a, b)
    elif isinstance(one, float):
        assert other == pytest.approx(one, rel=2e-3, abs=1e-9)
    else:
        assert one == other


def test_steps_before_a_failure_are_told_first(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("aded.decoding.race.HELD_SECONDS", 1e9)
    decoders = make_decoders(2)
    steps, told = race(decoders, PROMPT), []
    advance, count = decoders[1].advance, iter(range(5))
    monkeypatch.setattr(decoders[1], "advance", lambda: advance() if next(count) < 2 else 1 / 0)
    with pytest.raises(ZeroDivisionError):
        told.extend(steps)
    assert [sum(run == i for run, _ in told) for i in range(2)] == [len(decoder.trace.steps) for decoder in decoders]
    assert any(run == 1 for run, _ in told)


def test_steps_that_were_held_at_a_stop_are_in_the_trace(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("aded.decoding.race.HELD_SECONDS", 1e9)
    decoders = make_decoders(2)
    steps = race(decoders, PROMPT)
    next(steps)
    steps.close()
    made = [decoder.trace.steps for decoder in decoders]
    assert sum(map(len, made)) == HELD_STEPS
    assert all(choice.probability > 0 for steps in made for step in steps for choice in step.choices)


def test_all_runs_end_and_agree():
    decoders = make_decoders(3)
    for _ in race(decoders, PROMPT):
        pass
    record = race_record(decoders)
    assert isinstance(record, Race)
    assert len({tuple(run.token_ids) for run in record.lanes}) == 1
    assert loads(dumps(record)) == record


def test_closing_a_race_stops_every_run(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("aded.decoding.race.HELD_STEPS", 1)
    decoders = make_decoders()
    steps = race(decoders, PROMPT)
    next(steps)
    steps.close()
    assert all(d.finish_reason == "cancelled" and d._session is None for d in decoders)


def test_the_caller_gets_control_after_each_prefill_so_that_a_stop_waits_for_one_at_most():
    decoders = make_decoders(3)
    steps = interleaved(decoders, [PROMPT] * len(decoders))
    for prefilled in (1, 2):
        assert next(steps) is None
        assert [d.began for d in decoders] == [i < prefilled for i in range(3)]
    steps.close()
    assert not decoders[2].began
    assert all(d.finish_reason == "cancelled" and getattr(d, "_session", None) is None for d in decoders)


def test_the_caller_gets_control_after_each_forward_pass_of_a_long_prefill(monkeypatch: pytest.MonkeyPatch):
    def texts(items):
        made = [item for item in items if item is not None]
        return [[token for index, step in made if index == run for token in step.emitted] for run in range(2)]

    prompt, expected = PROMPT * 3, texts(race(make_decoders(), PROMPT * 3))
    monkeypatch.setattr("aded.engine.session.PREFILL_CHUNK", 4)
    decoders, progress = make_decoders(), []
    steps = interleaved(decoders, [prompt] * len(decoders))
    for _ in range(6):
        assert next(steps) is None
        progress.append(tuple(decoder.prefill_progress for decoder in decoders))
    first, second = (4, 12), (8, 12)
    assert progress == [(first, None), (second, None), (None, None), (None, first), (None, second), (None, None)]
    assert all(decoder.prefill_seconds > 0 for decoder in decoders)
    assert texts(steps) == expected


def test_a_decode_that_is_closed_during_its_prefill_has_not_begun(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("aded.engine.session.PREFILL_CHUNK", 2)
    decoders = make_decoders(2)
    steps = interleaved(decoders, [PROMPT] * len(decoders))
    next(steps)
    steps.close()
    assert decoders[0].prefill_progress is None
    assert not any(decoder.began or decoder.running for decoder in decoders)


def test_a_race_is_the_same_with_and_without_its_pauses():
    def texts(make):
        decoders = make_decoders(3)
        made = [item for item in make(decoders, PROMPT) if item is not None]
        return [[token for index, step in made if index == run for token in step.emitted] for run in range(3)]

    assert texts(race) == texts(lambda decoders, prompt: interleaved(decoders, [prompt] * len(decoders)))


def test_a_drafter_that_fails_to_close_keeps_no_other_run_open():
    decoders = make_decoders(3)
    decoders[1].drafter.close = lambda: 1 / 0
    steps = race(decoders, PROMPT)
    next(steps)
    with pytest.raises(ZeroDivisionError):
        steps.close()
    assert not any(decoder.running for decoder in decoders)
