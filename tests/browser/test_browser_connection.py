"""Connections that are cut: a race continues, or the page says that it has ended, and the next one runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from app_process import free_port, wait_for
from browsing import notice, part, sync_api, text_of
from conftest import ROOT, TESTS
from proxy_fixtures import BELOW, Faults, proxy
from serving_fakes import GatedEngine, fake_service, serving
from waiting import HANG, until

pytest_plugins = ("browser_fixtures",)
pytestmark = pytest.mark.browser
PRESENCE, MESSAGES = "/connection/", "/gradio_api/queue/data"
SERVER = """
import sys, threading
import ui.race.run
from serving_fakes import GatedEngine, fake_service, server
engine = GatedEngine()
engine.free, ui.race.run.UPDATE_SECONDS = int(sys.argv[2]), 0.0
server.launch(fake_service(engine), server.Address("127.0.0.1", int(sys.argv[1])), tools=False)
threading.Event().wait()
"""


@pytest.fixture(autouse=True)
def _every_step_is_shown(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ui.race.run.UPDATE_SECONDS", 0.0)


@contextmanager
def faulty_page(browser: sync_api.Browser, address: str) -> Iterator[sync_api.Page]:
    """A page whose console may show errors."""
    page = browser.new_page()
    page.goto(address)
    page.wait_for_selector(".ax-plot .main-svg")
    yield page
    page.close()


def run(page: sync_api.Page) -> None:
    """Press Run, and wait for the first steps."""
    page.locator("#ax-run").click()
    sync_api.expect(part(page, "source")).to_have_text("live race")
    page.wait_for_function("() => document.querySelectorAll('.ax-run-view .ax-tok').length > 3")


def has_ended(page: sync_api.Page) -> None:
    """The race is over for the page, which keeps its steps."""
    sync_api.expect(notice(page)).to_contain_text("The connection to the server was lost")
    sync_api.expect(page.locator("#ax-run")).to_be_enabled()
    sync_api.expect(page.locator("#ax-stop")).to_be_disabled()
    sync_api.expect(part(page, "view-root")).to_have_attribute("data-running", "false")
    assert part(page, "source").inner_text() == "live race"
    assert text_of(page, "plain")


@pytest.mark.parametrize(
    ("cut", "abrupt"),
    [
        ((PRESENCE,), False),
        pytest.param((MESSAGES,), True, marks=pytest.mark.slow),
        pytest.param((PRESENCE, MESSAGES), False, marks=pytest.mark.slow),
        pytest.param((PRESENCE,), True, marks=pytest.mark.slow),
        pytest.param((MESSAGES,), False, marks=pytest.mark.slow),
        pytest.param((PRESENCE, MESSAGES), True, marks=pytest.mark.slow),
    ],
)
def test_a_race_continues_when_streams_are_cut(browser: sync_api.Browser, cut: tuple[str, ...], abrupt: bool):
    engine = GatedEngine()
    engine.free = 6
    service, faults = fake_service(engine), Faults(cut, abrupt=abrupt)
    with (
        serving(service, root_path=BELOW) as behind,
        proxy(behind, faults) as address,
        faulty_page(browser, f"{address}/") as page,
    ):
        run(page)
        before, count = text_of(page, "plain"), faults.count
        until(lambda: faults.count > count + 1)
        assert service.scheduler._running_jobs()[0].control.reason is None
        engine.gate.set()
        sync_api.expect(notice(page)).to_contain_text("Done in")
        sync_api.expect(page.locator("#ax-run")).to_be_enabled()
        assert text_of(page, "plain").startswith(before)
        assert text_of(page, "plain") == text_of(page, "aded") != before


@pytest.mark.slow
def test_a_race_whose_server_does_not_answer_ends_on_the_page_and_the_next_one_runs(browser: sync_api.Browser):
    engine = GatedEngine()
    engine.free = 6
    service, faults = fake_service(engine), Faults((PRESENCE, MESSAGES))
    with (
        serving(service, root_path=BELOW) as behind,
        proxy(behind, faults) as address,
        faulty_page(browser, f"{address}/") as page,
    ):
        run(page)
        faults.down = True
        sync_api.expect(notice(page)).to_contain_text("The server cannot be reached")
        has_ended(page)
        page.locator("#ax-run").click()
        sync_api.expect(notice(page)).to_contain_text("The server cannot be reached")
        sync_api.expect(page.locator("#ax-run")).to_be_enabled()
        faults.down = False
        sync_api.expect(notice(page)).to_contain_text("The connection to the server was lost")
        page.locator("#ax-run").click()
        engine.gate.set()
        sync_api.expect(notice(page)).to_contain_text("Done in")
        assert text_of(page, "plain") == text_of(page, "aded")


@contextmanager
def separate(port: int, steps: int) -> Iterator[subprocess.Popen[bytes]]:
    """A server in a separate process, whose runs stop after so many steps; it is killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(port), str(steps)], cwd=TESTS, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    try:
        wait_for(f"http://127.0.0.1:{port}/healthz", process)
        yield process
    finally:
        process.kill()
        process.wait(HANG)


@pytest.mark.slow
def test_a_killed_server_is_reported_and_the_page_works_with_the_next_one(browser: sync_api.Browser):
    port = free_port()
    with separate(port, 6) as process, faulty_page(browser, f"http://127.0.0.1:{port}/") as page:
        run(page)
        process.kill()
        sync_api.expect(notice(page)).to_contain_text("The server cannot be reached")
        with separate(port, 10**6):
            has_ended(page)
            page.locator("#ax-run").click()
            sync_api.expect(notice(page)).to_contain_text("Done in")
            assert text_of(page, "plain") == text_of(page, "aded")


def test_a_page_that_is_left_ends_its_race_at_once(browser: sync_api.Browser):
    engine = GatedEngine()
    service = fake_service(engine)
    with serving(service) as address, faulty_page(browser, f"{address}/") as page:
        page.locator("#ax-run").click()
        until(engine.on.is_set)
        page.goto("about:blank")
        until(lambda: service.scheduler._running_jobs()[0].control.reason == "left")
        engine.gate.set()
