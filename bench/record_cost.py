"""Measure what recording adds to the steps of a race of three methods, in one process; writes a JSON line for each race.

python -m bench.record_cost > bench/results/gpu-app/record.jsonl
"""

from __future__ import annotations

import json
import time

from aded.decoding.decoder import Decoder, GenerationSettings
from aded.decoding.race import race
from aded.engine.target_model import TargetModel
from ui.browser.wire import step_line

METHODS = ("plain", "aded", "medusa")
PROMPTS = (
    "Explain in a few sentences why the sky is blue.",
    "List the planets of the solar system and say one thing about each.",
    "Count from one to forty in words.",
)
REPEATS = 3


def timed(model: TargetModel, prompt: str, record: bool) -> dict[str, float]:
    """Seconds of a race, of its decoding and of its prefills, its steps, and milliseconds per step to write it for the page."""
    decoders = [Decoder(model, method, GenerationSettings(max_new_tokens=100), record=record) for method in METHODS]
    started, steps, writing = time.perf_counter(), 0, 0.0
    for run, step in race(decoders, prompt):
        before = time.perf_counter()
        if record:
            step_line(run, step)
        writing += time.perf_counter() - before
        steps += 1
    wall, prefill = time.perf_counter() - started, sum(decoder.trace.prefill_seconds for decoder in decoders)
    decode = sum(decoder.clock for decoder in decoders)
    return {"wall": wall, "decode": decode, "prefill": prefill, "steps": steps, "line_ms": 1000 * writing / steps}


def rest(of: dict[str, float]) -> float:
    """Milliseconds per step beside decoding."""
    return 1000 * (of["wall"] - of["decode"]) / of["steps"]


def main() -> None:
    model = TargetModel.load("default")
    for repeat in range(1 + REPEATS):  # the first is not printed: it captures steps
        for prompt in PROMPTS:
            recorded, bare = timed(model, prompt, True), timed(model, prompt, False)
            added = rest(recorded) - recorded["line_ms"] - rest(bare)
            if repeat:
                print(json.dumps({"record_ms": added, "unrecorded_rest_ms": rest(bare), **recorded}), flush=True)


if __name__ == "__main__":
    main()
