"""Behind a reverse proxy that shows the page below a path: the page finds everything there."""

from __future__ import annotations

import pytest
from browsing import notice, sync_api, watched_page

pytest_plugins = ("browser_fixtures", "proxy_fixtures")
pytestmark = pytest.mark.browser


def test_a_race_runs_on_the_page_below_the_path_and_nothing_is_asked_of_the_site_above_it(shown: str, browser: sync_api.Browser):
    asked: list[str] = []
    with watched_page(browser, f"{shown}/") as page:
        page.on("request", lambda request: asked.append(request.url))
        page.locator("#ax-run").click()
        sync_api.expect(notice(page)).to_contain_text("Done in")
    assert asked
    assert all(url.startswith((shown, "data:", "blob:")) for url in asked)
