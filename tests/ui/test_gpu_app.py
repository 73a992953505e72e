"""The whole app on a GPU, as its clients see it: wall-clock time beside decode time, over HTTP.

``ADED_GPU_APP_OUT=bench/results/gpu-app python -m pytest -m gpu tests/ui/test_gpu_app.py`` saves the measurements.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from app_process import running_app
from waiting import HANG

pytestmark = [pytest.mark.gpu, pytest.mark.timing, pytest.mark.model]
OUT = os.environ.get("ADED_GPU_APP_OUT")
PROMPTS = (
    "Explain in a few sentences why the sky is blue.",
    "List the planets of the solar system and say one thing about each.",
    "Write a Python function that returns the sum of the squares of a list.",
    "Count from one to forty in words.",
)
METHODS = ["plain", "aded", "medusa"]
TOKENS = 100
AT_ONCE = 12
REPEATS = 8
HTTP = httpx.Client(timeout=HANG, limits=httpx.Limits(max_connections=None))
"""One for all calls: making a client takes as long as a generation."""


def call(address: str, session: str, name: str, prompt: str, methods: Any, tokens: int = TOKENS) -> tuple[float, dict[str, Any]]:
    """Wall-clock seconds and the last answer of a call of an endpoint, by server-sent events."""
    body = {"data": [prompt, methods, tokens, 0.0, 1.0, 0, 0, "auto", ""], "session_hash": session}
    started, last, kind = time.perf_counter(), {}, ""
    event = HTTP.post(f"{address}/gradio_api/call/{name}", json=body).json()["event_id"]
    with HTTP.stream("GET", f"{address}/gradio_api/call/{name}/{event}") as stream:
        for line in stream.iter_lines():
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: "):
                assert kind != "error", line
                data = json.loads(line.removeprefix("data: "))
                last = data[0] if kind in ("generating", "complete") and data else last
    assert last["state"] == "done", last
    return time.perf_counter() - started, last


def race_on_the_page(address: str, session: str, prompt: str) -> tuple[float, list[dict[str, Any]]]:
    """Wall-clock seconds of a race with the page's own settings, and its JSON lines, from the event that the button starts."""
    config = HTTP.get(f"{address}/config").json()
    values = {part["id"]: part["props"].get("value") for part in config["components"]}
    prompts = {part["id"] for part in config["components"] if part["props"].get("elem_id") == "ax-prompt"}
    function = next(one for one in config["dependencies"] if one["api_name"] == "race_methods")
    data = [prompt if part in prompts else values[part] for part in function["inputs"]]
    started, view = time.perf_counter(), ""
    body = {"fn_index": function["id"], "data": data, "session_hash": session, "trigger_id": None}
    assert HTTP.post(f"{address}/gradio_api/queue/join", json=body).status_code == 200
    parts: list[Any] = []
    with HTTP.stream("GET", f"{address}/gradio_api/queue/data?session_hash={session}") as stream:
        for line in stream.iter_lines():
            message = json.loads(line.removeprefix("data: ")) if line.startswith("data: ") else {}
            if message.get("msg") == "process_completed":
                assert message["success"], message
                break
            if message.get("msg") == "process_generating":
                parts.append(message["output"]["data"][0])
    seconds = time.perf_counter() - started
    for part in parts:
        view = patched(view, part)
    return seconds, [json.loads(line) for line in view.splitlines()]


def patched(view: Any, part: Any) -> str:
    """The view after an update: a new text, or a difference as Gradio sends it; other updates leave it unchanged."""
    if isinstance(part, str):
        return part
    for change in part if isinstance(part, list) else ():
        action, _, value = change
        view = value if action == "replace" else view + value if action == "append" else view
    return str(view)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running_app() as (url, _):
        yield url.rstrip("/")


def test_the_app_tells_what_its_decodes_take_and_what_passes(address: str):
    started = time.perf_counter()
    call(address, "first", "generate", PROMPTS[0], "aded")
    first = time.perf_counter() - started
    for name in ("race", "trace"):  # every method is prepared and its steps are captured
        call(address, "warm", name, PROMPTS[0], METHODS)
    race_on_the_page(address, "warmpage", PROMPTS[0])

    generations = [call(address, f"g{i}", "generate", PROMPTS[i % len(PROMPTS)], "aded") for i in range(2 * REPEATS)]
    figures: dict[str, Any] = {
        "first_generation_after_start_seconds": round(first, 2),
        "generation": shares([(wall, answer["summary"]["decode_seconds"]) for wall, answer in generations])
        | {"tokens": statistics.mean(answer["tokens"] for _, answer in generations)},
    }
    races = [call(address, f"r{i}", "race", PROMPTS[i % len(PROMPTS)], METHODS) for i in range(REPEATS)]
    figures["race"] = shares([(wall, sum(run["decode_seconds"] for run in answer["lanes"])) for wall, answer in races])
    traces = [call(address, f"t{i}", "trace", PROMPTS[i % len(PROMPTS)], METHODS) for i in range(REPEATS)]
    figures["trace"] = shares([(wall, sum(map(step_seconds, steps_of(answer["trace"])))) for wall, answer in traces]) | {
        "steps": statistics.mean(len(steps_of(answer["trace"])) for _, answer in traces)
    }
    pages = [race_on_the_page(address, f"p{i}", PROMPTS[i % len(PROMPTS)]) for i in range(REPEATS)]
    steps = [[line["step"] for line in lines if line["t"] == "step"] for _, lines in pages]
    assert all(lines[-1] == {"t": "status", "running": False, "kept_prompts": {}} for _, lines in pages), "no race ended"
    figures["race_on_the_page"] = shares([(wall, sum(map(step_seconds, made))) for (wall, _), made in zip(pages, steps)]) | {
        "steps": statistics.mean(map(len, steps))
    }

    figures[f"first_{AT_ONCE}_generations_at_once"] = at_once(address, "first")  # the KV caches of as many decodes are made
    figures[f"{AT_ONCE}_generations_at_once"] = at_once(address, "again")
    write(figures)


def at_once(address: str, name: str) -> dict[str, Any]:
    """Generations of as many visitors at the same time: wall-clock time, tokens, and tokens per second of all."""
    with ThreadPoolExecutor(AT_ONCE) as visitors:
        started = time.perf_counter()
        asked = [(address, f"{name}{i}", "generate", PROMPTS[i % len(PROMPTS)], "aded") for i in range(AT_ONCE)]
        answers = list(visitors.map(lambda one: call(*one), asked))
        wall = time.perf_counter() - started
    tokens = sum(answer["tokens"] for _, answer in answers)
    return {
        "wall_seconds": round(wall, 3),
        "tokens": tokens,
        "tokens_per_second": round(tokens / wall, 1),
        "decode_seconds": round(sum(answer["summary"]["decode_seconds"] for _, answer in answers), 3),
    }


def shares(pairs: list[tuple[float, float]]) -> dict[str, Any]:
    """Medians of wall-clock and decode seconds, and of their ratio."""
    median = statistics.median
    return {
        "calls": len(pairs),
        "wall_seconds": round(median(wall for wall, _ in pairs), 4),
        "decode_seconds": round(median(decode for _, decode in pairs), 4),
        "wall_over_decode": round(median(wall / decode for wall, decode in pairs), 2),
    }


def steps_of(record: dict[str, Any]) -> list[dict[str, Any]]:
    """All steps of a record: a race or a single run."""
    return [step for run in record.get("lanes", [record]) for step in run["steps"]]


def step_seconds(step: dict[str, Any]) -> float:
    return float(sum(step["seconds"].values()))


def write(figures: dict[str, Any]) -> None:
    import torch

    import aded
    from aded.evaluation.bench import results

    result = {
        "command": "python -m pytest -m gpu tests/ui/test_gpu_app.py",
        "machine": f"{torch.cuda.get_device_name()}, {os.cpu_count()} cores; clients on the same machine",
        "versions": {"aded": aded.__version__, "torch": torch.__version__, "commit": results.commit()},
        **figures,
    }
    print(json.dumps(result, indent=1))
    if OUT:
        Path(OUT).mkdir(parents=True, exist_ok=True)
        (Path(OUT) / "results.json").write_text(json.dumps(result, indent=1) + "\n")
