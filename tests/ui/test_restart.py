"""Seconds from the start of the real app to the first chart and to the first token, with a warm cache.

``ADED_RESTART_OUT=bench/results/restart python -m pytest tests/ui/test_restart.py`` saves the measurements.
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
from app_process import free_port, wait_for
from browsing import sync_api
from conftest import ROOT
from waiting import HANG, http

pytest_plugins = ("browser_fixtures",)
pytestmark = [pytest.mark.long, pytest.mark.timing, pytest.mark.model, pytest.mark.browser]

OUT = os.environ.get("ADED_RESTART_OUT")
RESTARTS = 3
MAX_SECONDS = {"paint": 15.0, "token": 40.0}
"""Seconds from the start of the process."""


@contextmanager
def restarted() -> Iterator[tuple[str, float]]:
    """The app in a separate process, once it answers: its address and the time of its start."""
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
    """Seconds until a recorded race and its charts are on the page."""
    page = browser.new_page()
    with restarted() as (address, started):
        page.goto(address)
        page.wait_for_selector(".ax-plot .main-svg")
        page.wait_for_selector(".ax-run-view .ax-tok")
        seconds = time.monotonic() - started
    page.close()
    return seconds


def seconds_to_token() -> float:
    """Seconds until the first token of a call that is sent as soon as the server answers; the model is loaded in this time."""
    with restarted() as (address, started):
        call = f"{address}gradio_api/call/v2/generate"
        body = {"prompt": "Why is the sky blue?", "max_new_tokens": 8}
        event = http.post(call, json=body).json()["event_id"]
        with http.stream("GET", f"{call}/{event}") as answer:
            for line in answer.iter_lines():
                if line.startswith("data:") and (data := json.loads(line[5:])) and data[0].get("tokens"):
                    return time.monotonic() - started
    pytest.skip("no model here")


def test_after_a_restart_the_page_and_the_first_token_come_in_time(browser: sync_api.Browser):
    seconds_to_token()  # the cache is warm from here on
    found = {
        "paint": [round(seconds_to_paint(browser), 2) for _ in range(RESTARTS)],
        "token": [round(seconds_to_token(), 2) for _ in range(RESTARTS)],
    }
    figures = {
        "command": "python -m pytest tests/ui/test_restart.py",
        "machine": f"{os.cpu_count()} cores, {platform.machine()}; the browser on the same machine",
        "load": [round(value, 2) for value in os.getloadavg()],
        "python": platform.python_version(),
        "most_seconds": MAX_SECONDS,
        "seconds": found,
    }
    print(json.dumps(figures, indent=1))
    if OUT:
        Path(OUT).mkdir(parents=True, exist_ok=True)
        (Path(OUT) / "results.json").write_text(json.dumps(figures, indent=1) + "\n")
    assert {name: min(values) < MAX_SECONDS[name] for name, values in found.items()} == {"paint": True, "token": True}
