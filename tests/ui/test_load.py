"""Many people at once on the real model: mixed runs, stops and disconnects, for as many minutes as ADED_LOAD_MINUTES says.

``ADED_LOAD_MINUTES=15 ADED_LOAD_OUT=bench/results/load python -m pytest tests/test_load.py`` keeps the figures.
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
from browsing import running_app

pytestmark = [pytest.mark.long, pytest.mark.timing, pytest.mark.model]

SESSIONS = 50
WARM_UP = 120.0
"""Seconds after which memory has to be flat: by then runs of every kind have been on together, and the allocator has its room."""
MINUTES = max(3.0, float(os.environ.get("ADED_LOAD_MINUTES") or 3))
"""No fewer than show it."""
OUT = os.environ.get("ADED_LOAD_OUT")
PROMPTS = ("Why is the sky blue?", "Count from one to twenty.")
METHODS = ("plain", "aded", "prompt-lookup")
TOKENS = 20
KINDS = ("whole", "whole", "race", "stop", "vanish")
REFUSALS = re.compile("The server is busy|One race at a time")
HANG = 900.0
"""Seconds after which a run counts as hanging, its time in line included."""
GROWTH = 64 << 20
"""Bytes that memory may still grow by after its warm-up."""


class WentHome(Exception):
    """The time was over while a run stood in line."""


@dataclass
class Seen:
    """What the load has met."""

    outcomes: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    first_tokens: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)
    pages: list[float] = field(default_factory=list)
    memory: list[tuple[float, float]] = field(default_factory=list)
    until: float = 0.0

    @property
    def over(self) -> bool:
        """Whether it is time to go home."""
        return time.monotonic() >= self.until


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running_app(end=signal.SIGTERM) as (url, _):
        yield url.rstrip("/")


def test_fifty_sessions_are_served_apart_fairly_and_within_bounds(server: str):
    seen, solo_steps = asyncio.run(load(server))
    figures = figures_of(server, seen, solo_steps)
    if OUT:
        Path(OUT).mkdir(parents=True, exist_ok=True)
        (Path(OUT) / "results.json").write_text(json.dumps(figures, indent=1) + "\n")
    print(json.dumps(figures, indent=1))
    assert seen.problems == []
    assert min(seen.outcomes[kind] for kind in ("whole", "race", "stop", "vanish")) > 0
    assert figures["page_seconds"]["p95"] < 1
    assert figures["memory_growth_bytes"] < GROWTH
    assert figures["still_running"] == 0


async def load(address: str) -> tuple[Seen, list[float]]:
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=address, timeout=HANG, limits=limits) as http:
        solo, solo_steps = await alone(http)
        seen = Seen(until=time.monotonic() + 60 * MINUTES)
        watchers = [watch_page(http, seen), watch_memory(http, seen)]
        await asyncio.gather(*(visit(http, f"load{i}", seen, solo) for i in range(SESSIONS)), *watchers)
        await settled(http)
    return seen, solo_steps


async def alone(http: httpx.AsyncClient) -> tuple[dict[tuple[str, str], str], list[float]]:
    """Each prompt's text by each method with nobody else there, and seconds a step then."""
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
    """A run's answers by server-sent events.

    Raises:
        RuntimeError: it was refused or failed, with the words.
    """
    call = {"data": [prompt, methods, TOKENS, 0.0, 1.0, 0, 0, "auto", ""], "session_hash": session}
    begun = await http.post(f"/gradio_api/call/{name}", json=call)
    if begun.status_code != 200:
        raise RuntimeError(f"{begun.status_code}: {begun.text}")
    event = begun.json()["event_id"]
    async with http.stream("GET", f"/gradio_api/call/{name}/{event}") as stream:
        kind = ""
        async for line in stream.aiter_lines():
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: ") and kind in ("generating", "complete"):
                told = json.loads(line.removeprefix("data: "))
                if told:  # one that was cancelled before it began ends with nothing
                    yield {**told[0], "event_id": event}
            elif line.startswith("data: ") and kind == "error":
                raise RuntimeError(line)


async def visit(http: httpx.AsyncClient, session: str, seen: Seen, solo: dict[tuple[str, str], str]) -> None:
    """One visitor: runs of every kind, one after the other, until the time is over; who stopped or hung up comes as a new one.

    (The stream of a call tells all messages of its session, those of the run that was just cancelled too.)
    """
    rng, tab = random.Random(session), 0
    await asyncio.sleep(rng.random())
    while not seen.over:
        kind, prompt, method = rng.choice(KINDS), rng.choice(PROMPTS), rng.choice(METHODS)
        tab += kind == "vanish"
        try:
            await asyncio.wait_for(RUNS[kind](http, f"{session}-{tab}", prompt, method, seen, solo), HANG)
            tab += kind in ("vanish", "stop")
            seen.outcomes[kind] += 1
        except WentHome:
            seen.outcomes["went home"] += 1
        except RuntimeError as error:
            if REFUSALS.search(str(error)):
                seen.outcomes["refused"] += 1
                await asyncio.sleep(1 + rng.random())
            else:
                seen.problems.append(f"{kind}: {error}")
        except (httpx.HTTPError, asyncio.TimeoutError) as error:
            seen.problems.append(f"{kind}: {error!r}")
            tab += 1


async def whole(http: httpx.AsyncClient, session: str, prompt: str, method: str, seen: Seen, solo: Any) -> None:
    started, first, last = time.monotonic(), None, {}
    async with aclosing(answers(http, session, "generate", prompt, method)) as told:
        async for last in told:
            if first is None and last["tokens"]:
                first = time.monotonic() - started
            if last["place"] and seen.over:
                raise WentHome
    expect(seen, last["text"] == solo[prompt, method], f"{method} wrote {last['text']!r} for {prompt!r}")
    if first is not None and last["state"] == "done":
        seen.first_tokens.append(first)
        seen.steps.append(step_seconds(last["summary"]))


async def race(http: httpx.AsyncClient, session: str, prompt: str, method: str, seen: Seen, solo: Any) -> None:
    pair = ["plain", method if method != "plain" else "aded"]
    last: dict[str, Any] = {}
    async with aclosing(answers(http, session, "race", prompt, pair)) as told:
        async for last in told:
            if last["place"] and seen.over:
                raise WentHome
    texts = [lane["text"] for lane in last["lanes"]]
    expect(seen, texts == [solo[prompt, name] for name in pair], f"{pair} wrote {texts!r} for {prompt!r}")


async def stop(http: httpx.AsyncClient, session: str, prompt: str, method: str, seen: Seen, solo: Any) -> None:
    """Cancel after some tokens; what was written by then is the beginning of what is written alone."""
    pressed = False
    async with aclosing(answers(http, session, "generate", prompt, method)) as told:
        async for answer in told:
            expect(seen, solo[prompt, method].startswith(answer["text"].rstrip("\ufffd")), f"{method} wrote {answer['text']!r}")
            if answer["place"] and seen.over:
                raise WentHome
            if answer["tokens"] >= 8 and not pressed:
                pressed = True
                body = {"session_hash": session, "fn_index": -1, "event_id": answer["event_id"]}
                await http.post("/gradio_api/cancel", json=body)


async def vanish(http: httpx.AsyncClient, session: str, prompt: str, method: str, seen: Seen, solo: Any) -> None:
    """Hang up in the middle, in line or while it writes."""
    async with aclosing(answers(http, session, "generate", prompt, method)) as told:
        async for answer in told:
            if answer["tokens"] or answer["place"]:
                return


RUNS = {"whole": whole, "race": race, "stop": stop, "vanish": vanish}


def expect(seen: Seen, held: bool, words: str) -> None:
    if not held:
        seen.problems.append(words)


def step_seconds(summary: dict[str, Any]) -> float:
    return summary["decode_seconds"] / summary["steps"]


async def watch_page(http: httpx.AsyncClient, seen: Seen) -> None:
    while not seen.over:
        started = time.monotonic()
        answer = await http.get("/")
        seen.pages.append(time.monotonic() - started)
        expect(seen, answer.status_code == 200, f"the page answered {answer.status_code}")
        await asyncio.sleep(1)


async def watch_memory(http: httpx.AsyncClient, seen: Seen) -> None:
    begin = time.monotonic()
    while not seen.over:
        seen.memory.append((time.monotonic() - begin, await sample(http, "process_resident_memory_bytes")))
        await asyncio.sleep(2)


async def sample(http: httpx.AsyncClient, name: str) -> float:
    lines = (await http.get("/metrics")).text.splitlines()
    return float(next(line.rsplit(" ", 1)[1] for line in lines if line.startswith(f"{name} ")))


async def settled(http: httpx.AsyncClient) -> None:
    """Wait until nothing runs, which takes a moment after the last visitor has gone."""
    for _ in range(100):
        if await sample(http, "aded_running") == 0:
            return
        await asyncio.sleep(0.1)


def figures_of(address: str, seen: Seen, solo_steps: list[float]) -> dict[str, Any]:
    """The figures, with where they were taken."""
    import torch

    import aded

    metrics = httpx.get(f"{address}/metrics").text
    flat = [value for at, value in seen.memory if at >= WARM_UP]
    third = max(1, len(flat) // 3)
    return {
        "command": f"ADED_LOAD_MINUTES={MINUTES:g} python -m pytest tests/test_load.py",
        "machine": f"{os.cpu_count()} cores, {platform.machine()}; clients on the same machine",
        "versions": {"aded": aded.__version__, "torch": torch.__version__, "python": platform.python_version()},
        "sessions": SESSIONS,
        "minutes": MINUTES,
        "outcomes": dict(seen.outcomes),
        "problems": seen.problems[:20],
        "tokens": float(re.findall(r"^aded_tokens_total (\S+)", metrics, re.MULTILINE)[0]),
        "first_token_seconds": percentiles(seen.first_tokens),
        "step_seconds_alone": percentiles(solo_steps),
        "step_seconds_under_load": percentiles(seen.steps),
        "page_seconds": percentiles(seen.pages),
        "memory_bytes_by_minute": [statistics.median(values) for values in by_minute(seen.memory)],
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
