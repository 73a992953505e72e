"""One panel in a frame of another site."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from browsing import part, sync_api, watched_page

pytest_plugins = ("browser_fixtures",)
pytestmark = pytest.mark.browser

VIEW = "race=A+maths+teacher&method=aded&step=8&tab=verify"


def test_the_embedded_page_shows_the_panel_of_its_link_only(browser: sync_api.Browser, address: str):
    with watched_page(browser, address, query=f"embed#{VIEW}", controls=False) as page:
        sync_api.expect(page.locator("#ax-panel-verify")).to_be_visible()
        for hidden in ("#ax-run", "#ax-bar", ".ax-race", ".ax-tabs", ".ax-section", "[data-part='strip']", "#ax-status"):
            assert page.locator(f"{hidden} >> visible=true").count() == 0, hidden
        whole = page.locator(".ax-embed-link")
        sync_api.expect(whole).to_have_attribute("href", re.compile(r"^http://[^/]+/#.*step=8.*tab=verify"))
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        sync_api.expect(part(page, "note")).to_be_hidden()
    with watched_page(browser, address, query="embed#race=A+summary&method=bar&step=999&tab=x", controls=False) as page:
        for words in ("no run “bar”; ADED is shown", "no step “999”; step 2 is shown", "no tab “x”; “1 Draft” is shown"):
            sync_api.expect(part(page, "note-text")).to_contain_text(words)
    with watched_page(browser, address, query="embed#race=Nope", controls=False) as page:
        sync_api.expect(part(page, "note-text")).to_contain_text("no recorded race “Nope”")
        sync_api.expect(part(page, "note-text")).not_to_contain_text("bar at the top")


@pytest.mark.slow
def test_the_code_of_a_frame_is_copied_and_works_on_another_site(browser: sync_api.Browser, address: str):
    with watched_page(browser, f"{address}#{VIEW}") as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        part(page, "save-menu").evaluate("e => { e.open = true; }")
        part(page, "embed-code").click()
        sync_api.expect(part(page, "copied")).to_contain_text("The code of the frame is copied")
        sync_api.expect(part(page, "note")).to_be_hidden()
        code = page.evaluate("navigator.clipboard.readText()")
        assert html.unescape(code).startswith("<iframe ")

        with article(code) as site:
            page.goto(site)
            frame = page.frame_locator("iframe")
            sync_api.expect(frame.locator("#ax-panel-verify")).to_be_visible()
            sync_api.expect(frame.locator("[data-part='step-title']")).to_contain_text("step 8")


def test_the_panel_works_in_a_frame_without_origin_and_storage(browser: sync_api.Browser, address: str):
    frame = f"<iframe sandbox='allow-scripts' width=960 height=480 src='{address}embed#{VIEW}'></iframe>"
    with article(frame) as site, watched_page(browser, address, controls=False) as page:
        page.goto(site)
        inner = page.frame_locator("iframe")
        sync_api.expect(inner.locator("#ax-panel-verify")).to_be_visible()
        sync_api.expect(inner.locator("[data-part='step-title']")).to_contain_text("step 8")
        sync_api.expect(inner.locator(".ax-embed-link")).to_have_attribute("href", re.compile("step=8"))


@contextmanager
def article(content: str) -> Iterator[str]:
    """A page of another site with this content: its address."""

    class Article(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(f"<!doctype html><h1>An article</h1>{content}".encode())

        def log_message(self, format: str, *values: object) -> None:
            """No log."""

    site = ThreadingHTTPServer(("127.0.0.1", 0), Article)
    Thread(target=site.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{site.server_port}/"
    finally:
        site.shutdown()
        site.server_close()
