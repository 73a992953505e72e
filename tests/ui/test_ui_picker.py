"""Which methods race: what goes to the picker and what comes back."""

from __future__ import annotations

import json

import pytest

from aded.core.errors import AdedError
from aded.drafters.registry import METHODS
from ui import picker


def sent(*names: object) -> str:
    return json.dumps({"chosen": list(names)})


def test_the_picker_has_a_row_for_every_method_of_the_registry():
    value = json.loads(picker.encode(picker.DEFAULT, {"rest": "no datastore; make one"}))
    rows = {row["name"]: row for row in value["methods"]}
    assert list(rows) == list(METHODS)
    assert rows["rest"]["unavailable"] == "no datastore; make one"
    assert rows["aded"]["unavailable"] is None
    assert [name for name, row in rows.items() if not row["lossless"]] == [n for n, m in METHODS.items() if not m.lossless]


def test_the_default_race_is_one_that_may_be_run():
    assert picker.decode(picker.encode(picker.DEFAULT)) == picker.DEFAULT


def test_the_lanes_come_in_the_registrys_order_each_once():
    assert picker.decode(sent("suffix", "plain", "suffix", "aded")) == ("plain", "aded", "suffix")


def test_plain_decoding_need_not_race():
    assert picker.decode(sent("aded", "rest")) == ("aded", "rest")


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (sent("aded"), 1),
        (sent(*list(METHODS)[:7]), 7),
        (sent("aded", "no such method"), 1),
        (sent("aded", 3, None, ["plain"]), 1),
        (None, 0),
        ("", 0),
        ("not JSON", 0),
        ("[1]", 0),
        ('{"chosen": {"aded": 1}}', 0),
        ("[" * 100_000, 0),
    ],
)
def test_what_is_no_race_of_two_to_six_methods_is_refused(value: str | None, count: int):
    with pytest.raises(AdedError, match=f"^{count} {'method is' if count == 1 else 'methods are'} chosen; choose two to six"):
        picker.decode(value)


def test_rows_alone_leave_the_choice_to_the_browser():
    assert picker.undecided(picker.encode(None, {"rest": "no datastore"}))
    for value in (picker.encode(()), picker.encode(("plain", "aded")), sent("aded"), None, "", "not JSON", "[1]", "3"):
        assert not picker.undecided(value)
