"""Checks before a long run: unusable outputs and unused options are refused."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from aded.core.errors import AdedError
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
