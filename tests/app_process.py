"""The app in a separate process, as a test starts it."""

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

from waiting import HANG, until

ROOT = Path(__file__).resolve().parent.parent


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    """Wait until the server answers."""

    def answers() -> bool:
        assert server.poll() is None, "the app ended"
        try:
            with urllib.request.urlopen(url, timeout=HANG):
                return True
        except OSError:
            time.sleep(0.1)
            return False

    until(answers)


@contextmanager
def running_app(*options: str, end: signal.Signals = signal.SIGINT) -> Iterator[tuple[str, int]]:
    """The app in a separate process, once it answers: its address, which ends with a slash, and its process id."""
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
        server.wait(HANG)
