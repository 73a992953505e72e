"""Two hundred races in one tab: neither the tab nor the server grows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from app_process import running_app
from browsing import drawn, part, sync_api, tick, watched_page
from fakes import tiny_model
from serving_fakes import Live

pytest_plugins = ("browser_fixtures",)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not Path("/proc/self/statm").is_file(), reason="the memory of a process is read from /proc"),
]

ROUNDS, FIRST, GROWTH = 200, 50, 1.1
"""Rounds, and the limit of the memory after the last one, as a multiple of the memory after round ``FIRST``."""
FEW, EARLY, POOLS = 5, 2, 1.15
"""The same for a short test, in which a server still starts threads and their memory pools."""
RACES = ("A maths teacher", "A summary", "Counting")
SETTLED = 4  # garbage collections before a heap is measured


@pytest.fixture
def small_server(real_tokenizer_folder: Path) -> Iterator[tuple[str, int]]:
    """A server of a tiny random model: its address and process id."""
    tiny_model("llama").save_pretrained(real_tokenizer_folder)
    with running_app("--model", str(real_tokenizer_folder), "--device", "cpu") as found:
        yield found


def heap(page: sync_api.Page) -> float:
    """Bytes of the heap of the tab after garbage collection."""
    session = page.context.new_cdp_session(page)
    for _ in range(SETTLED):
        session.send("HeapProfiler.collectGarbage")
        drawn(page)
    used = session.send("Runtime.getHeapUsage")["usedSize"]
    session.detach()
    return used


def resident(pid: int) -> float:
    """Bytes of a process in memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def replay(page: sync_api.Page, title: str) -> None:
    """Open a recorded race and play its last part."""
    page.evaluate("link => { location.hash = link; }", f"race={quote(title)}&method=aded")
    sync_api.expect(part(page, "race-title")).to_have_text(title)
    page.keyboard.press("End")
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    part(page, "speed").select_option("5")
    clock = part(page, "clock").inner_text()
    part(page, "play").click()
    sync_api.expect(part(page, "clock")).not_to_have_text(clock)
    if part(page, "play").get_attribute("aria-label") == "Pause":
        part(page, "play").click()


def run(page: sync_api.Page) -> None:
    page.locator("#ax-run").click()
    sync_api.expect(part(page, "source")).to_have_text("live race")
    sync_api.expect(page.locator("#ax-run")).to_be_enabled()


Sizes = tuple[float, float]
"""Bytes of the heap of the tab and of the server."""


def measure(browser: sync_api.Browser, server: tuple[str, int], rounds: int, first: int) -> tuple[Sizes, Sizes]:
    """Sizes after round ``first`` and after the last one; a round is a live race and a recorded race."""
    address, pid = server
    with watched_page(browser, address, sections=True) as page:
        tick(page, "plain", "aded", "prompt-lookup")
        page.locator("#ax-prompt textarea").fill("w5 w17 w40 w8 w5 w17 w40")
        page.locator("#ax-max-new-tokens input[type=text]").fill("12")
        early = (0.0, 0.0)
        for count in range(1, rounds + 1):
            run(page)
            replay(page, RACES[count % len(RACES)])
            if count == first:
                early = heap(page), resident(pid)
        assert page.locator("[data-ax-plotly]").count() == 1
        return early, (heap(page), resident(pid))


def check(sizes: tuple[Sizes, Sizes], server_growth: float) -> None:
    (tab, server), (late_tab, late_server) = sizes
    assert late_tab < GROWTH * tab, f"the tab grew from {tab / 1e6:.1f} to {late_tab / 1e6:.1f} MB"
    assert late_server < server_growth * server, f"the server grew from {server / 1e6:.0f} to {late_server / 1e6:.0f} MB"


@pytest.mark.slow
def test_the_tab_hardly_grows_over_the_first_recorded_and_live_races(browser: sync_api.Browser, live: Live):
    """The server runs in the process of the test, whose memory is not checked."""
    live.engine.gate.set()
    (tab, _), (late_tab, _) = measure(browser, (live.address, os.getpid()), FEW, EARLY)
    check(((tab, 1.0), (late_tab, 1.0)), POOLS)


@pytest.mark.slow
def test_memory_hardly_grows_over_the_first_recorded_and_live_races(browser: sync_api.Browser, small_server: tuple[str, int]):
    check(measure(browser, small_server, FEW, EARLY), POOLS)


@pytest.mark.long
def test_memory_does_not_grow_over_two_hundred_recorded_and_live_races(browser: sync_api.Browser, small_server: tuple[str, int]):
    check(measure(browser, small_server, ROUNDS, FIRST), GROWTH)
