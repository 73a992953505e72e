"""Load on the real model: many sessions with mixed runs, stops and disconnects, for ADED_LOAD_MINUTES minutes.

``ADED_LOAD_MINUTES=15 ADED_LOAD_OUT=bench/results/load python -m pytest tests/ui/test_load.py`` saves the measurements.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import random
import re
import signal
import statistics
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import httpx
import pytest
from app_process import running_app

pytestmark = [pytest.mark.long, pytest.mark.timing, pytest.mark.model]

SESSIONS = 50
WARM_UP = 120.0
"""Seconds after which memory must no longer grow: runs of every kind have been active together by then."""
MINUTES = max(3.0, float(os.environ.get("ADED_LOAD_MINUTES") or 3))
"""At least as long as the check of the memory needs."""
OUT = os.environ.get("ADED_LOAD_OUT")
PROMPTS = ("Why is the sky blue?", "Count from one to twenty.")
METHODS = ("plain", "aded", "prompt-lookup")
TOKENS = 20
KINDS = ("whole", "whole", "race", "stop", "vanish")
REFUSALS = re.compile("The server is busy|One race at a time")
HANG = 900.0
"""Seconds after which a run counts as hanging, including its time in the queue."""
GROWTH = 64 << 20
"""Bytes by which memory may grow after the warm-up."""


class TimeOver(Exception):
    """The time of the test ended while a run waited in the queue."""


@dataclass
class Results:
    """What the sessions measured and what went wrong."""

    outcomes: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    first_tokens: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)
    pages: list[float] = field(default_factory=list)
    memory: list[tuple[float, float]] = field(default_factory=list)
    until: float = 0.0

    @property
    def over(self) -> bool:
        """Whether the time of the test is over."""
        return time.monotonic() >= self.until


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running_app(end=signal.SIGTERM) as (url, _):
        yield url.rstrip("/")


def test_fifty_sessions_are_served_separately_fairly_and_within_limits(server: str):
    results, solo_steps = asyncio.run(load(server))
    figures = figures_of(server, results, solo_steps)
    if OUT:
        Path(OUT).mkdir(parents=True, exist_ok=True)
        (Path(OUT) / "results.json").write_text(json.dumps(figures, indent=1) + "\n")
    print(json.dumps(figures, indent=1))
    assert results.problems == []
    assert min(results.outcomes[kind] for kind in ("whole", "race", "stop", "vanish")) > 0
    assert figures["page_seconds"]["p95"] < 1
    assert figures["memory_growth_bytes"] < GROWTH
    assert figures["still_running"] == 0


async def load(address: str) -> tuple[Results, list[float]]:
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=address, timeout=HANG, limits=limits) as http:
        solo, solo_steps = await alone(http)
        results = Results(until=time.monotonic() + 60 * MINUTES)
        watchers = [watch_page(http, results), watch_memory(http, results)]
        await asyncio.gather(*(visit(http, f"load{i}", results, solo) for i in range(SESSIONS)), *watchers)
        await until_idle(http)
    return results, solo_steps


async def alone(http: httpx.AsyncClient) -> tuple[dict[tuple[str, str], str], list[float]]:
    """The text of each prompt by each method without other sessions, and the seconds per step."""
    texts, steps = {}, []
    try:
        for prompt in PROMPTS:
            for method in METHODS:
                last = [answer async for answer in answers(http, "alone", "generate", prompt, method)][-1]
                texts[prompt, method] = last["text"]
                steps.append(step_seconds(last["summary"]))
    except RuntimeError as error:
        pytest.skip(f"no model here: {error}")
    return texts, steps


async def answers(
    http: httpx.AsyncClient, session: str, name: str, prompt: str, methods: Any
) -> AsyncGenerator[dict[str, Any], None]:
    """The answers of a run, by server-sent events.

    Raises:
        RuntimeError: the run was refused or failed, with the message.
    """
    call = {"data": [prompt, methods, TOKENS, 0.0, 1.0, 0, 0, "auto", ""], "session_hash": session}
    response = await http.post(f"/gradio_api/call/{name}", json=call)
    if response.status_code != 200:
        raise RuntimeError(f"{response.status_code}: {response.text}")
    event = response.json()["event_id"]
    async with http.stream("GET", f"/gradio_api/call/{name}/{event}") as stream:
        kind = ""
        async for line in stream.aiter_lines():
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: ") and kind in ("generating", "complete"):
                data = json.loads(line.removeprefix("data: "))
                if data:  # a run that was cancelled before its start ends without data
                    yield {**data[0], "event_id": event}
            elif line.startswith("data: ") and kind == "error":
                raise RuntimeError(line)


async def visit(http: httpx.AsyncClient, session: str, results: Results, solo: dict[tuple[str, str], str]) -> None:
    """One visitor: runs of every kind, one after another, until the time is over; a new session after a stop or a disconnect.

    (The stream of a call has all messages of its session, also those of the run that was just cancelled.)
    """
    rng, tab = random.Random(session), 0
    await asyncio.sleep(rng.random())
    while not results.over:
        kind, prompt, method = rng.choice(KINDS), rng.choice(PROMPTS), rng.choice(METHODS)
        tab += kind == "vanish"
        try:
            await asyncio.wait_for(RUNS[kind](http, f"{session}-{tab}", prompt, method, results, solo), HANG)
            tab += kind in ("vanish", "stop")
            results.outcomes[kind] += 1
        except TimeOver:
            results.outcomes["went home"] += 1
        except RuntimeError as error:
            if REFUSALS.search(str(error)):
                results.outcomes["refused"] += 1
                await asyncio.sleep(1 + rng.random())
            else:
                results.problems.append(f"{kind}: {error}")
        except (httpx.HTTPError, asyncio.TimeoutError) as error:
            results.problems.append(f"{kind}: {error!r}")
            tab += 1


async def whole(http: httpx.AsyncClient, session: str, prompt: str, method: str, results: Results, solo: Any) -> None:
    started, first, last = time.monotonic(), None, {}
    async with aclosing(answers(http, session, "generate", prompt, method)) as stream:
        async for last in stream:
            if first is None and last["tokens"]:
                first = time.monotonic() - started
            if last["place"] and results.over:
                raise TimeOver
    expect(results, last["text"] == solo[prompt, method], f"{method} wrote {last['text']!r} for {prompt!r}")
    if first is not None and last["state"] == "done":
        results.first_tokens.append(first)
        results.steps.append(step_seconds(last["summary"]))


async def race(http: httpx.AsyncClient, session: str, prompt: str, method: str, results: Results, solo: Any) -> None:
    both = ["plain", method if method != "plain" else "aded"]
    last: dict[str, Any] = {}
    async with aclosing(answers(http, session, "race", prompt, both)) as stream:
        async for last in stream:
            if last["place"] and results.over:
                raise TimeOver
    texts = [run["text"] for run in last["lanes"]]
    expect(results, texts == [solo[prompt, name] for name in both], f"{both} wrote {texts!r} for {prompt!r}")


async def stop(http: httpx.AsyncClient, session: str, prompt: str, method: str, results: Results, solo: Any) -> None:
    """Cancel after some tokens; the text until then is a prefix of the text without other sessions."""
    pressed = False
    async with aclosing(answers(http, session, "generate", prompt, method)) as stream:
        async for answer in stream:
            expect(
                results, solo[prompt, method].startswith(answer["text"].rstrip("\ufffd")), f"{method} wrote {answer['text']!r}"
            )
            if answer["place"] and results.over:
                raise TimeOver
            if answer["tokens"] >= 8 and not pressed:
                pressed = True
                body = {"session_hash": session, "fn_index": -1, "event_id": answer["event_id"]}
                await http.post("/gradio_api/cancel", json=body)


async def vanish(http: httpx.AsyncClient, session: str, prompt: str, method: str, results: Results, solo: Any) -> None:
    """Disconnect in the middle: in the queue or while tokens are written."""
    async with aclosing(answers(http, session, "generate", prompt, method)) as stream:
        async for answer in stream:
            if answer["tokens"] or answer["place"]:
                return


RUNS = {"whole": whole, "race": race, "stop": stop, "vanish": vanish}


def expect(results: Results, holds: bool, problem: str) -> None:
    if not holds:
        results.problems.append(problem)


def step_seconds(summary: dict[str, Any]) -> float:
    return summary["decode_seconds"] / summary["steps"]


async def watch_page(http: httpx.AsyncClient, results: Results) -> None:
    while not results.over:
        started = time.monotonic()
        answer = await http.get("/")
        results.pages.append(time.monotonic() - started)
        expect(results, answer.status_code == 200, f"the page answered {answer.status_code}")
        await asyncio.sleep(1)


async def watch_memory(http: httpx.AsyncClient, results: Results) -> None:
    begin = time.monotonic()
    while not results.over:
        results.memory.append((time.monotonic() - begin, await sample(http, "process_resident_memory_bytes")))
        await asyncio.sleep(2)


async def sample(http: httpx.AsyncClient, name: str) -> float:
    lines = (await http.get("/metrics")).text.splitlines()
    return float(next(line.rsplit(" ", 1)[1] for line in lines if line.startswith(f"{name} ")))


async def until_idle(http: httpx.AsyncClient) -> None:
    """Wait until no run is active, which takes a moment after the last visitor has left."""
    for _ in range(100):
        if await sample(http, "aded_running") == 0:
            return
        await asyncio.sleep(0.1)


def figures_of(address: str, results: Results, solo_steps: list[float]) -> dict[str, Any]:
    """The measurements, with the machine and the versions."""
    import torch

    import aded

    metrics = httpx.get(f"{address}/metrics", timeout=HANG).text
    flat = [value for at, value in results.memory if at >= WARM_UP]
    third = max(1, len(flat) // 3)
    return {
        "command": f"ADED_LOAD_MINUTES={MINUTES:g} python -m pytest tests/ui/test_load.py",
        "machine": f"{os.cpu_count()} cores, {platform.machine()}; clients on the same machine",
        "versions": {"aded": aded.__version__, "torch": torch.__version__, "python": platform.python_version()},
        "sessions": SESSIONS,
        "minutes": MINUTES,
        "outcomes": dict(results.outcomes),
        "problems": results.problems[:20],
        "tokens": float(re.findall(r"^aded_tokens_total (\S+)", metrics, re.MULTILINE)[0]),
        "first_token_seconds": percentiles(results.first_tokens),
        "step_seconds_alone": percentiles(solo_steps),
        "step_seconds_under_load": percentiles(results.steps),
        "page_seconds": percentiles(results.pages),
        "memory_bytes_by_minute": [statistics.median(values) for values in by_minute(results.memory)],
        "memory_after_warm_up_bytes": statistics.median(flat[:third]),
        "memory_growth_bytes": statistics.median(flat[-third:]) - statistics.median(flat[:third]),
        "still_running": float(re.findall(r"^aded_running (\S+)", metrics, re.MULTILINE)[0]),
    }


def by_minute(samples: list[tuple[float, float]]) -> Iterator[list[float]]:
    for _, group in groupby(samples, lambda sample: sample[0] // 60):
        yield [value for _, value in group]


def percentiles(values: list[float]) -> dict[str, float]:
    if len(values) < 2:
        return {"count": len(values)}
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return {"count": len(values), "p50": round(cuts[49], 4), "p95": round(cuts[94], 4), "p99": round(cuts[98], 4)}
