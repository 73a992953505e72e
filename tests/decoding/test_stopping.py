"""Stopping criteria: the first one met ends the text, and token ids and text are cut at the same token."""

import pytest
from fakes import WordTokenizer

from aded.decoding.stopping import StopChecker, StopStrings
from aded.engine.loading.tokenizer import IncrementalDetokenizer

WORDS = {10: "Hello", 11: " wor", 12: "ld", 13: ".\n", 14: "\n", 15: "END", 16: "E", 17: "N", 18: "D", 2: "</s>"}


def checker(stops=(), limit=100, eos=(2,), reason="length"):
    return StopChecker(IncrementalDetokenizer(WordTokenizer(words=WORDS)), eos, stops, limit, reason)


def read(stopping: StopChecker, steps: list[list[int]]) -> tuple[list[list[str]], str | None]:
    pieces = []
    for tokens in steps:
        pieces.append(stopping.push(tokens))
        if stopping.reason:
            break
    return pieces, stopping.reason


def test_the_first_end_of_text_id_cuts_the_step():
    pieces, reason = read(checker(), [[2, 10, 2, 11]])
    assert pieces == [[""]]
    assert reason == "eos"


@pytest.mark.parametrize("eos", [(2,), (5, 2), (2, 7)])
def test_any_of_several_end_ids_ends_the_text(eos):
    pieces, reason = read(checker(eos=eos), [[10, 2, 11]])
    assert len(pieces[0]) == 2
    assert reason == "eos"


def test_the_limit_cuts_inside_a_step():
    pieces, reason = read(checker(limit=2), [[10, 11, 12]])
    assert pieces == [["Hello", " wor"]]
    assert reason == "length"


def test_a_stop_string_across_steps_is_found_and_never_shown():
    pieces, reason = read(checker(["\n\n"]), [[10, 13], [14, 11]])
    assert "".join(p for step in pieces for p in step) == "Hello."
    assert reason == "stop"
    assert len(pieces[1]) == 1


def test_a_stop_string_spread_over_many_tokens_and_steps_is_found():
    pieces, reason = read(checker(["END"]), [[10, 16], [17], [18, 11]])
    assert "".join(p for step in pieces for p in step) == "Hello"
    assert reason == "stop"


def test_a_mere_prefix_of_a_stop_string_is_shown_in_full():
    pieces, reason = read(checker(["END"], limit=4), [[10, 16], [17, 11]])
    assert "".join(p for step in pieces for p in step) == "HelloEN wor"
    assert reason == "length"


def test_buffered_text_is_not_lost_at_the_limit():
    pieces, _ = read(checker(["END"], limit=2), [[10, 16]])
    assert "".join(pieces[0]) == "HelloE"


def test_of_several_stop_strings_the_one_completed_first_counts():
    assert StopStrings(["xyz", "b"]).push("aabxyz") == ("aa", True)
    assert StopStrings(["abcd", "c"]).push("xabcd") == ("xab", True)


def test_stop_string_beats_a_later_limit_and_eos():
    _, reason = read(checker(["END"], limit=2), [[10, 15, 2]])
    assert reason == "stop"
