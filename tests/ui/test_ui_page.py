"""Effects of updates on the page's widgets."""

from __future__ import annotations

from dataclasses import asdict
from weakref import ref

import pytest

from aded.core import trace
from ui.browser.files import title_of
from ui.page import opened_settings, recorded_settings, to_page
from ui.race.form import SWITCHED
from ui.race.run import Update
from ui.theme import ASSETS


@pytest.mark.parametrize("running", [True, False])
def test_a_race_can_be_started_unless_one_runs(running: bool):
    _, _, start, ablate, stop, _ = to_page(Update(view="race", running=running))
    assert [part["interactive"] for part in (start, ablate, stop)] == [not running, not running, running]


def test_a_race_from_a_file_has_the_settings_of_its_headers():
    recorded = sorted((ASSETS / "traces").glob("*.json"))
    for file in recorded:
        headers = [asdict(run.header) for run in trace.load(file).lanes]
        assert opened_settings(headers) == recorded_settings(title_of(file))


def test_titles_of_no_race_are_not_remembered():
    class Title(str):
        __slots__ = ("__weakref__",)

    title = Title("no such race")
    assert recorded_settings(title) is None
    gone = ref(title)
    del title
    assert gone() is None


@pytest.mark.parametrize("headers", [None, [], "headers", [{}], [{"method": "aded"}], [None], {"0": 1}])
def test_headers_of_no_race_fill_nothing(headers: object):
    assert opened_settings(headers) is None


@pytest.mark.parametrize("own", [{}, {"feedback": 3}, {"preset": ["paper"], "max_nodes": {}}, {"search": "x" * 10_000}])
def test_unknown_settings_in_a_file_are_no_error(own: dict[str, object]):
    header = asdict(trace.load(sorted((ASSETS / "traces").glob("*.json"))[0]).lanes[0].header)
    assert opened_settings([header | {"method": "aded", "method_settings": own}]) is not None


@pytest.mark.parametrize("name", SWITCHED)
@pytest.mark.parametrize("preset", ["tuned", "paper"])
def test_a_recorded_switch_is_a_setting_unless_it_is_the_value_of_the_preset(name: str, preset: str):
    header = asdict(trace.load(sorted((ASSETS / "traces").glob("*.json"))[0]).lanes[0].header) | {"method": "aded"}

    def setting(**recorded: object) -> str | None:
        return (opened_settings([header | {"method_settings": {"preset": preset} | recorded}]) or {}).get(name)

    other = {"tuned": False, "paper": True}[preset]
    assert setting() is None
    assert setting(**{name: not other}) is None
    assert setting(**{name: other}) == ("on" if other else "off")
