"""What a designer would see: nothing is cut, broken inside a word, or left over."""

from __future__ import annotations

from pathlib import Path

import pytest
from browsing import open_race, part, sync_api, watched_page
from ui_fakes import make_race

pytest_plugins = ("browser_fixtures",)
pytestmark = pytest.mark.browser

WIDTHS = (390, 1440, 2560)
BROKEN = """all => all.filter(e => {
    const range = document.createRange();
    for (const { segment, index, isWordLike } of new Intl.Segmenter("en", { granularity: "word" }).segment(e.textContent)) {
        if (!isWordLike || !(e.firstChild instanceof Text)) continue;
        range.setStart(e.firstChild, index);
        range.setEnd(e.firstChild, index + segment.length);
        if (new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1) return true;
    }
    return false;
}).map(e => e.textContent)"""
WIDER = "all => all.filter(e => e.clientWidth && e.scrollWidth > e.clientWidth + 1).map(e => e.textContent.trim().slice(0, 40))"


@pytest.mark.parametrize("width", WIDTHS)
def test_no_word_of_a_setting_is_broken_and_no_table_of_the_race_is_wider_than_its_box(
    browser: sync_api.Browser, address: str, width: int
):
    with watched_page(browser, address, width) as page:
        for group in page.locator("#ax-controls button.label-wrap").all():
            group.click()
        part(page, "race-every").locator("summary").click()
        part(page, "race-rows").locator("tr").first.wait_for()
        labels = page.locator("#ax-controls .ax-number-label")
        sync_api.expect(labels.last).to_be_visible()
        assert labels.count() > 8
        assert labels.evaluate_all(BROKEN) == []
        assert page.locator("[data-part='race-every'] th").evaluate_all(BROKEN) == []
        assert page.locator("[data-part='race-every'] .ax-wide").evaluate_all(WIDER if width > 390 else "all => []") == []
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_a_step_that_ends_a_line_leaves_nothing_on_the_empty_line_behind_it(page: sync_api.Page, tmp_path: Path):
    open_race(page, make_race(["one", "\n", "\n", "two"]), tmp_path)
    plain = page.locator(".ax-lane[data-method='plain']")
    for index in (1, 2):
        plain.locator(".ax-step").nth(index).click()
        step = plain.locator(".ax-step.ax-now")
        sync_api.expect(step).to_have_attribute("data-step", str(index))
        shown = step.evaluate("e => [...e.getClientRects()].map(box => box.width)")
        assert max(shown) > 4  # the mark of the line's end
        sides = step.evaluate(
            "e => [...getComputedStyle(e).boxShadow.matchAll(/(-?[\\d.]+)px (-?[\\d.]+)px ([\\d.]+)px (-?[\\d.]+)px/g)]"
            ".flatMap(([, right, , blur, spread]) => [right, blur, spread].map(Number))"
        )
        assert sides and not any(sides)  # what has no width casts no shadow beside it
