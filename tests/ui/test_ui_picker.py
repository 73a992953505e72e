"""The method picker: its value, and the selection that it returns."""

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


def test_the_default_selection_is_valid():
    assert picker.decode(picker.encode(picker.DEFAULT)) == picker.DEFAULT


def test_methods_are_in_the_registrys_order_without_duplicates():
    assert picker.decode(sent("suffix", "plain", "suffix", "aded")) == ("plain", "aded", "suffix")


def test_a_race_without_plain_decoding_is_valid():
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
def test_fewer_than_two_or_more_than_six_methods_are_refused(value: str | None, count: int):
    with pytest.raises(AdedError, match=f"^{count} {'method is' if count == 1 else 'methods are'} selected; select two to six"):
        picker.decode(value)


def test_rows_without_a_selection_leave_it_to_the_browser():
    assert picker.undecided(picker.encode(None, {"rest": "no datastore"}))
    for value in (picker.encode(()), picker.encode(("plain", "aded")), sent("aded"), None, "", "not JSON", "[1]", "3"):
        assert not picker.undecided(value)
