"""What the browser's tests share: a watched page, and what is done with it again and again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aded import trace

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
ROOT = Path(__file__).resolve().parent.parent
HOSTILE = [
    "<img src=x onerror=window.PWN=1>",
    "${1+1}",
    "${Object.assign(window,{PWN:1})}",
    "{{x}}",
    "`",
    "\u202e",
    "<b>bold</b>",
    "</script>",
    " é漢🙂",
    "\n",
]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    for _ in range(240):
        assert server.poll() is None, "the app ended"
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.25)
    raise AssertionError("the app did not answer within a minute")


@contextmanager
def running_app(*options: str, end: signal.Signals = signal.SIGINT) -> Iterator[tuple[str, int]]:
    """The app in a process of its own, once it answers: its address, which ends in a slash, and its process id."""
    port = free_port()
    command = [sys.executable, "app.py", "--port", str(port), "--no-browser", *options]
    quiet = {**os.environ, "GRADIO_ANALYTICS_ENABLED": "False"}
    server = subprocess.Popen(command, cwd=ROOT, env=quiet, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}/"
    try:
        wait_for(url, server)
        yield url, server.pid
    finally:
        server.send_signal(end)
        server.wait(20)


class watched_page:
    """A page in a profile of its own, whose console and requests are watched."""

    def __init__(self, browser: sync_api.Browser, address: str, width: int = 1440, query: str = "") -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 900}, accept_downloads=True)
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.strangers: list[str] = []
        self.page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        self.page.on("pageerror", lambda e: self.errors.append(str(e)))
        self.page.on("request", self._watch)
        self.url = address + query

    def _watch(self, request: sync_api.Request) -> None:
        if not request.url.startswith(("http://127.0.0.1:", "data:", "blob:")):
            self.strangers.append(request.url)

    def __enter__(self) -> sync_api.Page:
        self.page.goto(self.url)
        self.page.wait_for_selector(".ax-plot .main-svg", timeout=60_000)
        return self.page

    def __exit__(self, kind: object, *rest: object) -> None:
        self.context.close()
        if kind is None:
            assert self.errors == []
            assert self.strangers == []


def part(page: sync_api.Page, name: str) -> sync_api.Locator:
    return page.locator(f"[data-part='{name}']")


def text_of(page: sync_api.Page, method: str) -> str:
    """What a lane shows, as its DOM text."""
    return page.locator(f".ax-lane[data-method='{method}'] .ax-text").evaluate("e => e.textContent")


def tokens_of(page: sync_api.Page, method: str, origin: str) -> list[str]:
    found = page.locator(f".ax-lane[data-method='{method}'] .ax-tok.ax-{origin}")
    return found.evaluate_all("all => all.map(e => e.textContent)")


def open_file(page: sync_api.Page, path: Path) -> None:
    page.locator("#ax-open input[type=file], input[type=file]").first.set_input_files(path)


def open_race(page: sync_api.Page, race: trace.Race, folder: Path) -> None:
    path = folder / "opened.json"
    trace.save(race, path)
    open_file(page, path)
    sync_api.expect(part(page, "source")).to_have_text("from a file", timeout=20_000)


def notice(page: sync_api.Page) -> sync_api.Locator:
    return page.locator("#ax-notice [data-part='text']")


def tick(page: sync_api.Page, *names: str) -> None:
    """Choose these methods and no others."""
    boxes = page.locator(".ax-picker [data-part='list'] input")
    for box in boxes.all():
        if box.is_checked() and box.get_attribute("value") not in names:
            box.uncheck()
    for name in names:
        page.locator(f".ax-picker input[value='{name}']").check()


def start(page: sync_api.Page, prompt: str, tokens: int) -> None:
    """Press Run and wait until the first step is there."""
    page.locator("#ax-prompt textarea").fill(prompt)
    page.locator("#ax-max-new-tokens input[type=text]").fill(str(tokens))
    page.locator("#ax-run").click()
    live = "() => document.querySelector('[data-part=source]').textContent === 'live run'"
    failed = "document.querySelector('#ax-notice .ax-notice').dataset.kind === 'error'"
    page.wait_for_function(f"() => ({live})() || {failed}", timeout=150_000)
    if page.evaluate(failed):
        pytest.skip(f"no model here: {notice(page).inner_text()}")


def saved(page: sync_api.Page, what: str, folder: Path) -> Path:
    """A file from the page's menu of things to save."""
    if not part(page, "save-menu").evaluate("e => e.open"):
        part(page, "save-menu").locator("summary").click()
    with page.expect_download() as download:
        page.locator(f"[data-save='{what}']").click()
    assert download.value.suggested_filename == what
    path = folder / what
    download.value.save_as(path)
    return path
