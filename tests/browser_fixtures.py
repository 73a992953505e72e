"""One server a run, one browser a file (its event loop would be in the way of others), a fresh profile a test.

Every test also promises that the console shows no error and that no request leaves this machine.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from browsing import FLAGS, ROOT, free_port, sync_api, wait_for, watched_page


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    port = free_port()
    command = [sys.executable, "app.py", "--port", str(port), "--no-browser"]
    quiet = {**os.environ, "GRADIO_ANALYTICS_ENABLED": "False"}
    server = subprocess.Popen(command, cwd=ROOT, env=quiet, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}/"
    try:
        wait_for(url, server)
        yield url
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(20)


@pytest.fixture(scope="module")
def browser() -> Iterator[sync_api.Browser]:
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield found
        found.close()


@pytest.fixture
def page(browser: sync_api.Browser, address: str) -> Iterator[sync_api.Page]:
    with watched_page(browser, address) as found:
        yield found
