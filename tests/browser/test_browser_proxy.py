"""Behind a reverse proxy that serves the page below a path: all requests of the page are below it."""

from __future__ import annotations

import pytest
from browsing import notice, sync_api, watched_page

pytest_plugins = ("browser_fixtures", "proxy_fixtures")
pytestmark = pytest.mark.browser


def test_a_race_runs_below_the_path_and_no_request_leaves_it(proxied: str, browser: sync_api.Browser):
    requested: list[str] = []
    with watched_page(browser, f"{proxied}/") as page:
        page.on("request", lambda request: requested.append(request.url))
        page.locator("#ax-run").click()
        sync_api.expect(notice(page)).to_contain_text("Done in")
    assert requested
    assert all(url.startswith((proxied, "data:", "blob:")) for url in requested)
