"""The page's fields for numbers: what each may hold, and what is said of anything else."""

from __future__ import annotations

import pytest

from aded.drafters.aded import AdedOptions
from ui.numbers import FIELDS, parse, within
from ui.words import Refused, say


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("temperature", "0.7", 0.7),
        ("temperature", " .5 ", 0.5),
        ("max_new_tokens", "1e2", 100),
        ("seed", "007", 7),
        ("seed", str(2**53 - 1), 2**53 - 1),
        ("depth", "\uff11\uff12", 12),
        ("depth", "", None),
        ("budget", "AUTO", None),
        ("budget", " ", None),
        ("c2", "0.001", 0.001),
        ("top_p", "1", 1.0),
    ],
)
def test_a_number_is_read_in_any_usual_way(name: str, text: str, value: float | None):
    found = parse(name, text)
    assert found == value
    assert isinstance(found, int) == (value is not None and FIELDS[name].whole)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("temperature", "3.5", "Temperature: 3.5 is out of range. Give a number from 0 to 2."),
        ("temperature", "-0.1", "Temperature: -0.1 is out of range"),
        ("temperature", "", "Temperature is empty. Give a number from 0 to 2."),
        ("top_p", "0", "Top-p (1: off): 0 is out of range. Give a number from 0.01 to 1."),
        ("seed", str(2**53), "Seed: 9007199254740992 is out of range. Give a number from 0 to 9007199254740991."),
        ("seed", "1.5", "Seed: 1.5 is no whole number. Give one from 0 to"),
        ("seed", "1e999", "Seed: 1e999 is out of range"),
        ("seed", "9" * 5000, "…"),
        ("max_new_tokens", "0", "New tokens, at most: 0 is out of range"),
        (
            "budget",
            "many",
            "Draft budget in nodes: “many” is no number. Give one from 1 to 256, or write auto for as many nodes as pay.",
        ),
        ("depth", "deep", "Depth: “deep” is no number. Give one from 1 to 64, or leave it empty for the preset’s value."),
        *((name, text, "no number") for name in ("c1", "simulations") for text in ("inf", "nan", "1,5", "1_0", "0x10", "<b>")),
    ],
)
def test_a_fault_names_the_field_by_its_label_and_its_range(name: str, text: str, words: str):
    with pytest.raises(Refused) as refused:
        parse(name, text)
    assert words in str(refused.value)
    assert len(str(refused.value)) < 200
    key, values = refused.value.sayings[0]
    assert say(key, "zh", **values) != say(key, **values)


def test_what_a_field_takes_is_what_the_engine_takes():
    for name in ("c1", "c2", "depth", "simulations", "successors"):
        for text in (f"{FIELDS[name].least:.15g}", f"{FIELDS[name].most:.15g}"):
            AdedOptions(**{name: parse(name, text)})


def test_every_notch_of_a_slider_is_a_value_of_its_field():
    for name, field in FIELDS.items():
        assert all(parse(name, f"{notch:.15g}") == notch for notch in field.notches)
        assert list(field.notches) == sorted(set(field.notches))


def test_a_servers_limit_is_the_fields_range():
    fields = within(40)
    assert fields["max_new_tokens"].most == 40
    assert max(fields["max_new_tokens"].notches) == 32
    assert parse("max_new_tokens", "40", fields) == 40
    with pytest.raises(Refused, match="New tokens, at most: 41 is out of range. Give a number from 1 to 40"):
        parse("max_new_tokens", "41", fields)
    assert {name: field for name, field in fields.items() if name != "max_new_tokens"} == {
        name: field for name, field in FIELDS.items() if name != "max_new_tokens"
    }


def test_a_number_beyond_all_is_out_of_range_as_the_field_says_it_too():
    with pytest.raises(Refused, match="Temperature: 1e400 is out of range"):
        parse("temperature", "1e400")
