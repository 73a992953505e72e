"""Fixtures of browser tests on the static site, opened from disk without a network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import sync_api

from aded.core.paths import ASSETS
from ui import site


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of the first recorded race."""
    out = tmp_path_factory.mktemp("site") / "out"
    site.export(out, sorted((ASSETS / "traces").glob("01-*.json")))
    return out


@pytest.fixture
def site_page(browser: sync_api.Browser, folder: Path) -> Iterator[sync_api.Page]:
    """The site from disk, without a network; no error may appear in its console."""
    context = browser.new_context(viewport={"width": 1280, "height": 720}, offline=True)
    page, wrong = context.new_page(), []
    page.on("console", lambda m: wrong.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda e: wrong.append(str(e)))
    yield page
    assert wrong == []
    context.close()


def open_site(page: sync_api.Page, folder: Path, hash: str) -> None:
    page.goto(f"{(folder / 'index.html').as_uri()}#{hash}")
    page.wait_for_selector(".ax-run-view .ax-step", state="attached")
