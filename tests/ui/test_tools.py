"""The endpoints as MCP tools: JSON answers, a disconnect ends the run, and no header makes a call one of a tool."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import httpx
import pytest
from serving_fakes import FakeEngine, GatedEngine, fake_service, serving
from ui_fakes import WORDS
from waiting import HANG, http, until

from aded import __version__
from ui.serving import service as serving_service
from ui.serving.follow import follow
from ui.serving.service import Service

Gated = tuple[str, GatedEngine, Service]
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


@pytest.fixture
def gated() -> Iterator[Gated]:
    engine = GatedEngine()
    service = fake_service(engine, at_once=1, queue_size=4)
    with serving(service, tools=True) as found:
        yield found, engine, service
        engine.gate.set()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving(fake_service(), tools=True) as found:
        yield found


def called(name: str, **arguments: Any) -> bytes:
    params = {"name": name, "arguments": arguments}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()


def result(answer: httpx.Response) -> Any:
    lines = [line for line in answer.text.splitlines() if line.startswith("data: {")]
    return json.loads(lines[-1].removeprefix("data: "))["result"]


def call(address: str, body: bytes) -> httpx.Response:
    return http.post(f"{address}/gradio_api/mcp/", content=body, headers=HEADERS)


def test_a_tool_answers_in_json(address: str):
    for name, arguments in (("generate", {"prompt": "hello"}), ("race", {"prompt": "hello"}), ("methods", {})):
        found = result(call(address, called(name, **arguments)))
        assert not found["isError"], found
        answer = json.loads(found["content"][0]["text"])
        assert answer.get("text", WORDS) == WORDS
        assert answer.get("state", "done") == "done"


def test_the_artifacts_of_all_methods_are_not_read_in_the_event_loop():
    read_in: list[str] = []

    class Reading(FakeEngine):
        def unavailable(self, model: Any) -> dict[str, str]:
            read_in.append("a thread")
            with suppress(RuntimeError):
                read_in[-1] = repr(asyncio.get_running_loop())
            return {}

    service = fake_service(Reading())
    service.models.first.start()
    until(lambda: service.models.first.loaded)
    with serving(service, tools=True) as address:
        assert http.get(f"{address}/v1/models").status_code == 200
        assert not result(call(address, called("methods")))["isError"]
    assert read_in == ["a thread"] * 2


def test_the_tool_server_has_the_version_of_the_project(address: str):
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}).encode()
    assert result(call(address, body))["serverInfo"]["version"] == __version__


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("generate", {"prompt": "hello", "method": "telepathy"}, "unknown method 'telepathy'; known are plain"),
        (
            "generate",
            {"prompt": "hello", "method": ["aded"]},
            "method is not a string; give one of the names that `methods` lists",
        ),
        ("generate", {"prompt": "hello", "method": "x" * 100_000}, "known are plain"),
        ("generate", {"prompt": ["hello"] * 10_000}, "the prompt is not text; give a string"),
        ("generate", {"prompt": "hello", "max_new_tokens": "500"}, "max_new_tokens is not a number; give a whole number"),
        ("generate", {"prompt": "hello", "max_new_tokens": 10**4000}, "max_new_tokens is out of range; give a number from 1"),
        ("generate", {"prompt": "hello", "seed": 10**400}, "seed is out of range; give a number from 0 to 9007199254740991"),
        ("generate", {"prompt": "hello", "temperature": -1e300}, "temperature is out of range; give a number from 0 to 2"),
        ("generate", {"prompt": "hello", "budget": "9" * 100_000}, "give 'auto' or a number of nodes"),
        ("generate", {"prompt": "hello", "budget": ["9"] * 1000}, "give 'auto' or a number of nodes"),
        ("generate", {"prompt": "hello", "model": "x" * 100_000}, "give one of: default, second"),
        ("race", {"prompt": "hello", "methods": ["x" * 100_000]}, "known are plain"),
        (
            "race",
            {"prompt": "hello", "methods": ["plain", "aded", "plain"]},
            "methods names 'plain' twice; give each method once",
        ),
        ("methods", {"x" * 100_000: 1}, "give no arguments"),
        ("matrix_row", {"text": 7}, "the text must be a string of at most 10000 characters"),
        ("x" * 100_000, {}, "there are generate"),
        ("generate", {"prompt": " "}, "The prompt is empty"),
        ("generate", {"prompt": "hello", "colour": 1}, "there is no argument 'colour'; the arguments are prompt, method"),
        ("telepathy", {}, "there is no tool 'telepathy'; there are generate"),
    ],
)
def test_invalid_calls_of_a_tool_are_refused_in_one_sentence(address: str, name: str, arguments: dict[str, Any], words: str):
    found = result(call(address, called(name, **arguments)))
    assert found["isError"]
    assert words in found["content"][0]["text"]
    assert len(found["content"][0]["text"]) < 300


def test_refused_calls_of_a_tool_are_counted():
    service = fake_service()
    with serving(service, tools=True) as address:
        for number, (name, arguments) in enumerate([("telepathy", {}), ("generate", {"colour": 1})], 1):
            call(address, called(name, **arguments))
            assert service.counters.value("aded_refusals_total", {"reason": "malformed"}) == number
        call(address, called("generate", prompt="hello", max_new_tokens=10**4000))
        assert service.counters.value("aded_refusals_total", {"reason": "asked"}) == 1
        assert service.counters.value("aded_runs_total", {"outcome": "failed"}) == 0


def test_a_lone_surrogate_is_refused_as_in_every_call(address: str):
    found = call(address, called("generate", prompt="\ud800"))
    assert (found.status_code, found.json()["error"]) == (400, "the body is not JSON; send a JSON object")


def test_a_run_ends_within_a_step_of_the_disconnect_of_its_tool(gated: Gated):
    address, engine, service = gated
    body = called("race", prompt="hello")
    with http.stream("POST", f"{address}/gradio_api/mcp/", content=body, headers=HEADERS):
        assert engine.on.wait(HANG)
        assert service.scheduler.running == 1
    until(lambda: service.scheduler._running_jobs()[0].control.reason == "left")
    engine.gate.set()
    until(lambda: service.scheduler.running == 0)
    assert service.counters.value("aded_runs_total", {"outcome": "left"}) == 1
    assert len(service.sessions) == 0


def test_a_header_does_not_split_a_session(gated: Gated):
    address, engine, service = gated
    ask = {"data": ["hello", ["plain"], 96, 0.0, 1.0, 0, 0, "auto", ""], "session_hash": "one"}
    for _ in range(3):
        posted = http.post(f"{address}/gradio_api/call/race", json=ask, headers={"X-Gradio-User": "mcp"})
        assert posted.status_code == 200
    assert engine.on.wait(HANG)
    until(lambda: service.counters.value("aded_refusals_total", {"reason": "one"}) == 2)
    assert service.scheduler.running + service.scheduler.waiting == 1


@pytest.mark.parametrize("headers", [{}, {"x-gradio-user": "mcp"}])
def test_a_run_without_a_reader_ends_whatever_its_headers_are(
    gated: Gated, headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    address, engine, service = gated
    monkeypatch.setattr(serving_service, "follow", partial(follow, poll=0.05, max_idle=0.3))
    monkeypatch.setattr("ui.serving.follow.MAX_UNREAD", 2)
    engine.pause = 0.1
    engine.gate.set()
    posted = http.post(f"{address}/gradio_api/call/v2/generate", json={"prompt": "hello"}, headers=headers)
    assert posted.status_code == 200
    until(lambda: service.counters.value("aded_runs_total", {"outcome": "left"}) == 1)
    assert service.scheduler.running == 0


@pytest.mark.parametrize("tool", ["generate", "race"])
def test_progress_is_reported_if_a_client_asks_for_it(address: str, tool: str):
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    reports: list[tuple[float, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, message))

    async def use() -> None:
        async with (
            streamable_http_client(f"{address}/gradio_api/mcp/") as (read, write, *_),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            await session.call_tool(tool, {"prompt": "hello"}, progress_callback=on_progress)

    asyncio.run(use())
    assert reports[-1][1] == "done"
    assert reports[-1][0] == max(tokens for tokens, _ in reports) > 0
