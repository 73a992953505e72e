"""What goes to the browser."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from ui_fakes import make_race, make_trace

from aded.core import trace
from aded.core.errors import AdedError
from aded.core.trace import Agreement, Choice, Race, RowChange
from ui.wire import PLACES, check_drawable, race_line, whole

COLOURS = {"plain": ("#5a6572", "#a7b1bc")}


def rebuild(value: str) -> Race:
    """What the browser does when it saves a race."""
    events = [json.loads(line) for line in value.split("\n") if line]
    parts: list[dict] = [{"header": lane["header"], "steps": []} for lane in events[0]["lanes"]]
    for event in events[1:]:
        if event["t"] == "step":
            parts[event["lane"]]["steps"].append(event["step"])
        elif event["t"] == "lane":
            parts[event["lane"]].update({k: event[k] for k in ("prefill_seconds", "text", "finish_reason")})
    for part in parts:
        part["token_ids"] = [t for step in part["steps"] for t in step["emitted"]]
    return trace.loads(json.dumps({"format": "aded-race", "version": 1, "lanes": parts}))


def test_the_lines_hold_the_whole_record():
    race = make_race()
    assert rebuild(whole(race, COLOURS, "file", "x")) == race


def test_lanes_of_one_method_have_colours_of_their_own():
    colours = {"plain": ("#1", "#2"), "aded": ("#3", "#4"), "rest": ("#5", "#6")}

    def shown(*methods: str) -> list[Any]:
        head = json.loads(race_line([make_trace(name) for name in methods], colours, "run", "").split("\n")[0])
        return [lane["colours"] for lane in head["lanes"]]

    places = [list(pair) for pair in PLACES]
    assert shown("plain", "aded", "rest") == [["#1", "#2"], ["#3", "#4"], ["#5", "#6"]]
    assert shown("plain", "aded", "aded", "aded") == [["#1", "#2"], places[0], places[2], places[4]]
    assert shown("plain", *["aded"] * 5) == [["#1", "#2"], *places]
    assert len(shown(*["aded"] * 8)) == 8


def test_a_line_is_one_line_whatever_the_tokens_are():
    race = make_race(["a\nb", "\u2028", "\r", "</script>", "`${1+1}`"])
    value = whole(race, COLOURS, "file", "x")
    assert rebuild(value) == race
    assert all(json.loads(line)["t"] for line in value.split("\n") if line)
    assert "<" not in value


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"path": []}, "no path"),
        ({"path": [0, 2]}, "no path"),
        ({"emitted": [], "texts": [], "origins": []}, "writes nothing"),
        ({"rows": [RowChange([1, 2], ["a", "b"], [1], ["x", "y"], [0.1], [0.2])]}, "length"),
        ({"rows": [RowChange([1], ["a"], [1], ["x"], [0.1], [0.2])]}, "pair"),
        ({"rows": [RowChange([1, 2], ["a", "b"], [1], ["x"], [0.1], [1e308])]}, "probability"),
        ({"rows": [RowChange([1, 2], ["a", "b"], [1], ["x"], [0.1], [0.2], [-0.1])]}, "probability"),
        ({"agreement": [Agreement("base", False, 1e9, 0, 0, 0)]}, "probability"),
        ({"choices": [Choice(0, 1, "x", 1.5, 1, False, [], [], [])]}, "probability"),
        ({"choices": [Choice(99, 1, "x", 0.5, 1, False, [], [], [])]}, "choice"),
    ],
)
def test_a_file_that_the_page_could_not_draw_is_refused(changes: dict, words: str):
    lane = make_trace("aded")
    at = next(i for i, step in enumerate(lane.steps) if len(step.path) > 2)
    steps = [replace(step, **changes) if i == at else step for i, step in enumerate(lane.steps)]
    with pytest.raises(AdedError, match=words):
        check_drawable(Race([replace(lane, steps=steps)]))


def test_what_the_engine_records_can_be_drawn():
    check_drawable(make_race())


def test_every_race_has_an_identity_of_its_own():
    first, second = (json.loads(whole(make_race(), COLOURS, "file", "x").split("\n")[0]) for _ in range(2))
    assert first["id"] != second["id"]
