"""Lanes in virtual time."""

from fakes import tiny_target

from aded.core.trace import Race, dumps, loads
from aded.decoding.decoder import Decoder, GenerationSettings
from aded.decoding.lockstep import race, record_of, turns

PROMPT = [5, 17, 40, 8]


def lanes(count=2):
    target = tiny_target("llama")
    return [
        Decoder(target, method, GenerationSettings(max_new_tokens=12)) for method in ("plain", "aded", "prompt-lookup")[:count]
    ]


def test_the_lane_that_is_behind_takes_the_next_step():
    decoders = lanes(3)
    clocks = [0.0] * 3
    for lane, step in race(decoders, PROMPT):
        running = [i for i, d in enumerate(decoders) if d.finish_reason is None or i == lane]
        assert clocks[lane] == min(clocks[i] for i in running)
        clocks[lane] += step.seconds.total
        assert decoders[lane].clock == clocks[lane]


def test_all_lanes_end_and_agree():
    decoders = lanes(3)
    for _ in race(decoders, PROMPT):
        pass
    record = record_of(decoders)
    assert isinstance(record, Race)
    assert len({tuple(lane.token_ids) for lane in record.lanes}) == 1
    assert loads(dumps(record)) == record


def test_closing_a_race_stops_every_lane():
    decoders = lanes()
    run = race(decoders, PROMPT)
    next(run)
    run.close()
    assert all(d.finish_reason == "cancelled" and d._session is None for d in decoders)


def test_control_is_handed_over_after_each_prompt_that_was_read_so_that_a_stop_waits_for_one_at_most():
    decoders = lanes(3)
    run = turns(decoders, PROMPT)
    for read in (1, 2):
        assert next(run) is None
        assert [d.began for d in decoders] == [i < read for i in range(3)]
    run.close()
    assert not decoders[2].began
    assert all(d.finish_reason == "cancelled" and getattr(d, "_session", None) is None for d in decoders)


def test_a_race_is_the_same_with_and_without_its_pauses():
    def texts(make):
        decoders = lanes(3)
        made = [turn for turn in make(decoders, PROMPT) if turn is not None]
        return [[step.emitted for who, step in made if who == lane] for lane in range(3)]

    assert texts(race) == texts(turns)
