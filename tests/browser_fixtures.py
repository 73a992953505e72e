"""Fixtures of the browser tests: one server per run, one browser per file (event loops would conflict), one page per test.

In every test the console must show no error, and no request may leave this machine.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from app_process import running_app
from browsing import CHROMIUM, FLAGS, SPARE, sync_api, watched_page
from serving_fakes import GatedEngine, Live, fake_service, serving
from waiting import until


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    with running_app() as (url, _):
        yield url


@pytest.fixture(scope="module")
def browser() -> Iterator[sync_api.Browser]:
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        for key in [key for key in SPARE if key[0] is found]:
            del SPARE[key]
        found.close()


@pytest.fixture(scope="module")
def live_server() -> Iterator[Live]:
    engine = GatedEngine()
    engine.free = 15
    service = fake_service(engine)
    with pytest.MonkeyPatch.context() as patch, serving(service) as address:
        patch.setattr("ui.race.run.UPDATE_SECONDS", 0.0)
        yield Live(f"{address}/", engine, service)


@pytest.fixture
def live(live_server: Live) -> Iterator[Live]:
    """The live server with a closed gate and no active run."""
    live_server.engine.gate.clear()
    yield live_server
    live_server.engine.gate.set()
    until(lambda: live_server.service.scheduler.running == 0)


@pytest.fixture
def live_page(browser: sync_api.Browser, live: Live) -> Iterator[sync_api.Page]:
    with watched_page(browser, live.address) as found:
        yield found


@pytest.fixture
def page(browser: sync_api.Browser, address: str, request: pytest.FixtureRequest) -> Iterator[sync_api.Page]:
    """With the sections below the stage, if the file says ``SECTIONS = True``."""
    with watched_page(browser, address, sections=getattr(request.module, "SECTIONS", False)) as found:
        yield found
