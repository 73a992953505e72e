"""The calculator and the table of results on the static site from disk: links, keyboard, filters, sorting, a saved table."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from browsing import part, sync_api
from site_fixtures import open_site
from test_browser_access import axe, violations  # noqa: F401  (a fixture)

pytest_plugins = ("browser_fixtures", "site_fixtures")
pytestmark = pytest.mark.browser


@pytest.fixture
def page(site_page: sync_api.Page) -> sync_api.Page:
    return site_page


def test_the_calculator_opens_by_link_and_keeps_wrong_input(page: sync_api.Page, folder: Path):
    open_site(page, folder, "tool=calculator&alpha=0.5&gamma=3&c=0.25")
    sentence = part(page, "tool-sentence")
    sync_api.expect(sentence).to_contain_text("a step gives 1.88 tokens")
    sync_api.expect(sentence).to_contain_text("1.07×")
    page.locator("[data-part='tool-gamma-range']").focus()
    page.keyboard.press("ArrowLeft")
    sync_api.expect(part(page, "tool-gamma")).to_have_value("2")
    sync_api.expect(page).to_have_url(re.compile("gamma=2"))
    part(page, "tool-alpha").fill("7")
    sync_api.expect(page.locator("#ax-tool-alpha-error")).to_contain_text("Give a number from 0 to 1")
    sync_api.expect(sentence).to_contain_text("α = 0.50 and γ = 2")
    part(page, "tool-calculator").get_by_role("button", name="Medusa").click()
    sync_api.expect(sentence).to_contain_text("α = 0.61 and γ = 3")
    sync_api.expect(part(page, "tool-measured").locator("tbody tr")).to_have_count(2)
    sync_api.expect(part(page, "tool-ratio-chart").locator(".main-svg").first).to_be_visible()
    page.keyboard.press("Escape")
    sync_api.expect(page).not_to_have_url(re.compile("tool="))
    page.go_back()
    sync_api.expect(part(page, "tool-calculator")).to_be_visible()


@pytest.mark.slow
def test_the_results_are_filtered_sorted_and_saved(page: sync_api.Page, folder: Path, tmp_path: Path):
    open_site(page, folder, "tool=oracle")
    sync_api.expect(part(page, "note-text")).to_contain_text("There is no tool “oracle”")
    part(page, "lessons").click()
    page.locator("[data-tool-entry='results']").click()
    table, count = part(page, "tool-table"), part(page, "tool-count")
    sync_api.expect(count).to_contain_text(" rows")
    page.locator("[data-name='set']").select_option("gpu-methods-sampled")
    page.locator("[data-name='category']").select_option("math")
    sync_api.expect(table.locator("tbody tr")).to_have_count(7)
    table.locator("[data-by='speedup']").click()
    sync_api.expect(table.locator("th[aria-sort='descending']")).to_have_text("speed-up↓")
    sync_api.expect(table.locator("tbody th").first).to_have_text("ADED")
    with page.expect_download() as download:
        part(page, "tool-csv").click()
    download.value.save_as(tmp_path / "results.csv")
    with (tmp_path / "results.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["set"], row["category"]) for row in rows] == [("gpu-methods-sampled", "math")] * 7
    speeds = [float(row["speedup"]) for row in rows]
    assert speeds == sorted(speeds, reverse=True)
    sync_api.expect(page).to_have_url(re.compile("rows="))
    page.reload()
    sync_api.expect(table.locator("tbody tr")).to_have_count(7)


def test_the_results_fit_a_screen_and_on_a_phone_the_methods_stay_beside_what_is_scrolled(page: sync_api.Page, folder: Path):
    open_site(page, folder, "tool=results")
    table, box = part(page, "tool-table"), page.locator(".ax-tool-scroll")
    sync_api.expect(table.locator("tbody tr").nth(1)).to_be_visible()
    fits = "e => e.scrollWidth <= e.clientWidth"
    assert box.evaluate(fits)
    assert table.locator("thead").evaluate("e => e.offsetHeight < 50"), "more than two lines"
    page.locator("[data-name='category']").select_option(index=0)
    assert box.evaluate(fits)
    page.set_viewport_size({"width": 390, "height": 844})
    assert not box.evaluate(fits)
    assert box.evaluate("e => e.clientHeight") > 300
    first, second = table.locator("tbody tr").first.locator("th, td").nth(0), table.locator("tbody tr").first.locator("td").nth(3)
    before = first.bounding_box(), second.bounding_box()
    box.evaluate("e => { e.scrollLeft = 80; }")
    assert first.bounding_box() == before[0]
    assert second.bounding_box() != before[1]
    assert "none" not in first.evaluate("e => getComputedStyle(e).boxShadow"), "no edge beside the methods"


@pytest.mark.slow
@pytest.mark.parametrize("view", ["tool=calculator&alpha=9", "tool=results"])
@pytest.mark.parametrize("look", ["theme=light&lang=en", "theme=dark&lang=zh"])
def test_no_tool_has_a_serious_violation(page: sync_api.Page, folder: Path, axe: str, view: str, look: str):  # noqa: F811
    open_site(page, folder, f"{view}&{look}")
    name = view.partition("&")[0].replace("=", "-")
    page.locator(f"[data-part='{name}'] table tbody tr").first.wait_for()
    assert violations(page, axe) == []


def test_a_tool_that_was_closed_before_its_file_arrived_is_not_in_the_address(page: sync_api.Page, folder: Path):
    open_site(page, folder, "")
    page.evaluate(
        """() => {
          const text = Response.prototype.text;
          const late = new Promise((resolve) => (window.arrive = resolve));
          Response.prototype.text = async function () {
            await late;
            return text.call(this).finally(() => (window.arrived = true));
          };
        }"""
    )
    page.locator("[data-tool='results']").evaluate("e => e.click()")
    sync_api.expect(part(page, "tool-results")).to_be_visible()
    page.keyboard.press("Escape")
    sync_api.expect(part(page, "more").locator("summary")).to_be_focused()
    page.evaluate("() => window.arrive()")
    page.wait_for_function("() => window.arrived")
    page.keyboard.press("Home")
    sync_api.expect(page).to_have_url(re.compile("step=1&"))
    assert "tool=" not in page.url
