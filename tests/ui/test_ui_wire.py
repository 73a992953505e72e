"""JSON lines for the browser."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from ui_fakes import make_race, make_trace, rounded_times

from aded.core import trace
from aded.core.errors import AdedError
from aded.core.trace import Agreement, Choice, Race, RejectionRecord, RejectionTrial, RowChange, TypicalRecord, TypicalTrial
from ui.browser.wire import SERIES_COLOURS, check_drawable, race_line, to_lines

COLOURS = {"plain": ("#5a6572", "#a7b1bc")}


def rebuild(value: str) -> Race:
    """Rebuilds the race as the browser does to save it."""
    events = [json.loads(line) for line in value.split("\n") if line]
    parts: list[dict] = [{"header": run["header"], "steps": []} for run in events[0]["runs"]]
    for event in events[1:]:
        if event["t"] == "step":
            parts[event["run"]]["steps"].append(event["step"])
        elif event["t"] == "run":
            parts[event["run"]].update({k: event[k] for k in ("prefill_seconds", "text", "finish_reason")})
    for part in parts:
        part["token_ids"] = [t for step in part["steps"] for t in step["emitted"]]
    return trace.loads(json.dumps({"format": "aded-race", "version": 1, "lanes": parts}))


def test_the_lines_contain_the_whole_record():
    race = make_race()
    assert rebuild(to_lines(race, COLOURS, "file", "x")) == rounded_times(race)


def test_several_runs_of_one_method_have_different_colours():
    colours = {"plain": ("#1", "#2"), "aded": ("#3", "#4"), "rest": ("#5", "#6")}

    def shown(*methods: str) -> list[Any]:
        head = json.loads(race_line([make_trace(name) for name in methods], colours, "run", "").split("\n")[0])
        return [run["colours"] for run in head["runs"]]

    series = [list(colours) for colours in SERIES_COLOURS]
    assert shown("plain", "aded", "rest") == [["#1", "#2"], ["#3", "#4"], ["#5", "#6"]]
    assert shown("plain", "aded", "aded", "aded") == [["#1", "#2"], series[0], series[2], series[4]]
    assert shown("plain", *["aded"] * 5) == [["#1", "#2"], *series]
    assert len(shown(*["aded"] * 8)) == 8


def test_an_event_is_one_line_for_all_tokens():
    race = make_race(["a\nb", "\u2028", "\r", "</script>", "`${1+1}`"])
    value = to_lines(race, COLOURS, "file", "x")
    assert rebuild(value) == rounded_times(race)
    assert all(json.loads(line)["t"] for line in value.split("\n") if line)
    assert "<" not in value


def tried(**changes) -> RejectionRecord:
    """One rejected child and the residual distribution."""
    trial = RejectionTrial(1, 5, 0.2, 0.8, 0.9, 0.25, False, 0.6, [0.2], [0.8])
    return RejectionRecord([replace(trial, **changes)], [5], ["x"], [0.0], 0.7)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"path": []}, "not a path"),
        ({"path": [0, 2]}, "not a path"),
        ({"emitted": [], "texts": [], "origins": []}, "no new tokens"),
        ({"rows": [RowChange([1, 2], ["a", "b"], [1], ["x", "y"], [0.1], [0.2])]}, "length"),
        ({"rows": [RowChange([1], ["a"], [1], ["x"], [0.1], [0.2])]}, "bigram"),
        ({"rows": [RowChange([1, 2], ["a", "b"], [1], ["x"], [0.1], [1e308])]}, "probability"),
        ({"rows": [RowChange([1, 2], ["a", "b"], [1], ["x"], [0.1], [0.2], [-0.1])]}, "probability"),
        ({"agreement": [Agreement("base", False, 1e9, 0, 0, 0)]}, "probability"),
        ({"choices": [Choice(0, 1, "x", 1.5, 1, False, [], [], [])]}, "probability"),
        ({"choices": [Choice(0, 1, "x", 0.5, 1, False, [], [], [], rejection=tried(p=1.5))]}, "probability"),
        ({"choices": [Choice(0, 1, "x", 0.5, 1, False, [], [], [], rejection=tried(top_q=[-0.1]))]}, "probability"),
        (
            {
                "choices": [
                    Choice(0, 1, "x", 0.5, 1, False, [], [], [], typical=TypicalRecord(1, 0.1, [TypicalTrial(1, 2, True)]))
                ]
            },
            "probability",
        ),
        ({"choices": [Choice(99, 1, "x", 0.5, 1, False, [], [], [])]}, "choice"),
    ],
)
def test_a_file_that_cannot_be_drawn_is_refused(changes: dict, words: str):
    run = make_trace("aded")
    at = next(i for i, step in enumerate(run.steps) if len(step.path) > 2)
    steps = [replace(step, **changes) if i == at else step for i, step in enumerate(run.steps)]
    with pytest.raises(AdedError, match=words):
        check_drawable(Race([replace(run, steps=steps)]))


def test_what_the_engine_records_can_be_drawn():
    check_drawable(make_race())


def test_every_race_has_its_own_id():
    first, second = (json.loads(to_lines(make_race(), COLOURS, "file", "x").split("\n")[0]) for _ in range(2))
    assert first["id"] != second["id"]
