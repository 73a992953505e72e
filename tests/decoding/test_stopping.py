"""Ends of text: the earliest wins, and ids and text are cut together."""

import pytest
from fakes import WordTokenizer

from aded.decoding.stopping import Ending, StopStrings
from aded.engine.tokenizer import IncrementalDetokenizer

WORDS = {10: "Hello", 11: " wor", 12: "ld", 13: ".\n", 14: "\n", 15: "END", 16: "E", 17: "N", 18: "D", 2: "</s>"}


def ending(stops=(), room=100, eos=(2,), reason="length"):
    return Ending(IncrementalDetokenizer(WordTokenizer(words=WORDS)), eos, stops, room, reason)


def read(end: Ending, runs: list[list[int]]) -> tuple[list[list[str]], str | None]:
    pieces = []
    for run in runs:
        pieces.append(end.take(run))
        if end.reason:
            break
    return pieces, end.reason


def test_the_first_end_of_text_id_cuts_the_run():
    pieces, reason = read(ending(), [[2, 10, 2, 11]])
    assert pieces == [[""]]
    assert reason == "eos"


@pytest.mark.parametrize("eos", [(2,), (5, 2), (2, 7)])
def test_any_of_several_end_ids_ends_the_text(eos):
    pieces, reason = read(ending(eos=eos), [[10, 2, 11]])
    assert len(pieces[0]) == 2
    assert reason == "eos"


def test_the_limit_cuts_inside_a_run():
    pieces, reason = read(ending(room=2), [[10, 11, 12]])
    assert pieces == [["Hello", " wor"]]
    assert reason == "length"


def test_a_stop_string_across_steps_is_found_and_never_shown():
    pieces, reason = read(ending(["\n\n"]), [[10, 13], [14, 11]])
    assert "".join(p for run in pieces for p in run) == "Hello."
    assert reason == "stop"
    assert len(pieces[1]) == 1


def test_a_stop_string_spread_over_many_tokens_and_steps_is_found():
    pieces, reason = read(ending(["END"]), [[10, 16], [17], [18, 11]])
    assert "".join(p for run in pieces for p in run) == "Hello"
    assert reason == "stop"


def test_what_only_began_like_a_stop_string_is_shown_in_full():
    pieces, reason = read(ending(["END"], room=4), [[10, 16], [17, 11]])
    assert "".join(p for run in pieces for p in run) == "HelloEN wor"
    assert reason == "length"


def test_held_text_is_not_lost_at_the_limit():
    pieces, _ = read(ending(["END"], room=2), [[10, 16]])
    assert "".join(pieces[0]) == "HelloE"


def test_of_several_stop_strings_the_one_completed_first_counts():
    assert StopStrings(["xyz", "b"]).push("aabxyz") == ("aa", True)
    assert StopStrings(["abcd", "c"]).push("xabcd") == ("xab", True)


def test_stop_string_beats_a_later_limit_and_eos():
    _, reason = read(ending(["END"], room=2), [[10, 15, 2]])
    assert reason == "stop"
