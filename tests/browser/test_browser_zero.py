"""The page on shared GPUs: the message for a visitor who gets none."""

from __future__ import annotations

from typing import Any

import pytest
from browsing import notice, part, sync_api, watched_page
from serving_fakes import serving
from zero_fakes import Error, Spaces

pytest_plugins = ("browser_fixtures", "zero_fixtures")
pytestmark = pytest.mark.browser


def test_a_visitor_without_quota_sees_a_remedy_and_plays_the_recorded_race(
    on_zero: Any, spaces: Spaces, browser: sync_api.Browser
):
    def refuse(seconds: float) -> None:
        raise Error("You have exceeded your free ZeroGPU quota", "ZeroGPU quota exceeded")

    spaces.schedule = refuse
    with serving(on_zero()) as address, watched_page(browser, f"{address}/") as page:
        title = part(page, "race-title").text_content()
        page.locator("#ax-run").click()
        sync_api.expect(notice(page)).to_contain_text("Recorded races can still be played.")
        assert part(page, "race-title").text_content() == title != ""
        part(page, "language").select_option("zh")
        sync_api.expect(notice(page)).to_contain_text("录制的比赛仍可播放。")
        page.locator("body").press("Home")
        sync_api.expect(part(page, "where")).to_contain_text("1")
