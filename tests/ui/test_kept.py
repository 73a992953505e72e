"""Races that are kept for links: found again, bounded, and served."""

from __future__ import annotations

import json
import random
import string

import httpx
from serving_fakes import fake_service, serving

from ui.serving.kept import KeptRaces


def race(key: str, length: int = 10) -> str:
    """Lines of a race that cannot be compressed much."""
    filler = "".join(random.Random(key).choices(string.ascii_letters, k=length))
    return json.dumps({"id": key}) + "\n" + filler + "\n"


def test_a_kept_race_is_found_with_all_its_lines():
    races = KeptRaces()
    races.keep(race("a"))
    assert races.find("a") == race("a")
    assert races.find("b") is None
    races.keep(race("a", 20))
    assert races.find("a") == race("a", 20)
    assert len(races) == 1


def test_the_races_opened_longest_ago_are_forgotten_first():
    races = KeptRaces(maximum=2000)
    for key in ("a", "b"):
        races.keep(race(key, 1000))
    assert races.find("a")
    races.keep(race("c", 1000))
    assert [bool(races.find(key)) for key in "abc"] == [True, False, True]


def test_a_race_that_is_too_large_is_not_kept_and_forgets_the_others_only_once():
    races = KeptRaces(maximum=1000)
    races.keep(race("large", 10_000))
    assert races.find("large") is None
    races.keep(race("small", 100))
    assert races.find("small")


def test_a_kept_race_is_served_and_another_id_has_no_content():
    service = fake_service()
    service.races.keep(race("0123456789abcdef"))
    with serving(service) as address:
        found = httpx.get(f"{address}/races/0123456789abcdef")
        assert (found.status_code, found.text) == (200, race("0123456789abcdef"))
        assert found.headers["cache-control"] == "no-store"
        assert httpx.get(f"{address}/races/fedcba9876543210").status_code == 204
        assert httpx.get(f"{address}/races/x").status_code == 404
