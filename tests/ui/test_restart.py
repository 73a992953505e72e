"""From the start of the real app to the first picture and to the first token, with a warm cache.

``ADED_RESTART_OUT=bench/results/restart python -m pytest tests/test_restart.py`` keeps the figures.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from browsing import free_port, sync_api, wait_for
from conftest import ROOT
from waiting import HANG, http

pytest_plugins = ("browser_fixtures",)
pytestmark = [pytest.mark.long, pytest.mark.timing, pytest.mark.model, pytest.mark.browser]

OUT = os.environ.get("ADED_RESTART_OUT")
RESTARTS = 3
MOST = {"paint": 15.0, "token": 40.0}
"""Seconds from the start of the process."""


@contextmanager
def restarted() -> Iterator[tuple[str, float]]:
    """The app in a process of its own, once it answers: its address, and when it was started."""
    port = free_port()
    command = [sys.executable, "app.py", "--port", str(port), "--no-browser"]
    started = time.monotonic()
    found = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(f"http://127.0.0.1:{port}/healthz", found)
        yield f"http://127.0.0.1:{port}/", started
    finally:
        found.send_signal(signal.SIGTERM)
        found.wait(HANG)


def seconds_to_paint(browser: sync_api.Browser) -> float:
    """Until a recorded race can be read on the page, charts drawn."""
    page = browser.new_page()
    with restarted() as (address, started):
        page.goto(address)
        page.wait_for_selector(".ax-plot .main-svg")
        page.wait_for_selector(".ax-lane .ax-tok")
        seconds = time.monotonic() - started
    page.close()
    return seconds


def seconds_to_token() -> float:
    """Until somebody who asks as soon as the server answers reads a first token, the loading of the model included."""
    with restarted() as (address, started):
        call = f"{address}gradio_api/call/v2/generate"
        body = {"prompt": "Why is the sky blue?", "max_new_tokens": 8}
        event = http.post(call, json=body).json()["event_id"]
        with http.stream("GET", f"{call}/{event}") as answer:
            for line in answer.iter_lines():
                if line.startswith("data:") and (told := json.loads(line[5:])) and told[0].get("tokens"):
                    return time.monotonic() - started
    pytest.skip("no model here")


def test_a_restart_paints_and_writes_in_time(browser: sync_api.Browser):
    seconds_to_token()  # the cache is warm from here on
    found = {
        "paint": [round(seconds_to_paint(browser), 2) for _ in range(RESTARTS)],
        "token": [round(seconds_to_token(), 2) for _ in range(RESTARTS)],
    }
    figures = {
        "command": "python -m pytest tests/test_restart.py",
        "machine": f"{os.cpu_count()} cores, {platform.machine()}; the browser on the same machine",
        "load": [round(value, 2) for value in os.getloadavg()],
        "python": platform.python_version(),
        "most_seconds": MOST,
        "seconds": found,
    }
    print(json.dumps(figures, indent=1))
    if OUT:
        Path(OUT).mkdir(parents=True, exist_ok=True)
        (Path(OUT) / "results.json").write_text(json.dumps(figures, indent=1) + "\n")
    assert {name: min(values) < MOST[name] for name, values in found.items()} == {"paint": True, "token": True}
