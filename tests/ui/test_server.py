"""The server as a process: counters, health, and shutdown."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from app_process import free_port, wait_for
from conftest import ROOT
from gradio import http_server, networking
from serving_fakes import fake_service, serving
from waiting import HANG, http, until

from aded.core.errors import AdedError
from ui.serving import server as server_module
from ui.serving.http.connections import ALIVE
from ui.serving.server import Address, launch

SERVE = """
import sys
sys.path[:0] = ["tests", "."]
from serving_fakes import FakeEngine, fake_service
from ui.serving import server
import time

class Slow(FakeEngine):
    def race(self, decoders, prompts):
        for step in super().race(decoders, prompts):
            time.sleep(0.5)
            yield step

class Stuck(FakeEngine):
    def race(self, decoders, prompts):
        time.sleep(1000)
        yield from super().race(decoders, prompts)

server.serve(fake_service(globals()[sys.argv[2]]()), server.Address("127.0.0.1", int(sys.argv[1])))
print("ended in order")
"""


@pytest.fixture
def server() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    with process_of("Slow") as found:
        yield found


@contextmanager
def process_of(engine: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server with this engine in its own process; yields its address and the process."""
    port = free_port()
    quiet = {**os.environ, "GRADIO_ANALYTICS_ENABLED": "False"}
    command = [sys.executable, "-c", SERVE, str(port), engine]
    found = subprocess.Popen(command, cwd=ROOT, env=quiet, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        wait_for(f"http://127.0.0.1:{port}/healthz", found)  # type: ignore[arg-type]
        yield f"http://127.0.0.1:{port}", found
    finally:
        found.kill()
        found.wait(HANG)


def test_counters_and_health_are_served():
    service = fake_service()
    with serving(service) as address:
        assert http.get(f"{address}/healthz").json() == {"status": "ok", "loaded": False}
        assert "aded_queue_length 0.0" in http.get(f"{address}/metrics").text
        http.get(f"{address}/nowhere")
        assert 'aded_refusals_total{reason="path"} 1.0' in http.get(f"{address}/metrics").text
        service.scheduler.close()
        assert http.get(f"{address}/healthz").json()["status"] == "failed"


def test_a_page_that_is_closed_frees_its_session():
    service = fake_service()
    with serving(service) as address:
        service.sessions.get("a")
        with http.stream("GET", f"{address}/connection/a") as open_page:
            assert next(open_page.iter_raw()) == ALIVE
            assert http.post(f"{address}/connection/b").status_code == 204
            assert len(service.sessions) == 1
            assert http.post(f"{address}/connection/a").status_code == 204
            assert len(service.sessions) == 0


def listens_on_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not listens_on_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize("host", ["::", "::1"])
def test_the_server_can_listen_on_ipv6(host: str):
    service, port = fake_service(), free_port()
    page = launch(service, Address(host, port))
    try:
        assert http.get(f"http://[::1]:{port}/healthz").json()["status"] == "ok"
        assert http.get(f"http://[::1]:{port}/config").status_code == 200
    finally:
        service.close(HANG)
        page.close(verbose=False)


def test_a_busy_machine_may_take_its_time_to_start(monkeypatch):
    """Gradio waits 5 s until the server listens and 3 s for an answer of the page, and then refuses to start."""

    def impatient(started: http_server.Server) -> None:
        started.thread = threading.Thread(target=started.run, daemon=True)
        started.thread.start()
        raise http_server.ServerFailedToStartError("Server failed to start.")

    monkeypatch.setattr(server_module, "_GRADIOS_START", impatient)
    monkeypatch.setattr(networking, "url_ok", lambda _: False)
    with serving(fake_service()) as address:
        assert http.get(f"{address}/healthz").status_code == 200


def test_a_port_in_use_is_reported():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(AdedError, match="give another --port or --host"):
            launch(fake_service(), Address("127.0.0.1", taken.getsockname()[1]))


def test_the_server_prints_its_address_and_no_public_link(server: tuple[str, subprocess.Popen[str]]):
    address, process = server
    process.send_signal(signal.SIGTERM)
    output = process.communicate(timeout=HANG)[0]
    assert f"ADED Explorer is on {address}" in output
    assert "share" not in output


START = """
import os, runpy, sys

class Signal:
    def find_spec(self, name, *more):
        if name == "{module}":
            print("imported", flush=True)
            os.kill(os.getpid(), {number})

sys.meta_path.insert(0, Signal())
sys.argv = ["app.py", "--no-browser", "--port", "{port}"]
runpy.run_path("app.py", run_name="__main__")
"""


@pytest.mark.parametrize("module", ["aded.cli.main", "gradio"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_the_start_ends_it_with_status_0(number: signal.Signals, module: str):
    """The signal arrives at the import of the first module of the project, and at the import of the slowest one."""
    code = START.format(module=module, number=int(number), port=free_port())
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=HANG)
    assert (done.stdout, done.returncode) == ("imported\n", 0)


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_signal_stops_jobs_with_a_message_and_ends_it_with_status_0(
    server: tuple[str, subprocess.Popen[str]], number: signal.Signals
):
    address, process = server
    event = http.post(f"{address}/gradio_api/call/v2/generate", json={"prompt": "hello"}).json()["event_id"]
    with http.stream("GET", f"{address}/gradio_api/call/v2/generate/{event}") as answer:
        lines = answer.iter_lines()
        while "running" not in next(lines):
            pass
        process.send_signal(number)
        rest = "\n".join(lines)
    assert process.wait(HANG) == 0
    assert "shutdown" in rest
    assert "ended in order" in process.stdout.read()  # type: ignore[union-attr]


@pytest.mark.slow
def test_a_step_that_does_not_end_delays_no_shutdown_and_its_readers_are_notified():
    """Neither do queued jobs, an open stream of tools, or an incomplete body."""
    seconds_to_end_while_stuck()


@pytest.mark.timing
def test_a_shutdown_takes_less_than_ten_seconds():
    assert seconds_to_end_while_stuck() < 10


def seconds_to_end_while_stuck() -> float:
    """Seconds from the signal to the end of a server in which a step does not end."""
    with process_of("Stuck") as (address, process), ExitStack() as opened:
        call = f"{address}/gradio_api/call/v2/generate"
        first, second = (http.post(call, json={"prompt": "hello"}).json()["event_id"] for _ in range(2))
        stuck, behind = (opened.enter_context(http.stream("GET", f"{call}/{event}")) for event in (first, second))
        accepted = {"accept": "text/event-stream"}
        opened.enter_context(http.stream("GET", f"{address}/gradio_api/mcp/", headers=accepted))
        opened.enter_context(http.stream("GET", f"{address}/connection/a"))
        half = opened.enter_context(socket.create_connection(("127.0.0.1", int(address.rsplit(":", 1)[1]))))
        half.sendall(b"POST /gradio_api/call/v2/generate HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
        until(lambda: {"aded_running 1.0", "aded_queue_length 1.0"} <= {*http.get(f"{address}/metrics").text.splitlines()})
        started = time.monotonic()
        process.send_signal(signal.SIGTERM)
        for reader in (stuck, behind):
            lines = list(reader.iter_lines())
            assert "event: complete" in lines
            assert '"state": "shutdown"' in lines[-2] + lines[-1], lines
        assert process.wait(HANG) == 0
        seconds = time.monotonic() - started
        assert "Traceback" not in process.stdout.read()  # type: ignore[union-attr]
        return seconds
