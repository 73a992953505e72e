"""What a first visit loads, in which order, and what is said about files that are missing.

``ADED_FEEL_OUT=bench/results/feel python -m pytest tests/browser/test_browser_weight.py`` saves the sizes.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from browsing import at_rest, choose_race, notice, part, sync_api, text_of, watched_page

pytest_plugins = ("browser_fixtures",)
pytestmark = pytest.mark.browser

OUT = os.environ.get("ADED_FEEL_OUT")
TOTAL_BYTES, PAGE_BYTES = 900_000, 60_000
"""Maximum compressed size of a first visit and of the page itself, with the headers of the answers."""
GROUPS = {
    "page": r"/$",
    "script": r"/app\.js$",
    "styles": r"/app\.css$",
    "languages": r"/(en|zh)\.json$",
    "chart library": r"/plotly\.js$",
    "recorded races": r"\.jsonl$",
    "gradio": r"",
}
"""Files by their addresses; the first pattern that fits counts."""


@contextmanager
def unwatched(browser: sync_api.Browser) -> Iterator[sync_api.Page]:
    """A page in which requests may fail."""
    with browser.new_context(viewport={"width": 1440, "height": 900}) as context:
        yield context.new_page()


def loaded(page: sync_api.Page) -> list[str]:
    """Names of the page's own files that were loaded, in their order."""
    addresses = page.evaluate("performance.getEntriesByType('resource').map(one => one.name)")
    return [address.rsplit("/", 1)[1] for address in addresses if "/files/" in address]


def test_a_first_visit_is_small(browser: sync_api.Browser, address: str):
    sizes: dict[str, int] = dict.fromkeys(GROUPS, 0)
    addresses: dict[str, str] = {}

    def count(finished: dict[str, Any]) -> None:
        group = next(name for name, pattern in GROUPS.items() if re.search(pattern, addresses[finished["requestId"]]))
        sizes[group] += int(finished["encodedDataLength"])

    with unwatched(browser) as page:
        session = page.context.new_cdp_session(page)
        session.send("Network.enable")
        session.on("Network.responseReceived", lambda one: addresses.update({one["requestId"]: one["response"]["url"]}))
        session.on("Network.loadingFinished", count)
        page.goto(address)
        page.wait_for_selector(".ax-plot .main-svg")
    total = sum(sizes.values())
    if OUT:
        command = "python -m pytest tests/browser/test_browser_weight.py"
        asked = {"total": TOTAL_BYTES, "page": PAGE_BYTES}
        found = {"command": command, "unit": "bytes, compressed, with headers", "asked": asked, "total": total, **sizes}
        Path(OUT).mkdir(parents=True, exist_ok=True)
        (Path(OUT) / "weight.json").write_text(json.dumps(found, indent=1) + "\n")
    assert all(sizes.values())
    assert sizes["page"] < PAGE_BYTES
    assert total < TOTAL_BYTES, sizes


@pytest.mark.slow
def test_other_languages_and_races_are_loaded_when_they_are_chosen(browser: sync_api.Browser, address: str):
    with watched_page(browser, address, controls=False) as page:
        page.wait_for_selector(".ax-plot .main-svg")
        first = ["app.js", "app.css", "en.json", "01-a-maths-teacher.jsonl", "plotly.js"]
        assert sorted(loaded(page)) == sorted(first)
        assert loaded(page)[2:] == first[2:], "text comes before charts"
        part(page, "language").select_option("zh")
        sync_api.expect(part(page, "tour")).to_have_text("导览")
        choose_race(page, "Counting")
        sync_api.expect(part(page, "race-title")).to_have_text("数数")
        part(page, "language").select_option("en")
        sync_api.expect(part(page, "race-title")).to_have_text("Counting")
        at_rest(page)
        assert loaded(page)[5:] == ["zh.json", "02-counting.jsonl"]
        part(page, "measure").evaluate("e => { e.open = true; }")
        part(page, "histogram-counts").wait_for()
        assert loaded(page)[7:] == ["lessons.js"]
    with watched_page(browser, address, query="#race=A+summary&lang=zh") as page:
        at_rest(page)
        assert [name for name in loaded(page) if "json" in name] == ["zh.json", "05-a-summary.jsonl"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("held", "until"),
    [("**/app.js", "/assets/index-"), ("**/app.css", "/assets/index-"), ("**/en.json", "/gradio_api/run/predict")],
)
def test_panels_are_drawn_after_script_styles_and_language_also_if_these_are_late(
    browser: sync_api.Browser, address: str, held: str, until: str
):
    """The file is held back until Gradio has loaded its own."""
    waiting: list[sync_api.Route] = []
    seen: list[str] = []

    def hold(route: sync_api.Route) -> None:
        waiting.append(route)
        release()

    def note(answer: sync_api.Response) -> None:
        if until in answer.url:
            seen.append(answer.url)
            release()

    def release() -> None:
        while seen and waiting:
            waiting.pop().continue_()

    watched = watched_page(browser, address)
    watched.page.route(held, hold)
    watched.page.on("response", note)
    with watched as page:
        assert text_of(page, "plain")
        sync_api.expect(part(page, "tour")).to_have_text("Tour")
        at_rest(page)
        page.unroute(held)
        page.remove_listener("response", note)
    assert seen and not waiting


def test_a_missing_race_is_reported_and_the_others_can_be_opened(browser: sync_api.Browser, address: str):
    with unwatched(browser) as page:
        page.route("**/01-*.jsonl", lambda route: route.fulfill(status=404))
        page.goto(address)
        note = part(page, "note-text")
        sync_api.expect(note).to_contain_text("“A maths teacher” was not loaded")
        sync_api.expect(note).to_contain_text("01-a-maths-teacher.jsonl is missing")
        choose_race(page, "Counting")
        sync_api.expect(part(page, "race-title")).to_have_text("Counting")
        sync_api.expect(part(page, "note")).to_be_hidden()
        page.wait_for_selector(".ax-plot .main-svg")


def test_a_language_that_cannot_be_loaded_leaves_the_page_as_it_is(browser: sync_api.Browser, address: str):
    with unwatched(browser) as page:
        page.goto(address)
        page.wait_for_selector(".ax-plot .main-svg")
        page.route("**/zh.json", lambda route: route.abort())
        part(page, "language").select_option("zh")
        sync_api.expect(part(page, "note-text")).to_contain_text("the language was not changed")
        assert part(page, "language").input_value() == "en"
        page.unroute("**/zh.json")
        part(page, "language").select_option("zh")
        sync_api.expect(part(page, "tour")).to_have_text("导览")
        sync_api.expect(part(page, "note")).to_be_hidden()


def test_a_page_that_cannot_be_saved_completely_is_not_saved(browser: sync_api.Browser, address: str):
    with unwatched(browser) as page:
        page.goto(address)
        page.wait_for_selector(".ax-plot .main-svg")
        page.route("**/app.js", lambda route: route.abort())
        part(page, "save-menu").locator("summary").first.click()
        page.locator("[data-save='race.html']").click()
        sync_api.expect(part(page, "note-text")).to_contain_text("“race.html” was not saved")
        sync_api.expect(page.locator("[data-save='race.json']")).to_be_enabled()


@pytest.mark.slow
def test_a_live_race_is_not_replaced_by_a_recorded_one_that_arrives_later(browser: sync_api.Browser, live: Any):
    waiting: list[sync_api.Route] = []
    watched = watched_page(browser, live.address)
    with watched as page:
        page.route("**/02-*.jsonl", lambda route: waiting.append(route))
        with page.expect_request("**/02-*.jsonl"):
            choose_race(page, "Counting")
        page.locator("#ax-run").click()
        sync_api.expect(part(page, "source")).to_have_text("live race")
        waiting.pop().continue_()
        live.engine.gate.set()
        sync_api.expect(page.locator("#ax-run")).to_be_enabled()
        sync_api.expect(part(page, "source")).to_have_text("live race")
        page.unroute("**/02-*.jsonl")
        sync_api.expect(notice(page)).to_contain_text("Done in")
        choose_race(page, "A maths teacher")
        sync_api.expect(part(page, "source")).to_have_text("recorded")
        sync_api.expect(notice(page)).to_have_text("")
