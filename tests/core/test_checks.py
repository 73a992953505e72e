"""Checks before a long run: unusable outputs and unused options are refused."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from aded.core.errors import MAX_SHOWN, AdedError, as_text
from aded.core.limits import check_choice, check_flags, check_numbers, whole_number
from aded.core.validation import check_distinct, check_file, check_folder, check_not_empty, refuse_ignored


def test_folders_that_can_be_created_are_accepted_and_not_created(tmp_path: Path) -> None:
    check_folder(str(tmp_path / "a" / "b"))
    check_folder(None)
    assert not list(tmp_path.iterdir())


def test_places_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "a"):
        with pytest.raises(AdedError, match="choose another --out"):
            check_folder(str(path))
    with pytest.raises(AdedError, match="too long; choose another --out"):
        check_folder(str(tmp_path / ("a" * 5000)))
    for path in (tmp_path, tmp_path / "none" / "a", tmp_path / ("a" * 5000), tmp_path / ("a" * 250)):
        with pytest.raises(AdedError, match="cannot write"):
            check_file(str(path))


def test_one_file_under_two_names_is_one_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    (tmp_path / "soft").symlink_to("a")
    (tmp_path / "hard").hardlink_to(tmp_path / "a")
    for name in ("a", "soft", "hard", "../" + tmp_path.name + "/a"):
        with pytest.raises(AdedError, match="--out is .*choose another path"):
            check_distinct("--out", str(tmp_path / "a"), [None, str(tmp_path / name)])
    check_distinct("--out", str(tmp_path / "a"), [None, str(tmp_path / "b")])
    check_distinct("--out", None, [str(tmp_path / "a")])


def test_only_options_that_were_changed_are_refused() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--out", nargs="*")
    parser.set_defaults(parser=parser)
    refuse_ignored(parser.parse_args(["--top-p", "1"]), ["top_p", "out"], "is nothing here")
    with pytest.raises(AdedError, match="^--top-p is nothing here; leave it out"):
        refuse_ignored(parser.parse_args(["--top-p", "0.5"]), ["top_p"], "is nothing here")
    check_not_empty(parser.parse_args([]))
    with pytest.raises(AdedError, match="out is empty"):
        check_not_empty(parser.parse_args(["--out", "a", ""]))


WRONG = [10**400, -(10**400), 10**5000, Fraction(10**400), math.nan, math.inf, "1", None, [1], {}, np.ones((3, 3)), object()]
CHECKS = {
    "a whole number with limits": lambda value: check_numbers({"top_k": (0, 5)}, {"top_k": value}),
    "a number with limits": lambda value: check_numbers({"c1": (0.0, 5.0)}, {"c1": value}),
    "a whole number": lambda value: whole_number(value, "seed"),
    "a choice": lambda value: check_choice("tree", value, ("static", "adaptive")),
    "a flag": lambda value: check_flags({"keep": value}),
}


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_settings_of_another_type_or_size_are_refused_in_one_line(check: Callable[[object], object]) -> None:
    for value in WRONG:
        with pytest.raises(AdedError, match="; (give|choose) ") as caught:
            check(value)
        assert len(str(caught.value).splitlines()) == 1
        assert len(str(caught.value)) < 60 + MAX_SHOWN


def test_limits_are_inclusive_and_numbers_of_numpy_are_numbers() -> None:
    limits = {"top_k": (0, 5), "c1": (0.5, 1.5)}
    for values in ({"top_k": 0, "c1": 0.5}, {"top_k": np.int8(5), "c1": np.float32(1.5)}, {"c1": 1}, {}):
        check_numbers(limits, values)
    assert whole_number(5.0, "seed") == 5
    assert whole_number(2**62 + 1, "seed") == 2**62 + 1


def test_what_a_drafter_gives_is_valid_text() -> None:
    assert [as_text(value) for value in ("a", 5, None, "\ud800")] == ["a", "5", "None", "?"]
    assert as_text(10**5000) == "of type int"
