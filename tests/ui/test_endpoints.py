"""The API: named endpoints by ``gradio_client``, by plain HTTP and as MCP tools, with a fake engine."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import ROOT
from gradio_client import Client
from serving_fakes import FakeEngine, GatedEngine, fake_service, serving
from ui_fakes import WORDS
from waiting import HANG, api_client, http, until

from aded.core import trace
from aded.drafters.registry import METHODS
from ui.numbers import FIELDS
from ui.serving.endpoints import NAMES
from ui.serving.service import Service


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving(fake_service(max_new_tokens=64), tools=True) as found:
        yield found


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    found = api_client(address)
    yield found
    found.close()


@pytest.fixture
def gated() -> Iterator[tuple[str, GatedEngine, Service]]:
    engine = GatedEngine()
    service = fake_service(engine, at_once=1, queue_size=1)
    with serving(service) as found:
        yield found, engine, service
        engine.gate.set()


def test_the_named_endpoints_are_listed_with_types_and_descriptions(client: Client, address: str):
    listed = client.view_api(return_format="dict", print_info=False)["named_endpoints"]
    assert set(listed) == {f"/{name}" for name in NAMES}
    parameters = {p["parameter_name"]: p["python_type"]["type"] for p in listed["/generate"]["parameters"]}
    assert parameters["prompt"] == parameters["method"] == "str"
    assert (parameters["max_new_tokens"], parameters["temperature"]) == ("int", "float")
    info = http.get(f"{address}/gradio_api/info").json()["named_endpoints"]
    assert all(endpoint["description"] for endpoint in info.values())


def test_generate_streams_a_growing_text(client: Client):
    answers = list(client.submit("hello", api_name="/generate"))
    texts = [a["text"] for a in answers]
    assert all(after.startswith(before) for before, after in itertools.pairwise(texts))
    assert texts[-1] == WORDS
    assert [a["state"] for a in answers if a["state"] != "waiting"][-1] == "done"
    assert answers[-1]["summary"]["method"] == "aded"
    assert {tuple(sorted(a)) for a in answers} == {tuple(sorted(answers[0]))}


def test_race_ends_with_the_figures_of_each_run_and_whether_the_texts_are_identical(client: Client):
    last = client.predict("hello", ["plain", "aded"], api_name="/race")
    assert [run["method"] for run in last["lanes"]] == ["plain", "aded"]
    assert last["identical"] is True
    assert last["lanes"][1]["tokens_per_step"] > 1
    assert [run["tokens"] for run in last["lanes"]] == [len(run["token_ids"]) for run in last["lanes"]]


def test_trace_gives_a_trace_that_the_page_and_the_command_line_read(client: Client):
    one = trace.loads(json.dumps(client.predict("hello", ["aded"], api_name="/trace")["trace"]))
    several = trace.loads(json.dumps(client.predict("hello", ["plain", "aded"], api_name="/trace")["trace"]))
    assert [run.header.method for run in one.lanes] == ["aded"]
    assert [run.header.method for run in several.lanes] == ["plain", "aded"]


def test_methods_lists_the_registry_and_the_models_that_are_served(client: Client):
    found = client.predict(api_name="/methods")
    assert [row["name"] for row in found["methods"]] == list(METHODS)
    assert found["models"] == ["default", "second"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"prompt": "  "}, "The prompt is empty"),
        ({"prompt": None}, "the prompt is not text"),
        ({"prompt": {"a": 1}}, "the prompt is not text"),
        ({"prompt": "a" * 20_001}, "20001 characters"),
        ({"method": "telepathy"}, "unknown method 'telepathy'; known are plain"),
        ({"method": 7}, "method is not a string; give one of the names that `methods` lists"),
        ({"method": ["aded"]}, "method is not a string; give one of the names that `methods` lists"),
        ({"max_new_tokens": "many"}, "max_new_tokens is not a number"),
        ({"max_new_tokens": 1.5}, "max new tokens is 1.5; give a whole number"),
        ({"max_new_tokens": True}, "max_new_tokens is not a number"),
        ({"max_new_tokens": 10**4000}, "max_new_tokens is out of range; give a number from 1 to 100000"),
        ({"max_new_tokens": 0}, "max_new_tokens is out of range; give a number from 1 to 100000"),
        ({"max_new_tokens": 100_001}, "max_new_tokens is out of range; give a number from 1 to 100000"),
        ({"temperature": 3}, "temperature is out of range; give a number from 0 to 2"),
        ({"top_p": 0.0001}, "top_p is out of range; give a number from 0.01 to 1"),
        ({"top_k": -1}, "top_k is out of range; give a number from 0 to 1000000"),
        ({"seed": 2**53}, "seed is out of range; give a number from 0 to 9007199254740991"),
        ({"seed": []}, "seed is not a number"),
        ({"budget": "lots"}, "draft budget is 'lots'"),
        ({"budget": {"a": 1}}, "draft budget is"),
        ({"model": "someone/else"}, "the model 'someone/else' is not available here; give one of: default, second"),
        ({"model": 7}, "the model is not a string"),
    ],
)
def test_invalid_arguments_are_refused_in_one_sentence(client: Client, arguments: dict[str, Any], words: str):
    with pytest.raises(Exception, match=words):
        client.predict(**{"prompt": "hello", **arguments}, api_name="/generate")


def test_more_tokens_than_the_limit_are_cut_with_a_notice(client: Client):
    last = client.predict("hello", max_new_tokens=5000, api_name="/generate")
    assert last["notices"] == ["This server writes at most 64 new tokens."]


def test_a_second_run_of_a_session_is_refused_and_a_run_of_another_session_waits(gated: tuple[str, GatedEngine, Service]):
    address, engine, service = gated
    first, other = api_client(address), api_client(address)
    running = first.submit("hello", api_name="/generate")
    assert engine.on.wait(HANG)
    with pytest.raises(Exception, match="One race at a time"):
        first.predict("hello", api_name="/generate")
    waiting = other.submit("hello", api_name="/generate")
    until(lambda: service.scheduler.waiting == 1)
    third = api_client(address)
    with pytest.raises(Exception, match="The server is busy: 2 requests are in progress or queued"):
        third.predict("hello", api_name="/generate")
    until(lambda: len(waiting.outputs()) > 0)
    assert (waiting.outputs()[0]["state"], waiting.outputs()[0]["place"]) == ("waiting", 1)
    engine.gate.set()
    assert running.result()["text"] == waiting.result()["text"] == WORDS
    for each in (first, other, third):
        each.close()


def messages_of(address: str, event: str) -> list[str]:
    """All messages of a call's stream."""
    lines = []
    with http.stream("GET", f"{address}/gradio_api/call/generate/{event}") as answer:
        for line in answer.iter_lines():
            lines += [line] if line else []
    return [f"{kind.removeprefix('event: ')} {data}" for kind, data in itertools.pairwise(lines) if kind.startswith("event: ")]


def posted(address: str, session: str) -> str:
    data = ["hello", "aded", 32, 0, 1, 0, 0, "auto", ""]
    answer = http.post(f"{address}/gradio_api/call/generate", json={"data": data, "session_hash": session})
    return str(answer.json()["event_id"])


def test_two_calls_of_a_named_session_each_receive_their_own_answers(gated: tuple[str, GatedEngine, Service]):
    address, engine, service = gated
    first = posted(address, "mine")
    assert engine.on.wait(HANG)
    refused = messages_of(address, posted(address, "mine"))
    assert [answer.split(" ", 1)[0] for answer in refused] == ["error"]
    assert "One race at a time" in refused[0]
    engine.gate.set()
    answers = messages_of(address, first)
    kind, _, data = answers[-1].partition(" data: ")
    assert (kind, json.loads(data)[0]["text"]) == ("complete", WORDS)
    assert all("error" not in answer.split(" ", 1)[0] for answer in answers)
    assert service.counters.value("aded_refusals_total", {"reason": "one"}) == 1


def test_a_call_of_a_named_session_can_be_cancelled(gated: tuple[str, GatedEngine, Service]):
    address, engine, service = gated
    event = posted(address, "mine")
    assert engine.on.wait(HANG)
    functions = http.get(f"{address}/config").json()["dependencies"]
    index = next(function["id"] for function in functions if function["api_name"] == "generate")
    body = {"session_hash": "mine", "fn_index": index, "event_id": event}
    others = {**body, "session_hash": "other"}
    assert http.post(f"{address}/gradio_api/cancel", json=others).status_code == 404
    assert service.scheduler._running_jobs()[0].control.reason is None
    assert http.post(f"{address}/gradio_api/cancel", json=body).json() == {"success": True}
    engine.gate.set()
    kind, _, data = messages_of(address, event)[-1].partition(" data: ")
    last = json.loads(data)[0]
    assert (kind, last["state"]) == ("complete", "stopped")
    assert last["text"]
    assert last["text"] != WORDS
    assert service.counters.value("aded_runs_total", {"outcome": "stopped"}) == 1


def test_a_call_that_is_cancelled_in_the_queue_ends_as_stopped():
    engine = GatedEngine()
    service = fake_service(engine, at_once=1)
    with serving(service) as address:
        running, waits = posted(address, "first"), posted(address, "second")
        assert engine.on.wait(HANG)
        until(lambda: service.scheduler.waiting == 1)
        body = {"session_hash": "second", "fn_index": 0, "event_id": waits}
        assert http.post(f"{address}/gradio_api/cancel", json=body).status_code == 200
        engine.gate.set()
        assert '"state": "stopped"' in messages_of(address, waits)[-1]
        assert '"state": "done"' in messages_of(address, running)[-1]


def test_an_endpoint_that_streams_cannot_be_called_for_a_single_answer(address: str):
    functions = http.get(f"{address}/config").json()["dependencies"]
    index = next(function["id"] for function in functions if function["api_name"] == "generate")
    data = ["hello", "plain", 8, 0, 1, 0, 0, "auto", ""]
    for path, more in (("run/generate", {}), ("run/generate/", {}), ("run/predict", {"fn_index": index})):
        answer = http.post(f"{address}/gradio_api/{path}", json={"data": data, **more})
        assert answer.status_code == 400
        assert "/gradio_api/call/v2/" in answer.json()["error"]
    assert http.post(f"{address}/gradio_api/run/methods", json={"data": []}).status_code == 200


def test_a_cancelled_job_frees_the_model(gated: tuple[str, GatedEngine, Service]):
    address, engine, service = gated
    client = api_client(address)
    job = client.submit("hello", api_name="/generate")
    assert engine.on.wait(HANG)
    until(lambda: len(job.outputs()) > 0)
    job.cancel()
    until(lambda: service.scheduler._running_jobs()[0].control.reason == "stopped")
    engine.gate.set()
    until(lambda: service.scheduler.running == 0)
    assert service.counters.value("aded_runs_total", {"outcome": "stopped"}) == 1
    client.close()


def test_a_client_that_vanishes_mid_stream_frees_the_model(gated: tuple[str, GatedEngine, Service]):
    address, engine, service = gated
    event = http.post(f"{address}/gradio_api/call/v2/generate", json={"prompt": "hello"}).json()["event_id"]
    with http.stream("GET", f"{address}/gradio_api/call/v2/generate/{event}") as answer:
        assert "generating" in next(answer.iter_lines())
        assert engine.on.wait(HANG)
    engine.pause = 0.05
    engine.gate.set()
    until(lambda: service.scheduler.running == 0)
    assert service.counters.value("aded_runs_total", {"outcome": "left"}) == 1


def test_plain_http_gives_server_sent_events(address: str):
    event = http.post(f"{address}/gradio_api/call/v2/generate", json={"prompt": "hello"}).json()["event_id"]
    with http.stream("GET", f"{address}/gradio_api/call/v2/generate/{event}") as answer:
        lines = [line for line in answer.iter_lines() if line]
    assert lines[-2] == "event: complete"
    assert json.loads(lines[-1].removeprefix("data: "))[0]["text"] == WORDS


class OneBadRun(FakeEngine):
    """Its first run ends as on a GPU without free memory."""

    def race(self, decoders: Any, prompts: Any) -> Iterator[Any]:
        import torch

        if prompts[0] == "too much":
            yield next(super().race(decoders, prompts))
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        yield from super().race(decoders, prompts)


def test_a_failed_run_is_reported_and_the_next_one_works():
    service = fake_service(OneBadRun())
    with serving(service) as address:
        client = api_client(address)
        with pytest.raises(Exception, match="the run failed: OutOfMemoryError; try again"):
            client.predict("too much", api_name="/generate")
        assert client.predict("hello", api_name="/generate")["text"] == WORDS
        assert service.counters.value("aded_runs_total", {"outcome": "failed"}) == 1
        client.close()


def test_tools_are_listed_with_descriptions_and_can_be_called(address: str):
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    async def use() -> tuple[list[Any], list[Any]]:
        url = f"{address}/gradio_api/mcp/"
        async with streamable_http_client(url) as (read, write, *_), ClientSession(read, write) as session:
            await session.initialize()
            tools = (await session.list_tools()).tools
            calls = [session.call_tool("generate", {"prompt": "hello"}) for _ in range(3)]
            wrong = session.call_tool("generate", {"prompt": "hello", "method": "telepathy"})
            return tools, list(await asyncio.gather(*calls, wrong))

    tools, (*answers, wrong) = asyncio.run(use())
    assert {tool.name for tool in tools} == set(NAMES)
    for tool in tools:
        assert len(tool.description) > 60
        assert all(field.get("description") for field in tool.inputSchema["properties"].values()), tool.name
    assert all(not answer.isError and WORDS[:40] in answer.content[0].text for answer in answers)
    assert wrong.isError
    assert "unknown method" in wrong.content[0].text


def test_the_row_of_a_text_is_that_of_its_last_bigram(monkeypatch: pytest.MonkeyPatch):
    import numpy as np
    from fakes import WordTokenizer

    from aded.core.errors import AdedError
    from aded.ngram.trigram import TrigramMatrix
    from ui.serving import api

    tokenizer = WordTokenizer()
    model = SimpleNamespace(tokenizer=tokenizer, spec="org/model")
    first, second = tokenizer("two words")["input_ids"]
    text = np.array([first, second, 11, 0, first, second, 11, 0, first, second, 12, 0])
    matrix = TrigramMatrix.build(text, separator=0, vocab_size=97, fingerprint="f")
    monkeypatch.setattr(api, "matrix_for", lambda model: matrix)
    found = api.row_of(model, "now two words")
    assert found["bigram"] == found["pair"] == [first, second]
    best = found["successors"][0]
    assert (best["token"], round(best["probability"], 3)) == (11, 0.667)
    assert api.row_of(model, "never seen")["known"] is False
    with pytest.raises(AdedError, match="fewer than two tokens"):
        api.row_of(model, "one")
    monkeypatch.setattr(api, "matrix_for", lambda model: None)
    with pytest.raises(AdedError, match="make what is missing with `python -m aded prepare org/model`$"):
        api.row_of(model, "two words")


def test_a_race_without_a_step_does_not_compare_texts():
    from ui.serving import api

    assert api.race_result([])["identical"] is None


def test_descriptions_of_numbers_give_their_limits(address: str):
    tools = http.get(f"{address}/gradio_api/mcp/schema").json()
    for tool in tools:
        properties = tool["inputSchema"]["properties"]
        for name in {"max_new_tokens", "temperature", "top_p", "top_k", "seed"} & set(properties):
            minimum, maximum = FIELDS[name].minimum, FIELDS[name].maximum
            assert all(str(bound) in re.findall(r"[0-9.]*[0-9]", properties[name]["description"]) for bound in (minimum, maximum))
    document = (ROOT / "docs" / "api.md").read_text("utf-8")
    for name in ("temperature", "top_p", "top_k", "seed"):
        assert f"{name} from {FIELDS[name].minimum} to {FIELDS[name].maximum}" in document


def test_the_documents_examples_run(address: str, monkeypatch: pytest.MonkeyPatch):
    from ui.serving import api

    monkeypatch.setattr(api, "row_of", lambda model, text: {"successors": [{"text": " know"}]})
    blocks = re.findall(r"```(python|sh)\n(.*?)```", (ROOT / "docs" / "api.md").read_text("utf-8"), re.DOTALL)
    assert [kind for kind, _ in blocks] == ["python", "sh", "sh", "python", "sh"]
    for kind, block in blocks:
        code = block.replace("http://127.0.0.1:7860", address)
        command = [sys.executable, "-c", code] if kind == "python" else ["sh", "-c", code]
        if kind == "python" or shutil.which("curl"):
            done = subprocess.run(command, capture_output=True, text=True, timeout=HANG)
            assert done.returncode == 0, done.stderr
            assert WORDS[:40] in done.stdout
