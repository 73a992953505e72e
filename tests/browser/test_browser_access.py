"""Accessibility: keyboard only, every width, reduced motion, and the rules that axe-core checks."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from browsing import at_rest, drawn, open_race, part, sync_api, watched_page
from ui_fakes import make_race
from waiting import HANG

pytest_plugins = ("browser_fixtures",)
pytestmark = pytest.mark.browser
SECTIONS = True

AXE = "axe-core@4.10.3"
SERIOUS = ("serious", "critical")
PANELS = ".ax"
"""The panels of the project; the widgets of Gradio are not checked."""


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of axe-core, fetched by npm."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("axe")
    try:
        subprocess.run([npm, "pack", "--silent", AXE], cwd=folder, check=True, capture_output=True, timeout=HANG)
    except (subprocess.SubprocessError, OSError):
        pytest.skip("npm cannot fetch axe-core here")
    with tarfile.open(next(folder.glob("*.tgz"))) as archive:
        script = archive.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()


def violations(page: sync_api.Page, axe: str) -> list[tuple[Any, ...]]:
    """Serious violations on the page: rule, element, reason."""
    page.evaluate(axe)
    found = page.evaluate("panels => axe.run(panels, {resultTypes: ['violations']})", PANELS)
    serious = [one for one in found["violations"] if one["impact"] in SERIOUS]
    return [(one["id"], node["target"], node["failureSummary"]) for one in serious for node in one["nodes"][:3]]


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_no_panel_has_a_serious_violation(browser: sync_api.Browser, address: str, axe: str, theme: str, tmp_path: Path):
    with watched_page(browser, address, query=f"?__theme={theme}", sections=True) as page:
        open_race(page, make_race(), tmp_path)
        for box in page.locator("details.ax-every, [data-part='agreement-every']").all():
            box.evaluate("e => { e.open = true; }")
        assert violations(page, axe) == []


@pytest.mark.parametrize("opener", ["tour", "learn", "keys", "prediction-toggle"])
@pytest.mark.slow
def test_no_dialog_has_a_serious_violation(page: sync_api.Page, axe: str, opener: str):
    part(page, opener).locator("xpath=self::button").click()
    drawn(page)
    assert violations(page, axe) == []


def test_the_shortcuts_are_shown_by_a_key_and_closed_by_another(page: sync_api.Page):
    sheet = page.locator("dialog[data-part='keys']")
    page.keyboard.press("?")
    sync_api.expect(sheet).to_be_visible()
    assert sheet.locator("kbd").count() >= 9
    sync_api.expect(sheet).to_contain_text("while presenting: end it")
    where = part(page, "where").inner_text()
    page.keyboard.press("Home")
    assert part(page, "where").inner_text() == where
    page.keyboard.press("Escape")
    sync_api.expect(sheet).to_be_hidden()


@pytest.mark.slow
def test_every_control_is_reached_by_tab_and_shows_its_focus(page: sync_api.Page, tmp_path: Path):
    open_race(page, make_race(), tmp_path)
    at_rest(page)
    wanted = "button, a[href], input, select, summary, [tabindex='0']"
    shown = f"""() => [...document.querySelectorAll('.ax')].flatMap(p => [...p.querySelectorAll("{wanted}")])
        .filter(e => e.checkVisibility({{visibilityProperty: true}}) && !e.disabled && e.tabIndex >= 0).length"""
    count = page.evaluate(shown)
    page.evaluate("() => { document.activeElement.blur(); window.seen = new Set(); window.bare = []; }")
    step = """() => {
        const at = document.activeElement, style = getComputedStyle(at);
        if (!at.closest('.ax')) return;
        window.seen.add(at);
        if (style.outlineStyle === 'none' || parseFloat(style.outlineWidth) < 2) window.bare.push(at.outerHTML.slice(0, 120));
    }"""
    for _ in range(count + 60):
        page.keyboard.press("Tab")
        page.evaluate(step)
    assert page.evaluate("window.bare") == []
    assert page.evaluate("window.seen.size") >= count


def test_every_chart_has_a_table_and_the_step_is_announced(page: sync_api.Page):
    page.locator("[data-part='race-every'] summary").click()
    sync_api.expect(part(page, "race-rows").locator("tr")).to_have_count(page.locator(".ax-run-view").count())
    page.locator("[data-part='throughput-every'] summary").click()
    assert part(page, "throughput-rows").locator("tr").count() > 8
    labels = page.locator("[role='img']").evaluate_all("all => all.map(e => e.getAttribute('aria-label'))")
    assert len(labels) >= 5
    assert all(labels)
    page.keyboard.press("Home")
    sync_api.expect(part(page, "live")).to_contain_text("Step 1:")


@pytest.mark.parametrize("first", [390, 2560])
@pytest.mark.slow
def test_no_width_cuts_the_page(browser: sync_api.Browser, address: str, first: int):
    wide = "all => all.filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.className)"
    with watched_page(browser, address, width=first, sections=True) as page:
        for width in (first, 640, 861, 1180, 1920):
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=width)
            drawn(page)
            assert page.locator(".ax-card").evaluate_all(wide) == []


def test_nothing_moves_by_itself_with_reduced_motion(browser: sync_api.Browser, address: str):
    watched = watched_page(browser, address, sections=True)
    watched.page.emulate_media(reduced_motion="reduce")
    with watched as page:
        moving = "() => document.getAnimations().filter(a => a.playState === 'running').length"
        assert page.evaluate(moving) == 0
        page.keyboard.press("Home")
        page.keyboard.press("ArrowRight")
        sync_api.expect(part(page, "where")).to_contain_text("step 2 of")
        assert page.evaluate(moving) == 0
