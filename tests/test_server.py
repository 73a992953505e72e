"""The server as a process: its counters, its health, and its end."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from browsing import free_port, wait_for
from serving_fakes import fake_service, serving

from aded.errors import AdedError
from ui.serving.server import Address, launch

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

class Stuck(FakeEngine):
    def race(self, decoders, prompt):
        time.sleep(30)
        yield from super().race(decoders, prompt)

server.serve(fake_service(globals()[sys.argv[2]]()), server.Address("127.0.0.1", int(sys.argv[1])))
print("ended in order")
"""


@pytest.fixture
def server() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    with process_of("Slow") as found:
        yield found


@contextmanager
def process_of(engine: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server of this engine's in a process of its own: its address, and the process."""
    port = free_port()
    quiet = {**os.environ, "GRADIO_ANALYTICS_ENABLED": "False"}
    command = [sys.executable, "-c", SERVE, str(port), engine]
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


def listens_on_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not listens_on_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize("host", ["::", "::1"])
def test_an_address_of_ipv6_is_listened_on(host: str):
    service, port = fake_service(), free_port()
    page = launch(service, Address(host, port))
    try:
        assert httpx.get(f"http://[::1]:{port}/healthz").json()["status"] == "ok"
        assert httpx.get(f"http://[::1]:{port}/config").status_code == 200
    finally:
        service.close(5)
        page.close(verbose=False)


def test_a_port_that_is_taken_meanwhile_is_said():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(AdedError, match="give another --port or --host"):
            launch(fake_service(), Address("127.0.0.1", taken.getsockname()[1]))


def test_the_start_says_the_address_and_offers_no_public_link(server: tuple[str, subprocess.Popen[str]]):
    address, process = server
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=15)[0]
    assert f"ADED Explorer is on {address}" in said
    assert "share" not in said


CAUGHT = re.compile(r"^SigCgt:\s*([0-9a-f]+)$", re.MULTILINE)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="when a signal is listened to is told by /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_end_while_it_starts_it_ends_with_status_0(number: signal.Signals):
    process = subprocess.Popen([sys.executable, "app.py", "--no-browser", "--port", str(free_port())], cwd=ROOT)
    try:
        until, bit, about = time.monotonic() + 10, 1 << (signal.SIGTERM - 1), Path(f"/proc/{process.pid}")
        while not int(CAUGHT.findall((about / "status").read_text())[0], 16) & bit:
            assert time.monotonic() < until
            time.sleep(0.002)
        assert "orjson" not in (about / "maps").read_text(), "Gradio, which takes time, is imported before it listens"
        time.sleep(0.3)
        process.send_signal(number)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait(10)


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


def test_a_step_that_does_not_end_holds_the_end_no_longer_and_its_readers_are_told():
    """Nor do those that the line is full of, a stream of tools that is open, or a body of which half has come."""
    with process_of("Stuck") as (address, process), ExitStack() as held:
        call = f"{address}/gradio_api/call/v2/generate"
        first, second = (httpx.post(call, json={"prompt": "hello"}).json()["event_id"] for _ in range(2))
        stuck, behind = (held.enter_context(httpx.stream("GET", f"{call}/{event}", timeout=20)) for event in (first, second))
        accepted = {"accept": "text/event-stream"}
        held.enter_context(httpx.stream("GET", f"{address}/gradio_api/mcp/", headers=accepted, timeout=20))
        half = held.enter_context(socket.create_connection(("127.0.0.1", int(address.rsplit(":", 1)[1]))))
        half.sendall(b"POST /gradio_api/call/v2/generate HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
        time.sleep(0.5)
        started = time.monotonic()
        process.send_signal(signal.SIGTERM)
        for reader in (stuck, behind):
            told = list(reader.iter_lines())
            assert "event: complete" in told
            assert '"state": "shutdown"' in told[-2] + told[-1], told
        assert process.wait(10) == 0
        assert time.monotonic() - started < 10
        assert "Traceback" not in process.stdout.read()  # type: ignore[union-attr]
