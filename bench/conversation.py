"""What the second turn of a conversation saves: prefill by the kept KV cache, decoding steps by the drafter's memory.

``python bench/conversation.py --questions FILE --out bench/results/conversation-cpu`` decodes two-turn conversations (JSON lines
in the form of Spec-Bench) greedily in float32. The second turn is decoded in three ways: with a new drafter that reads only the
new message (``message``), with a new drafter that reads the whole conversation (``fresh``), and with the KV cache and the drafter
of the first turn (``kept``). All must write the same tokens. Numbers of tokens and steps are exact, since the node budget is
fixed; times depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import aded  # before PyTorch is loaded
from aded.core.chat import Chat, Turn
from aded.core.trace import write_atomically
from aded.decoding.decoder import Decoder, GenerationSettings
from aded.drafters.registry import METHODS
from aded.engine.prefix_cache import PrefixCache
from aded.engine.target_model import TargetModel
from aded.evaluation.bench.questions import digest, spread_out
from aded.evaluation.bench.results import background, dumps

METHODS_WITH_MEMORY = ("aded", "suffix", "token-recycling")
WAYS = ("message", "fresh", "kept")
"""Ways to decode the second turn."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark and write ``results.json`` and ``table.md``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", required=True, metavar="FILE")
    parser.add_argument("--out", required=True, metavar="DIR", type=Path)
    parser.add_argument("--methods", default=",".join(METHODS_WITH_MEMORY), metavar="A,B", help="default: %(default)s")
    parser.add_argument(
        "--limit", type=int, default=10, help="number of conversations, spread over the file (default: %(default)s)"
    )
    parser.add_argument("--max-new-tokens", type=int, default=64, help="per turn (default: %(default)s)")
    parser.add_argument("--budget", type=int, default=24, help="nodes of a draft tree (default: %(default)s)")
    options = parser.parse_args(arguments)
    target = TargetModel.load("default", "cpu", "float32")
    asked = [json.loads(line) for line in Path(options.questions).read_text("utf-8").splitlines()]
    asked = spread_out([question for question in asked if len(question["turns"]) > 1], options.limit)
    settings = GenerationSettings(max_new_tokens=options.max_new_tokens, budget=options.budget)
    methods, before = options.methods.split(","), os.getloadavg()
    rows = [row for method in methods for question in asked for row in conversation(target, method, question, settings)]
    body = {
        "format": "aded-conversation",
        "version": 1,
        **background(target),
        "command": " ".join(["python", "-m", "bench.conversation", *map(_name, sys.argv[1:])]),
        "load_average": {"before": before, "after": os.getloadavg()},
        "settings": {"max_new_tokens": options.max_new_tokens, "budget": options.budget, "temperature": 0},
        "questions": {"digest": digest(options.questions), "ids": [question["question_id"] for question in asked]},
        "summary": [summary(method, way, rows) for method in methods for way in WAYS],
        "rows": rows,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    write_atomically(options.out / "results.json", (dumps(body, indent=1) + "\n").encode())
    write_atomically(options.out / "table.md", table(body["summary"]).encode())
    print(table(body["summary"]))


def conversation(
    target: TargetModel, method: str, question: dict[str, Any], settings: GenerationSettings
) -> list[dict[str, Any]]:
    """The second turn of a conversation, decoded in each of ``WAYS``."""
    cache, drafter = PrefixCache(), METHODS[method].make(target, {"keep": True}, 0)
    asked, then = question["turns"][:2]
    first = Decoder(target, drafter, settings, record=False, prefix_cache=cache).run(Chat((Turn("user", asked),)))
    turns = Chat((Turn("user", asked), Turn("assistant", first.text), Turn("user", then)))
    resumed = METHODS[method].make(target, {"keep": True}, 0)  # as in a session: a new drafter that loads the learned state
    resumed.load_state_dict(drafter.state_dict())
    kept = Decoder(target, resumed, settings, record=False, prefix_cache=cache).run(turns)
    traces = {
        "message": Decoder(target, forgetful(target, method, cache.reused), settings, record=False).run(turns),
        "fresh": Decoder(target, method, settings, record=False).run(turns),
        "kept": kept,
    }
    reused = {"message": 0, "fresh": 0, "kept": cache.reused}
    cache.free()
    if any(trace.token_ids != kept.token_ids for trace in traces.values()):
        raise SystemExit(f"{method}, question {question['question_id']}: the second turn differs between the ways")
    return [
        {
            "method": method,
            "way": way,
            "question": question["question_id"],
            "prompt_tokens": len(trace.header.prompt_tokens),
            "prefill_tokens": len(trace.header.prompt_tokens) - 1 - reused[way],
            "prefill_ms": round(1000 * trace.prefill_seconds, 2),
            "new_tokens": len(trace.token_ids),
            "steps": len(trace.steps),
        }
        for way, trace in traces.items()
    ]


def forgetful(target: TargetModel, method: str, known: int) -> Any:
    """A new drafter that learns from a prompt only what follows its first ``known`` tokens."""
    drafter = METHODS[method].make(target, {}, 0)
    start = drafter.start
    drafter.start = lambda prompt, features=None: start(prompt[known:], features)  # type: ignore[method-assign]
    return drafter


def summary(method: str, way: str, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Sums over all conversations, and tokens per step."""
    own = [row for row in rows if (row["method"], row["way"]) == (method, way)]
    total = {name: sum(row[name] for row in own) for name in ("prompt_tokens", "prefill_tokens", "new_tokens", "steps")}
    times = sorted(row["prefill_ms"] for row in own)
    per_step = round(total["new_tokens"] / total["steps"], 4)
    return {
        "method": method,
        "way": way,
        "conversations": len(own),
        **total,
        "tokens_per_step": per_step,
        "median_prefill_ms": times[len(times) // 2],
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The summary as Markdown."""
    names = (
        "method",
        "way",
        "conversations",
        "prompt_tokens",
        "prefill_tokens",
        "median_prefill_ms",
        "new_tokens",
        "steps",
        "tokens_per_step",
    )
    lines = [names, ["---"] * len(names), *([row[name] for name in names] for row in rows)]
    return "".join(f"| {' | '.join(str(cell).replace('_', ' ') for cell in line)} |\n" for line in lines)


def _name(word: str) -> str:
    return Path(word).name if Path(word).is_absolute() else word


if __name__ == "__main__":
    assert aded.__version__
    main()
