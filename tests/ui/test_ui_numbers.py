"""Number fields of the page: valid values, and messages about others."""

from __future__ import annotations

import pytest

from aded.drafters.aded_options import AdedOptions
from ui.numbers import FIELDS, fields_for, parse
from ui.words import Refused, say


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("temperature", "0.7", 0.7),
        ("temperature", " .5 ", 0.5),
        ("temperature", "0,7", 0.7),
        ("c1", "0,125", 0.125),
        ("depth", "5,0", 5),
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
def test_numbers_are_parsed_in_all_usual_forms(name: str, text: str, value: float | None):
    found = parse(name, text)
    assert found == value
    assert isinstance(found, int) == (value is not None and FIELDS[name].integer)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("temperature", "3.5", "Temperature: 3.5 is out of range. Give a number from 0 to 2."),
        ("temperature", "-0.1", "Temperature: -0.1 is out of range"),
        ("temperature", "", "Temperature is empty. Give a number from 0 to 2."),
        ("top_p", "0", "Top-p (1: off): 0 is out of range. Give a number from 0.01 to 1."),
        ("seed", str(2**53), "Seed: 9007199254740992 is out of range. Give a number from 0 to 9007199254740991."),
        ("seed", "1.5", "Seed: 1.5 is not a whole number. Give one from 0 to"),
        ("seed", "1,5", "Seed: 1,5 is not a whole number. Give one from 0 to"),
        ("seed", "1e999", "Seed: 1e999 is out of range"),
        ("seed", "9" * 5000, "…"),
        ("max_new_tokens", "0", "Max new tokens: 0 is out of range"),
        (
            "budget",
            "many",
            "Draft budget (nodes): “many” is not a number. "
            "Give one from 1 to 256, or auto (throughput-optimal, from measured costs).",
        ),
        ("depth", "deep", "Depth: “deep” is not a number. Give one from 1 to 64, or leave it empty for the preset’s value."),
        *(("c1", text, "not a number") for text in ("inf", "nan", "1,000", "1_0", "0x10", "<b>")),
        *(("simulations", text, "not a number") for text in ("inf", "1,000", "1_0")),
    ],
)
def test_an_error_names_the_field_and_its_range(name: str, text: str, words: str):
    with pytest.raises(Refused) as refused:
        parse(name, text)
    assert words in str(refused.value)
    assert len(str(refused.value)) < 200
    key, values = refused.value.messages[0]
    assert say(key, "zh", **values) != say(key, **values)


def test_the_limits_of_a_field_are_valid_in_the_engine():
    for name in ("c1", "c2", "depth", "simulations", "successors"):
        for text in (f"{FIELDS[name].minimum:.15g}", f"{FIELDS[name].maximum:.15g}"):
            AdedOptions(**{name: parse(name, text)})


def test_every_tick_of_a_slider_is_a_valid_value():
    for name, field in FIELDS.items():
        assert all(parse(name, f"{tick:.15g}") == tick for tick in field.ticks)
        assert list(field.ticks) == sorted(set(field.ticks))


def test_the_servers_limit_is_the_maximum_of_the_field():
    fields = fields_for(40)
    assert fields["max_new_tokens"].maximum == 40
    assert max(fields["max_new_tokens"].ticks) == 32
    assert parse("max_new_tokens", "40", fields) == 40
    with pytest.raises(Refused, match="Max new tokens: 41 is out of range. Give a number from 1 to 40"):
        parse("max_new_tokens", "41", fields)
    assert {name: field for name, field in fields.items() if name != "max_new_tokens"} == {
        name: field for name, field in FIELDS.items() if name != "max_new_tokens"
    }


def test_a_number_that_overflows_is_out_of_range():
    with pytest.raises(Refused, match="Temperature: 1e400 is out of range"):
        parse("temperature", "1e400")
