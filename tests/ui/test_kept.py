"""Races that are kept for links: found again, bounded, and served."""

from __future__ import annotations

import json
import os
import random
import stat
import string
import zlib
from pathlib import Path

import pytest
from serving_fakes import fake_service, serving
from waiting import http

from ui.serving.kept import KeptRaces


def race(key: str, length: int = 10) -> str:
    """Lines of a race that cannot be compressed much."""
    filler = "".join(random.Random(key).choices(string.ascii_letters, k=length))
    return json.dumps({"id": key}) + "\n" + filler + "\n"


def test_a_kept_race_is_found_with_all_its_lines():
    races = KeptRaces()
    races.keep(race("a"))
    assert races.find("a") == (race("a"), "memory")
    assert races.find("b") is None
    races.keep(race("a", 20))
    assert races.find("a") == (race("a", 20), "memory")
    assert len(races) == 1


def test_the_races_opened_longest_ago_are_forgotten_first():
    races = KeptRaces(maximum=2000)
    for key in ("a", "b"):
        races.keep(race(key, 1000))
    assert races.find("a")
    races.keep(race("c", 1000))
    assert [bool(races.find(key)) for key in "abc"] == [True, False, True]


def test_a_race_that_is_too_large_is_not_kept_and_the_others_stay():
    races = KeptRaces(maximum=1000)
    races.keep(race("small", 100))
    races.keep(race("large", 10_000))
    assert races.find("large") is None
    assert races.find("small")


KEYS = [f"{digit}{'0' * 15}" for digit in "1234"]


def test_races_in_a_folder_outlive_the_server_and_are_private(tmp_path: Path):
    folder = tmp_path / "races"
    KeptRaces(folder=folder).keep(race(KEYS[0]))
    restarted = KeptRaces(folder=folder)
    assert restarted.find(KEYS[0]) == (race(KEYS[0]), "disk")
    assert len(restarted) == 1
    assert [path.name for path in folder.iterdir()] == [KEYS[0]]
    assert {stat.S_IMODE(path.stat().st_mode) & 0o077 for path in (folder, folder / KEYS[0])} == {0}
    for key in ("../races", "x", KEYS[1]):
        assert restarted.find(key) is None


def test_the_files_opened_longest_ago_are_deleted_first(tmp_path: Path):
    races = KeptRaces(maximum=2000, folder=tmp_path)
    for at, key in enumerate(KEYS[:2]):
        races.keep(race(key, 1000))
        os.utime(tmp_path / key, (at, at))
    assert races.find(KEYS[0])
    races.keep(race(KEYS[2], 1000))
    assert [bool(races.find(key)) for key in KEYS] == [True, False, True, False]
    races.keep(race(KEYS[3], 10_000))  # too large
    assert races.find(KEYS[2])
    empty = KeptRaces(maximum=0, folder=tmp_path / "none")
    empty.keep(race(KEYS[0]))
    assert (empty.find(KEYS[0]), len(empty)) == (None, 0)


@pytest.mark.parametrize(
    "damage", [b"", b"no race", zlib.compress(b"no line"), zlib.compress(b'{"id": "another"}\n'), zlib.compress(b"\xff\n")]
)
def test_damaged_files_are_ignored(tmp_path: Path, damage: bytes):
    races = KeptRaces(folder=tmp_path)
    (tmp_path / KEYS[0]).write_bytes(damage)
    assert races.find(KEYS[0]) is None
    races.keep(race(KEYS[0]))
    assert races.find(KEYS[0]) == (race(KEYS[0]), "disk")


def test_a_race_that_cannot_be_written_is_kept_in_memory(tmp_path: Path):
    place = tmp_path / "a file"
    place.write_text("in the way")
    races = KeptRaces(folder=place / "races")
    races.keep(race(KEYS[0]))
    assert races.find(KEYS[0]) == (race(KEYS[0]), "memory")
    assert len(races) == 1


def test_a_kept_race_is_served_and_another_id_has_no_content():
    service = fake_service()
    service.races.keep(race("0123456789abcdef"))
    with serving(service) as address:
        found = http.get(f"{address}/races/0123456789abcdef")
        assert (found.status_code, found.text) == (200, race("0123456789abcdef"))
        assert (found.headers["cache-control"], found.headers["x-aded-kept"]) == ("no-store", "memory")
        named = http.head(f"{address}/races/0123456789abcdef")
        assert (named.status_code, named.headers["x-aded-kept"], named.text) == (200, "memory", "")
        assert http.get(f"{address}/races/fedcba9876543210").status_code == 204
        assert http.get(f"{address}/races/x").status_code == 404
