"""The first screen: what a visitor sees and can do without scrolling."""

from __future__ import annotations

import pytest
from browsing import CHARTED, open_file, part, show_tab, sync_api, watched_page

from aded.core.paths import ASSETS

pytest_plugins = ("browser_fixtures",)
pytestmark = pytest.mark.browser

NODES = 12
"""Nodes of the tree that must be on the first screen."""
INSIDE = """(element, bottom) => {
    const box = element.getBoundingClientRect();
    return box.width > 0 && box.left >= 0 && box.right <= innerWidth && box.top >= 0 && box.bottom <= (bottom ?? innerHeight);
}"""
"""Whether an element is on the screen, above ``bottom``."""


def inside(place: sync_api.Locator, bottom: float | None = None) -> bool:
    return bool(place.evaluate(INSIDE, bottom))


def nodes_on_screen(page: sync_api.Page) -> int:
    """Nodes of the tree, or entries of the list in its place, above the strip."""
    bottom = (part(page, "strip").bounding_box() or {"y": 0})["y"]
    points = page.locator(".ax-plot .points path").all()
    return sum(inside(point, bottom) for point in points)


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (1440, 900), (390, 844)])
def test_the_first_screen_has_run_the_runs_the_tree_and_the_player(
    browser: sync_api.Browser, address: str, width: int, height: int
):
    with watched_page(browser, address, unfolded=False) as page:
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_function(CHARTED)
        assert inside(page.locator("#ax-run"))
        heads = page.locator(".ax-run-view .ax-run-head")
        assert heads.count() == 3
        assert all(inside(head) for head in heads.all())
        page.wait_for_function("least => document.querySelectorAll('.ax-plot .points path').length >= least", arg=NODES)
        assert nodes_on_screen(page) >= NODES
        assert inside(part(page, "play"))
        before = part(page, "where").inner_text()
        part(page, "previous").click()
        sync_api.expect(part(page, "where")).not_to_have_text(before)
        assert page.evaluate("scrollY") == 0
        for tab in ("pass", "verify", "learn"):
            show_tab(page, tab)
            assert page.evaluate("scrollY") == 0
            assert inside(page.locator(f"[role='tab'][data-tab='{tab}']"))


@pytest.mark.parametrize("width", [1280, 390])
def test_the_controls_are_those_of_the_race_on_screen(browser: sync_api.Browser, address: str, width: int):
    with watched_page(browser, address, unfolded=False) as page:
        page.set_viewport_size({"width": width, "height": 844})
        sync_api.expect(part(page, "race-title")).to_have_text("A maths teacher")
        check_controls(page)
        for title in ("A maths teacher", "Speculative sampling", "On two CPU cores"):
            page.locator(f".ax-chips [data-race='{title}']").click()
            sync_api.expect(part(page, "race-title")).to_have_text(title)
            check_controls(page)


def check_controls(page: sync_api.Page) -> None:
    prompt = str(part(page, "prompt").text_content())
    sync_api.expect(page.locator("#ax-prompt textarea")).to_have_value(prompt)
    methods = page.locator(".ax-run-view").evaluate_all("all => all.map(e => e.dataset.method)")
    ticked = "all => all.filter(e => e.checked).map(e => e.value)"
    page.wait_for_function(
        "methods => JSON.stringify([...document.querySelectorAll('.ax-picker [data-part=list] input')]"
        ".filter(e => e.checked).map(e => e.value).sort()) === JSON.stringify([...methods].sort())",
        arg=methods,
    )
    assert sorted(page.locator(".ax-picker [data-part='list'] input").evaluate_all(ticked)) == sorted(methods)
    tokens = page.locator("#ax-max-new-tokens input[type=text]").input_value()
    assert f"{tokens} tokens" in str(part(page, "line-settings").text_content())


def test_a_race_from_a_file_fills_the_controls(browser: sync_api.Browser, address: str):
    with watched_page(browser, address) as page:
        sync_api.expect(part(page, "race-title")).to_have_text("A maths teacher")
        file = next((ASSETS / "traces").glob("*speculative-sampling.json"))
        open_file(page, file)
        sync_api.expect(part(page, "race-title")).to_have_text(file.name)
        check_controls(page)
        page.wait_for_function("location.hash.includes('file=')")
        assert "prompt=" not in page.url
