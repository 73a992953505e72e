"""The command ``bench``: its options, their validation, and dispatch to the four kinds of run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from aded.cli.model_options import MODEL_OPTIONS
from aded.core.errors import AdedError
from aded.core.validation import check_distinct, check_ordinary, check_results, refuse_ignored
from aded.tasks import engine as task_engine

PEERS = ("hf-generate", "hf-prompt-lookup", "aded-reference")
WITHOUT_MODEL = ("aded-reference",)
SAMPLING = ("max_new_tokens", "temperature", "top_p")
COMPARING = ("methods", "peers", "limit", *SAMPLING, "seed", "repeat", "budget")
CLUSTER = ("engine", "address")
IGNORED = {
    "table": (*COMPARING, *CLUSTER, *MODEL_OPTIONS, "out", "no_html", "json"),
    "shape": (*COMPARING, *CLUSTER, "model", "device_map", "tp"),
    "recorded": (*SAMPLING, *CLUSTER, *MODEL_OPTIONS),
}
"""Options that have no effect in each kind of run."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """All options except the model options and the budget."""
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--questions", metavar="FILE", help="measure on these questions (JSON lines in the form of Spec-Bench)")
    what.add_argument("--recorded", metavar="FILE", help="replay drafts on recorded greedy outputs, with no model")
    what.add_argument(
        "--shape", metavar="NAME", help="time decoding steps of a randomly initialised model: llama-7b, llama-1b or smollm2-135m"
    )
    what.add_argument("--table", metavar="FILE", help="print a results.json as Markdown")
    parser.add_argument(
        "--methods",
        metavar="A,B",
        help="see `methods`; METHOD:OPTION=VALUE sets an option, as in specinfer:branching=4+2 (default: all that can run)",
    )
    parser.add_argument("--peers", metavar="A,B", help=f"other implementations to compare with: {', '.join(PEERS)}")
    parser.add_argument("--limit", type=int, metavar="N", help="at most N questions, spread evenly over the file")
    parser.add_argument("--max-new-tokens", type=int, default=128, metavar="N")
    parser.add_argument("--temperature", type=float, default=0.0, metavar="T", help="0 is greedy (default)")
    parser.add_argument("--top-p", type=float, default=1.0, metavar="P", help="1 keeps all tokens (default)")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--repeat", type=int, default=1, metavar="R", help="number of measurements of each question (default: 1)")
    parser.add_argument("--layers", type=int, metavar="N", help="with --shape: use only N layers")
    parser.add_argument("--out", metavar="DIR", help="folder for the results; the same command resumes an interrupted run")
    task_engine.add_options(parser)
    parser.add_argument("--no-html", action="store_true", help="do not write results.html (5 MB)")
    parser.add_argument("--json", action="store_true", help="print only the results, as one JSON object")
    parser.add_argument("--embed", metavar="FILE", help="with --table: write the table into this file, between markers")
    parser.add_argument(
        "--name", metavar="NAME", help="with --embed: the name in the markers, <!-- bench:NAME --> and <!-- /bench -->"
    )


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status.

    Raises:
        AdedError: an option, file, method or peer is invalid.
    """
    _check(options)
    if options.table:
        return _table(options)
    from aded.cli import terminal
    from aded.evaluation.bench import output, results, tables

    try:
        with terminal.Progress() as progress:
            found = _measure(options, progress)
    except KeyboardInterrupt:
        if options.out and not options.shape and Path(options.out, "cells.jsonl").exists():
            print(f"finished measurements are saved in {options.out}; the same command resumes the run", file=sys.stderr)
        raise
    notes = output.write(found, Path(options.out), not options.no_html) if options.out else []
    print(results.dumps(found) if options.json else tables.markdown(found), end="\n" if options.json else "")
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    return 0


def _measure(options: argparse.Namespace, progress: Any) -> dict[str, Any]:
    if options.shape:
        from aded.evaluation.bench import attention_cost, step_cost

        if len(kinds := options.attention.split(",")) > 1:
            return attention_cost.run(options, kinds, progress)
        return step_cost.run(options, progress)
    methods, peers = _methods(options.methods), _peers(options.peers)
    if options.questions:
        from aded.cli import bench_cluster, bench_live

        live = bench_cluster if options.engine == "ray" else bench_live
        return live.run(options, methods, peers, progress)
    from aded.evaluation.bench import recorded

    unusable = [peer for peer in peers if peer not in WITHOUT_MODEL]
    if unusable:
        raise AdedError(f"{unusable[0]} needs a model; measure it with --questions")
    return recorded.run(options, methods, peers, progress)


def _table(options: argparse.Namespace) -> int:
    from aded.evaluation.bench import tables

    if options.embed:
        tables.embed(options.embed, options.name, options.table)
    else:
        print(tables.of_file(options.table), end="")
    return 0


def _check(options: argparse.Namespace) -> None:
    """Validate what the argument parser cannot."""
    for name, required in (("layers", "shape"), ("embed", "table"), ("name", "embed")):
        if getattr(options, name) is not None and not getattr(options, required):
            raise AdedError(f"--{name} requires --{required}; leave it out or add --{required}")
    if options.embed and not options.name:
        raise AdedError("--embed needs --name, the name in the markers <!-- bench:NAME --> and <!-- /bench -->")
    if options.repeat < 1:
        raise AdedError(f"repeat is {options.repeat}; give 1 or more")
    task_engine.check_options(options)
    if options.engine == "ray":
        refuse_ignored(options, ("device_map", "tp"), "has no effect with --engine ray, where each worker has one GPU")
    for kind, names in IGNORED.items():
        if getattr(options, kind):
            refuse_ignored(options, names, f"has no effect with --{kind}")
    for path in filter(None, (options.questions, options.recorded)):
        check_ordinary(path)  # it is read twice, the second time for its hash
    check_results(options.out, [options.questions, options.recorded])
    check_distinct("--embed", options.embed, [options.table])


def _methods(text: str | None) -> list[str]:
    from aded.drafters.registry import METHODS
    from aded.evaluation.bench.systems import method_of

    names = _list(text, "methods") if text is not None else [name for name in METHODS if name != "plain"]
    for name in names:
        method_of(name)
    return names


def _peers(text: str | None) -> list[str]:
    names = _list(text, "peers") if text else []
    for name in names:
        if name not in PEERS:
            raise AdedError(f"unknown peer '{name}'; known are {', '.join(PEERS)}")
    return names


def _list(text: str, what: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names) or len(set(names)) < len(names):
        raise AdedError(f"--{what} is '{text}'; give distinct names, separated by commas")
    return names
