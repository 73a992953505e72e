"""What the page saves: every file is opened again, the page of its own with the network off."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from browsing import HOSTILE, open_race, part, saved, sync_api, text_of
from ui_fakes import make_race

from aded import trace

pytest_plugins = ("browser_fixtures",)
pytestmark = pytest.mark.browser

TOKENS = HOSTILE * 4


@pytest.fixture
def hostile(page: sync_api.Page, tmp_path: Path) -> sync_api.Page:
    """The page with a race whose tokens, prompt and labels try to be more than text."""
    race = make_race(TOKENS)
    lanes = [replace(t, header=replace(t.header, prompt=HOSTILE[0], label=t.header.label + " <i>${1}</i>")) for t in race.lanes]
    open_race(page, trace.Race(lanes), tmp_path)
    return page


def alone(browser: sync_api.Browser, path: Path) -> tuple[sync_api.BrowserContext, sync_api.Page, list[str]]:
    """The file in a profile of its own, with the network off, and what went wrong in it."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, offline=True, accept_downloads=True)
    page, wrong = context.new_page(), []
    page.on("console", lambda m: wrong.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda e: wrong.append(str(e)))
    page.on("request", lambda r: None if r.url.startswith(("file:", "data:", "blob:")) else wrong.append(r.url))
    page.goto(path.as_uri())
    page.wait_for_selector(".ax-plot .main-svg", timeout=30_000)
    return context, page, wrong


def test_a_page_of_its_own_plays_the_race_without_server_and_network(
    hostile: sync_api.Page, browser: sync_api.Browser, tmp_path: Path
):
    file = saved(hostile, "race.html", tmp_path)
    steps = part(hostile, "where").inner_text()
    context, page, wrong = alone(browser, file)
    for method in ("plain", "aded"):
        assert text_of(page, method) == "".join(TOKENS)
    assert part(page, "where").inner_text() == steps
    assert part(page, "prompt").inner_text() == HOSTILE[0]
    for name in ("paying-sentence", "paying-source", "sizes-sentence"):
        sync_api.expect(part(page, name)).to_have_text(part(hostile, name).inner_text())
    assert page.locator("#ax-experiment .main-svg").count() >= 3
    page.keyboard.press("Home")
    sync_api.expect(part(page, "where")).to_contain_text("step 1 of")
    part(page, "play").click()
    page.wait_for_function("() => !document.querySelector('[data-part=where]').textContent.startsWith('step 1 ')")
    part(page, "language").select_option("zh")
    sync_api.expect(part(page, "where")).to_contain_text("第")
    part(page, "theme").click()
    assert page.evaluate("window.PWN") is None
    assert page.locator("img, i:not(.ax i)").count() == 0
    assert wrong == []
    again = saved(page, "race.html", tmp_path)
    context.close()
    context, page, wrong = alone(browser, again)
    assert text_of(page, "aded") == "".join(TOKENS)
    assert wrong == []
    context.close()


@pytest.mark.parametrize("name", ["tree", "race", "agreement", "pairs", "sizes", "cost", "tokens", "speed"])
def test_pictures_are_saved_as_drawing_and_as_pixels(hostile: sync_api.Page, tmp_path: Path, name: str):
    drawing = ElementTree.fromstring(saved(hostile, f"{name}.svg", tmp_path).read_text("utf-8"))
    assert drawing.tag.endswith("svg")
    tags = {element.tag.split("}")[-1] for element in drawing.iter()}
    assert not tags & {"script", "foreignObject", "img", "image", "b", "i"}
    pixels = saved(hostile, f"{name}.png", tmp_path).read_bytes()
    assert pixels.startswith(b"\x89PNG")
    assert int.from_bytes(pixels[16:20], "big") > 200


def test_tables_hold_the_record(hostile: sync_api.Page, tmp_path: Path):
    read = {}
    for name in ("lanes", "steps", "nodes"):
        with saved(hostile, f"{name}.csv", tmp_path).open(encoding="utf-8", newline="") as file:
            read[name] = list(csv.DictReader(file))
    race = make_race(TOKENS)
    assert [int(row["tokens"]) for row in read["lanes"]] == [len(TOKENS)] * 2
    assert len(read["steps"]) == sum(len(lane.steps) for lane in race.lanes)
    written = "".join(row["text"] for row in read["steps"] if row["method"] == "plain")
    assert written == "".join(TOKENS)
    assert len(read["nodes"]) > 1
