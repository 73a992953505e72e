"""Lanes in virtual time."""

from fakes import tiny_target

from aded.decode import Decoder, GenerationSettings
from aded.race import race, record_of
from aded.trace import Race, dumps, loads

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
