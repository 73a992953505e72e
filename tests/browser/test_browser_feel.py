"""Responsiveness of the page: the time until a race is shown, and streaming without layout shifts.

``ADED_FEEL_OUT=bench/results/feel python -m pytest tests/browser/test_browser_feel.py`` saves the measurements of an
idle machine, with the required limits; without the variable the limits are half as strict.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import drawn, notice, part, sync_api, tick, watched_page
from serving_fakes import GatedEngine, fake_service, serving

pytest_plugins = ("browser_fixtures",)
pytestmark = pytest.mark.browser

OUT = os.environ.get("ADED_FEEL_OUT")
PAINT_SECONDS, UPDATES_PER_SECOND = 2.0, 10.0
SLACK = 1.0 if OUT else 2.0
LOADS = 3 if OUT else 1
STEP_SECONDS = 0.03

PAINTED = """(() => {
    const required = ['.ax-run-view .ax-tok', '.ax-tree .main-svg'];
    const answered = () => performance.getEntriesByType('navigation')[0].responseStart;
    const look = () => required.every(one => document.querySelector(one))
        ? window.painted = (performance.now() - answered()) / 1000
        : requestAnimationFrame(look);
    look();
})()"""

STREAMED = """() => {
    const parts = '.ax-plot, .ax-chart, .ax-run-view, .ax-text, .ax-card, .ax-strip, [data-part]';
    const seen = window.seen = { frames: [], shifts: [], marked: [...document.querySelectorAll(parts)] };
    let grown = false;
    const grows = new MutationObserver(() => { grown = true; });
    grows.observe(document.querySelector('.ax-runs'), { childList: true, subtree: true, characterData: true });
    const frame = () => {
        if (grown) seen.frames.push(performance.now());
        grown = false;
        requestAnimationFrame(frame);
    };
    frame();
    const element = node => node && (node.nodeType === Node.TEXT_NODE ? node.parentElement : node);
    const place = box => [box.x, box.y, box.width, box.height].map(Math.round).join(' ');
    // Bars change their size with every step, and the words of the verdict flow within their box.
    const jumped = ({ node, previousRect, currentRect }) =>
        !element(node)?.closest('.ax-strip, .ax-split, .ax-verdict') && place(previousRect) !== place(currentRect);
    const description = ({ node, previousRect, currentRect }) =>
        `${element(node)?.outerHTML.slice(0, 80)}: ${place(previousRect)} to ${place(currentRect)}`;
    new PerformanceObserver(list => {
        for (const { hadRecentInput, sources } of list.getEntries())
            if (!hadRecentInput) seen.shifts.push(...sources.filter(jumped).map(description));
    }).observe({ type: 'layout-shift' });
}"""

CARD_TOPS = """() => {
    const tops = window.tops = [...document.querySelectorAll('.ax-card, .ax-strip')].map(() => []);
    const look = () => {
        for (const [i, card] of document.querySelectorAll('.ax-card, .ax-strip').entries())
            if (card.offsetParent) tops[i].push(Math.round(card.getBoundingClientRect().top + scrollY));
        requestAnimationFrame(look);
    };
    look();
}"""

SEEN = "({ frames: seen.frames, shifts: seen.shifts, gone: seen.marked.filter(e => !e.isConnected).map(e => e.className) })"


@pytest.fixture(scope="module")
def figures() -> Iterator[dict[str, Any]]:
    found: dict[str, Any] = {
        "command": "python -m pytest tests/browser/test_browser_feel.py",
        "machine": f"{os.cpu_count()} cores, {platform.machine()}; the browser on the same machine",
        "load": [round(value, 2) for value in os.getloadavg()],
        "asked": {"paint_seconds": PAINT_SECONDS, "updates_a_second": UPDATES_PER_SECOND},
    }
    yield found
    if OUT:
        Path(OUT).mkdir(parents=True, exist_ok=True)
        (Path(OUT) / "results.json").write_text(json.dumps(found, indent=1) + "\n")


@pytest.mark.timing
def test_a_recorded_race_is_painted_soon_after_the_answer_of_the_server(
    browser: sync_api.Browser, address: str, figures: dict[str, Any]
):
    took = []
    for _ in range(LOADS):
        with browser.new_context(viewport={"width": 1440, "height": 900}) as context:
            page = context.new_page()
            page.add_init_script(PAINTED)
            page.goto(address)
            took.append(round(page.wait_for_function("() => window.painted").json_value(), 2))
    figures["paint_seconds"] = took
    assert min(took) < SLACK * PAINT_SECONDS


@pytest.mark.slow
def test_during_a_live_race_nothing_jumps_is_replaced_or_loses_its_zoom(browser: sync_api.Browser, figures: dict[str, Any]):
    seen = streamed(browser, sections=True)
    assert len(seen["frames"]) > 1
    figures["layout_shift"] = seen["shifts"]
    assert seen["gone"] == [] and seen["shifts"] == []


@pytest.mark.timing
def test_a_live_race_is_updated_ten_times_per_second(browser: sync_api.Browser, figures: dict[str, Any]):
    seen = streamed(browser, sections=False)  # as a visitor finds it
    frames = seen["frames"]
    rate = (len(frames) - 1) / (frames[-1] - frames[0]) * 1000
    figures["updates_a_second"] = round(rate, 1)
    assert rate > UPDATES_PER_SECOND / SLACK


def streamed(browser: sync_api.Browser, sections: bool) -> dict[str, Any]:
    """Measurements of a live race from its first tokens to its end (``SEEN``); with ``sections`` a chart must keep its zoom."""
    engine = GatedEngine()
    engine.pause, engine.free = STEP_SECONDS, 12
    with serving(fake_service(engine)) as address, watched_page(browser, f"{address}/", sections=sections) as page:
        tick(page, "plain", "aded", "rest", "suffix")
        page.locator("#ax-run").click()
        page.locator("[data-part='view-root'][data-running='true']").wait_for()
        page.wait_for_function("() => document.querySelectorAll('.ax-run-view .ax-tok').length > 6")
        if sections:
            part(page, "zoom-in").click()
            sync_api.expect(part(page, "zoom-out")).to_have_attribute("aria-disabled", "false")
            shown = page.locator(".ax-chart").evaluate("e => e.layout.xaxis.range")
        page.evaluate(STREAMED)
        engine.gate.set()
        sync_api.expect(notice(page)).to_contain_text("Done in")
        seen = page.evaluate(SEEN)
        if sections:
            assert page.locator(".ax-chart").evaluate("e => e.layout.xaxis.range") == shown
        return seen


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.slow
def test_no_card_moves_up_while_a_race_plays(browser: sync_api.Browser, address: str, width: int):
    with watched_page(browser, address, width, sections=True) as page:
        page.keyboard.press("Home")
        part(page, "speed").select_option("0.5")
        drawn(page)
        where = part(page, "where").inner_text()
        part(page, "play").click()
        for _ in range(2):  # the effects of pressing Play are on screen by the second step
            sync_api.expect(part(page, "where")).not_to_have_text(where)
            where = part(page, "where").inner_text()
        page.evaluate(CARD_TOPS)
        page.wait_for_function("() => document.querySelector('[data-part=play]').getAttribute('aria-label') === 'Play'")
        tops = page.evaluate("tops")
        moved_up = [max(max(seen[: i + 1]) - top for i, top in enumerate(seen)) if seen else 0 for seen in tops]
        assert max(moved_up) <= 1, moved_up  # pixels: heights of lines are fractions, and places are rounded
        page.keyboard.press("ArrowLeft")
        page.wait_for_function(
            "() => tops.some(seen => seen.at(-1) < Math.max(...seen))"
        )  # after a selected step cards may move up
