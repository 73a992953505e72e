"""The server as a process: its counters, its health, and its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from browsing import free_port, wait_for
from serving_fakes import fake_service, serving

ROOT = Path(__file__).resolve().parent.parent
SERVE = """
import sys
sys.path[:0] = ["tests", "."]
from serving_fakes import FakeEngine, fake_service
from ui.serving import server
import time

class Slow(FakeEngine):
    def race(self, decoders, prompt):
        for made in super().race(decoders, prompt):
            time.sleep(0.2)
            yield made

server.serve(fake_service(Slow()), server.Address("127.0.0.1", int(sys.argv[1])))
print("ended in order")
"""


@pytest.fixture
def server() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    port = free_port()
    quiet = {**os.environ, "GRADIO_ANALYTICS_ENABLED": "False"}
    command = [sys.executable, "-c", SERVE, str(port)]
    found = subprocess.Popen(command, cwd=ROOT, env=quiet, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        wait_for(f"http://127.0.0.1:{port}/healthz", found)  # type: ignore[arg-type]
        yield f"http://127.0.0.1:{port}", found
    finally:
        found.kill()
        found.wait(10)


def test_the_counters_and_the_health_are_served():
    service = fake_service()
    with serving(service) as address:
        assert httpx.get(f"{address}/healthz").json() == {"status": "ok", "loaded": False}
        assert "aded_queue_length 0.0" in httpx.get(f"{address}/metrics").text
        httpx.get(f"{address}/nowhere")
        assert 'aded_refusals_total{reason="path"} 1.0' in httpx.get(f"{address}/metrics").text
        service.scheduler.close()
        assert httpx.get(f"{address}/healthz").json()["status"] == "failed"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_end_it_cuts_what_runs_says_so_and_ends_with_status_0_in_ten_seconds(
    server: tuple[str, subprocess.Popen[str]], number: signal.Signals
):
    address, process = server
    event = httpx.post(f"{address}/gradio_api/call/v2/generate", json={"prompt": "hello"}).json()["event_id"]
    with httpx.stream("GET", f"{address}/gradio_api/call/v2/generate/{event}", timeout=20) as answer:
        lines = answer.iter_lines()
        while "running" not in next(lines):
            pass
        started = time.monotonic()
        process.send_signal(number)
        rest = "\n".join(lines)
    assert process.wait(10) == 0
    assert time.monotonic() - started < 10
    assert "shutdown" in rest
    assert "ended in order" in process.stdout.read()  # type: ignore[union-attr]
