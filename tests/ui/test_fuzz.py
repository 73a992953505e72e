"""Malformed requests and files: never a crash, a hang or a status of 500.

``ADED_FUZZ_REQUESTS=10000 ADED_FUZZ_FILES=1000 python -m pytest tests/ui/test_fuzz.py`` is the long run. Every case is
reproduced by the seed that the failure names.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from serving_fakes import fake_service, serving
from ui_fakes import make_race
from waiting import http

from aded.core import trace
from aded.core.errors import AdedError
from aded.ngram.trigram import TrigramMatrix
from ui.browser.wire import check_drawable, to_lines
from ui.serving.openai.requests import NEUTRAL, USED

REQUESTS = int(os.environ.get("ADED_FUZZ_REQUESTS") or 300)
FILES = int(os.environ.get("ADED_FUZZ_FILES") or 100)
AT_ONCE = 16
HANG = 60.0
"""Seconds after which a request counts as hanging."""
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 1.5, 1e308, -(10**30), 10**400, "", " ", "aded", "a" * 5000, "\ud800", "\x00", "${1+1}"),
    *("<script>", "../../etc/passwd", [], {}, [None], [[[[]]]], ["aded"], ["aded"] * 7, {"path": "/etc/passwd"}),
    *({"path": "http://127.0.0.1/x", "meta": {"_type": "gradio.FileData"}}, {"__type__": "update"}, float("1e-320")),
)
"""Values that no endpoint expects, and some that are valid."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    service = fake_service(queue_size=1000, max_new_tokens=8)
    with serving(service) as found:
        yield found
        assert service.scheduler.running == service.scheduler.waiting == 0
        assert service.counters.value("aded_runs_total", {"outcome": "failed"}) == 0


def test_malformed_requests_made_from_the_endpoints_own_schema_are_answered(address: str):
    statuses = asyncio.run(send_all(address))
    print(dict(statuses))
    assert sum(statuses.values()) == REQUESTS
    assert not [status for status in statuses if status.startswith("5")], statuses
    assert http.get(f"{address}/healthz").json()["status"] == "ok"


async def send_all(address: str) -> Counter[str]:
    statuses: Counter[str] = Counter()
    seeds = iter(range(REQUESTS))
    async with httpx.AsyncClient(base_url=address, timeout=HANG) as http:
        schema = (await http.get("/gradio_api/info")).json()["named_endpoints"]
        functions = (await http.get("/config")).json()["dependencies"]

        async def sender() -> None:
            for seed in seeds:
                try:
                    statuses[await again(lambda seed=seed: send(http, schema, functions, seed))] += 1
                except Exception as error:
                    raise AssertionError(f"seed {seed}: {error!r}") from error

        await asyncio.gather(*(sender() for _ in range(AT_ONCE)))
    return statuses


async def again(request: Callable[[], Awaitable[str]]) -> str:
    """Send a request, and repeat it once if the server was just closing the kept-alive connection."""
    try:
        return await asyncio.wait_for(request(), HANG)
    except (httpx.ReadError, httpx.RemoteProtocolError):
        return await asyncio.wait_for(request(), HANG)


async def send(http: httpx.AsyncClient, schema: dict[str, Any], functions: list[dict[str, Any]], seed: int) -> str:
    """Send one request, and read its stream to the end if it was accepted: the status, or the last kind of message."""
    rng = random.Random(seed)
    kind = rng.choice((by_name, by_keyword, by_index, directly, to_cancel, in_openais_format, anywhere))
    method, path, body = kind(rng, schema, functions)
    content = json.dumps(body).encode() if not isinstance(body, bytes) else body
    if rng.random() < 0.1:
        content = damaged(content, rng)
    answer = await http.request(method, path, content=content, headers={"content-type": "application/json"})
    if answer.status_code != 200 or "/call/" not in path or method != "POST":
        return str(answer.status_code)
    event = answer.json()["event_id"]
    async with http.stream("GET", f"{path.rstrip('/')}/{event}") as stream:
        kinds = [line.removeprefix("event: ") async for line in stream.aiter_lines() if line.startswith("event: ")]
    return f"stream {kinds[-1] if kinds else 'empty'}"


Request = tuple[str, str, Any]


def by_name(rng: random.Random, schema: dict[str, Any], functions: list[dict[str, Any]]) -> Request:
    name, endpoint = rng.choice(sorted(schema.items()))
    data = [value_of(rng, parameter) for parameter in endpoint["parameters"]]
    if rng.random() < 0.2:
        data = data[: rng.randrange(len(data) + 1)] + [rng.choice(ODD) for _ in range(rng.randrange(3))]
    body = {"data": data}
    if rng.random() < 0.2:
        body["session_hash"] = rng.choice(ODD)
    return "POST", f"/gradio_api/call{name}", body


def by_keyword(rng: random.Random, schema: dict[str, Any], functions: list[dict[str, Any]]) -> Request:
    name, endpoint = rng.choice(sorted(schema.items()))
    body = {p["parameter_name"]: value_of(rng, p) for p in endpoint["parameters"] if rng.random() < 0.8}
    if rng.random() < 0.1:
        body[rng.choice(("session_hash", "data", "x"))] = rng.choice(ODD)
    return "POST", f"/gradio_api/call/v2{name}", body


def by_index(rng: random.Random, schema: dict[str, Any], functions: list[dict[str, Any]]) -> Request:
    """A queued call of any function of the page, also the private ones."""
    return "POST", "/gradio_api/queue/join", {**page_call(rng, functions), "session_hash": f"fuzz{rng.randrange(10**9)}"}


def directly(rng: random.Random, schema: dict[str, Any], functions: list[dict[str, Any]]) -> Request:
    return "POST", "/gradio_api/run/predict", page_call(rng, [f for f in functions if not f["queue"]])


def page_call(rng: random.Random, functions: list[dict[str, Any]]) -> dict[str, Any]:
    function = rng.choice(functions)
    count = len(function["inputs"]) + (rng.randrange(-1, 2) if rng.random() < 0.2 else 0)
    call = {"fn_index": function["id"], "data": [rng.choice(ODD) for _ in range(count)], "trigger_id": rng.choice((None, 1))}
    if rng.random() < 0.3:
        call[rng.choice(("event_data", "trigger_id", "fn_index", "simple_format", "batched"))] = rng.choice(ODD)
    return call


def to_cancel(rng: random.Random, schema: dict[str, Any], functions: list[dict[str, Any]]) -> Request:
    body = {"session_hash": "a", "fn_index": 0, "event_id": "b"}
    body[rng.choice(sorted(body))] = rng.choice(ODD)
    return "POST", f"/gradio_api/{rng.choice(('cancel', 'reset'))}", body


def in_openais_format(rng: random.Random, schema: dict[str, Any], functions: list[dict[str, Any]]) -> Request:
    message = {"role": "user", "content": "hello"}
    body = {"model": "default", "messages": [message], "prompt": "hello"}
    path = rng.choice(("chat/completions", "completions"))
    del body["prompt" if path.startswith("chat") else "messages"]
    for _ in range(rng.randrange(3)):
        place = message if rng.random() < 0.3 else body
        place[rng.choice((*place, *USED, *NEUTRAL))] = rng.choice(ODD)
    return "POST", f"/v1/{path}", body


def anywhere(rng: random.Random, schema: dict[str, Any], functions: list[dict[str, Any]]) -> Request:
    words = (
        "v1",
        "models",
        "gradio_api",
        "call",
        "run",
        "queue",
        "data",
        "file=",
        "proxy=",
        "connection",
        "upload",
        "..",
        "%00",
        "x" * 300,
    )
    path = "/" + "/".join(rng.choice(words) for _ in range(rng.randrange(1, 5)))
    method = rng.choice(("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"))
    return ("POST" if "connection" in path else method), path, rng.choice(ODD)


def value_of(rng: random.Random, parameter: dict[str, Any]) -> Any:
    """A value of the parameter's type, often at its limits, or sometimes of another type."""
    if rng.random() < 0.4:
        return rng.choice(ODD)
    kind = parameter["type"].get("type")
    made: dict[str, Callable[[], Any]] = {
        "string": lambda: rng.choice(("hello", "aded", "plain", "auto", "default", "", "7", "漢🙂")),
        "integer": lambda: rng.choice((0, 1, 8, -5, 2**63, 10**9)),
        "number": lambda: rng.choice((0.0, 1.0, 0.5, -1.0, 1e9)),
        "array": lambda: rng.choice((["aded"], ["plain", "aded"], [], ["aded", 1])),
    }
    return made.get(kind, lambda: rng.choice(ODD))()


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The data with some bytes changed, removed, repeated or inserted."""
    found = bytearray(data)
    for _ in range(rng.randrange(1, 8)):
        at = rng.randrange(len(found) + 1)
        change = rng.randrange(4)
        if change == 0 and at < len(found):
            found[at] = rng.randrange(256)
        elif change == 1:
            del found[at : at + rng.randrange(1, 20)]
        elif change == 2:
            found[at:at] = found[at : at + rng.randrange(1, 20)]
        else:
            found[at:at] = rng.randbytes(rng.randrange(1, 5))
    return bytes(found)


def edited(body: Any, rng: random.Random) -> Any:
    """A parsed trace with one value at a random place replaced or removed."""
    found = json.loads(json.dumps(body))
    at = found
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            return found
        key = rng.choice(keys)
        if isinstance(at[key], (dict, list)) and at[key] and rng.random() < 0.85:
            at = at[key]
            continue
        if rng.random() < 0.2:
            del at[key]
        else:
            at[key] = rng.choice([value for value in ODD if value != "\ud800"])
        return found


def test_damaged_traces_are_refused_in_one_sentence_or_can_be_drawn(tmp_path: Path):
    race = make_race(["a", " b", " c", " d", " e", "\n"])
    body, text = trace.to_json(race), trace.dumps(race).encode()
    refused = 0
    for seed in range(FILES):
        rng = random.Random(seed)
        data = damaged(text, rng) if rng.random() < 0.3 else json.dumps(edited(body, rng)).encode()
        try:
            found = trace.loads(data)
            check_drawable(found)
            to_lines(found, {}, "file", "fuzz")
        except AdedError as error:
            refused += len(str(error).splitlines()) == 1
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
    assert refused > FILES // 3


def test_damaged_matrices_are_refused_in_one_sentence_or_can_be_read(tmp_path: Path):
    ids = np.random.default_rng(0).integers(0, 40, 600, dtype=np.int32)
    matrix = TrigramMatrix.build(ids, separator=0, vocab_size=97, fingerprint="f")
    data, refused = matrix.to_bytes(), 0
    path = tmp_path / "m.trigram.safetensors"
    for seed in range(FILES):
        path.write_bytes(damaged(data, random.Random(seed)))
        try:
            found = TrigramMatrix.load(path, fingerprint="f", vocab_size=97)
            found.row(1, 2)
        except AdedError as error:
            refused += len(str(error).splitlines()) == 1
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
    assert refused > FILES // 2
