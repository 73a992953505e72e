"""What goes to the browser, and the verdict in words."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from ui_fakes import make_race, make_trace

from aded import trace
from aded.errors import AdedError
from aded.trace import Choice, Race, RowChange, Seconds, Trace
from ui.wire import check_drawable, first_difference, verdict, whole

COLOURS = {"plain": ("#5a6572", "#a7b1bc")}


def at_speed(lane: Trace, seconds: float) -> Trace:
    """The lane, every step of the same length."""
    return replace(lane, steps=[replace(s, seconds=Seconds(verify=seconds / len(lane.steps))) for s in lane.steps])


def lanes(plain_seconds: float, aded_seconds: float) -> list[Trace]:
    plain, aded = make_race().lanes
    return [at_speed(plain, plain_seconds), at_speed(aded, aded_seconds)]


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
    return trace.from_json({"format": "aded-race", "version": 1, "lanes": parts})


def test_the_lines_hold_the_whole_record():
    race = make_race()
    assert rebuild(whole(race, COLOURS, "file", "x")) == race


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


def test_faster_is_said_with_the_ratio():
    assert verdict(lanes(1.6, 1.0))["sentence"] == "ADED is 1.6 times plain decoding here; both texts are identical."


def test_slower_is_said_plainly():
    assert verdict(lanes(0.8, 1.0))["sentence"] == "ADED is not faster: 0.80 times plain decoding here; both texts are identical."


def test_equal_is_called_equal():
    assert verdict(lanes(1.02, 1.0))["sentence"].startswith("ADED is as fast as plain decoding here (1.02 times)")


def test_the_first_difference_is_named():
    plain, aded = lanes(1.6, 1.0)
    step = replace(aded.steps[0], emitted=[999, *aded.steps[0].emitted[1:]])
    words = verdict([plain, replace(aded, steps=[step, *aded.steps[1:]])])
    assert words["sentence"].endswith("the texts differ from token 1 on.")


def test_ids_are_compared_and_not_texts():
    plain, aded = lanes(1.6, 1.0)
    step = replace(aded.steps[0], texts=["another", *aded.steps[0].texts[1:]])
    assert "identical" in verdict([plain, replace(aded, steps=[step, *aded.steps[1:]])])["sentence"]


def test_a_running_race_compares_what_all_lanes_have_written():
    plain, aded = lanes(1.6, 1.0)
    part = replace(plain, steps=plain.steps[:5], finish_reason=None)
    words = verdict([part, aded], running=True)["sentence"]
    assert "so far" in words
    assert "the first 5 tokens, which both have written, are identical" in words


def test_a_stopped_race_says_so():
    plain, aded = lanes(1.6, 1.0)
    part = replace(plain, steps=plain.steps[:1], finish_reason="cancelled")
    words = verdict([part, aded])["sentence"]
    assert words.startswith("Stopped midway.")
    assert "the first token, which both have written, is identical" in words


def test_sampled_texts_that_differ_are_explained():
    plain, aded = (replace(t, header=replace(t.header, settings={"temperature": 0.7})) for t in lanes(1.6, 1.0))
    other = replace(aded, steps=[replace(s, emitted=[t + 1 for t in s.emitted]) for s in aded.steps])
    assert "the distribution" in verdict([plain, other])["detail"]


def three(*seconds: float) -> list[Trace]:
    """Plain decoding, ADED and prompt lookup, each at its own speed, writing the same."""
    made = [at_speed(lane, s) for lane, s in zip([*make_race().lanes, make_trace("prompt-lookup")], seconds)]
    return made


def other_text(lane: Trace) -> Trace:
    """The lane with another first token."""
    step = lane.steps[0]
    return replace(lane, steps=[replace(step, emitted=[999, *step.emitted[1:]]), *lane.steps[1:]])


def test_several_methods_are_ranked_in_one_sentence():
    assert verdict(three(2.4, 1.0, 2.0))["sentence"] == (
        "ADED is 2.4 times plain decoding here; prompt-lookup 1.2 times; all three texts are identical."
    )


def test_one_of_several_that_loses_is_said_to():
    assert verdict(three(1.0, 0.5, 2.0))["sentence"] == (
        "ADED is 2.0 times plain decoding here; prompt-lookup is not faster: 0.50 times; all three texts are identical."
    )


def test_the_lane_that_wrote_another_text_is_named():
    plain, aded, lookup = three(2.0, 1.0, 1.0)
    words = verdict([plain, aded, other_text(lookup)])
    assert words["sentence"].endswith("the text of prompt-lookup differs from token 1 on; the other two texts are identical.")
    assert "should not differ: here they did" in words["detail"]


def test_a_lossy_lane_that_differs_is_not_called_a_fault():
    plain, aded, lookup = three(2.0, 1.0, 1.0)
    lossy = other_text(replace(lookup, header=replace(lookup.header, lossless=False)))
    words = verdict([plain, aded, lossy])
    assert "the text of prompt-lookup differs" in words["sentence"]
    assert words["detail"].startswith("prompt-lookup may change the text: not a lossless method.")
    assert "should not" not in words["detail"]


def test_without_plain_decoding_every_lane_is_described_and_the_texts_are_compared():
    _, aded, lookup = three(2.0, 1.0, 1.0)
    sentence = verdict([aded, lookup])["sentence"]
    assert "ADED: " in sentence
    assert "prompt-lookup: " in sentence
    assert sentence.endswith("both texts are identical.")


def test_the_clocks_are_explained():
    assert "take turns on the device, each step having it to itself" in verdict(lanes(1.6, 1.0))["detail"]


def test_a_lossy_method_is_named():
    plain, aded = lanes(1.6, 1.0)
    lossy = replace(aded, header=replace(aded.header, lossless=False))
    assert "ADED may change the text" in verdict([plain, lossy])["detail"]


def test_a_lane_alone_is_described():
    assert verdict([make_trace("aded")])["sentence"].startswith("ADED: ")


def test_an_empty_race_has_a_verdict_too():
    assert verdict([])["sentence"] == "No step yet."
    assert verdict([replace(make_trace("plain"), steps=[])])["sentence"] == "No step yet."


@pytest.mark.parametrize(("a", "b", "at"), [([1, 2], [1, 2, 3], None), ([1, 2], [1, 3], 1), ([], [1], None), ([4], [5], 0)])
def test_first_difference(a: list[int], b: list[int], at: int | None):
    assert first_difference(a, b) == at
