"""The command line: all commands and their options. A user's error prints one line and exits with status 2."""

from __future__ import annotations

import argparse
import io
import json
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from aded.cli import generation_options, method_options
from aded.cli.model_options import add_model_options, load_model
from aded.core.errors import MODEL_PLACEHOLDER, AdedError
from aded.core.interrupts import immediate_interrupts
from aded.core.paths import DEFAULT_PLACE, prepare
from aded.core.validation import check_distinct, check_file, check_not_empty, check_readable, check_results, model_files
from aded.tasks import engine as task_engine

PROGRAM = "python -m aded"
"""The program's name in messages, valid in a checkout and in an installation."""
COLOR = "coloured output (default: auto, in a terminal)"


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}; see {self.prog} --help\n")

    def print_help(self, file: Any = None) -> None:
        print(self.format_help(), end="", file=file)  # argparse's method ignores errors of the stream


def main(arguments: Sequence[str] | None = None, more: Sequence[Callable[[Any], None]] = ()) -> int:
    """Run a command; returns the exit status (0; 2 after a user's error; 130 if interrupted).

    Args:
        arguments: the arguments; None: those of the process.
        more: functions that add further commands to the parser.
    """
    _prepare_streams()
    try:
        try:
            with immediate_interrupts():
                prepare()
                options = build_parser(more).parse_args(arguments)
            return _run_command(options)
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        _report("stopped")
        return 130
    except BrokenPipeError:
        _discard_output()
        return 0
    except OSError as error:
        if error.filename is not None:  # a file, not a stream
            raise
        _discard_output()
        _report(f"error: cannot write the output: {error.strerror}; free space, or send it to another file")
        return 2


def _run_command(options: argparse.Namespace) -> int:
    try:
        check_not_empty(options)
        return options.run(options) or 0
    except AdedError as error:
        _report(f"error: {_insert_model(str(error), options)}")
        return 2


def _prepare_streams() -> None:
    """Open the null device for each standard stream that is closed; escape characters that the terminal cannot show."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _report(message: str) -> None:
    with suppress(OSError):
        print(message, file=sys.stderr)


def _discard_output() -> None:
    """Discard what is still to be written to the standard output, so that the interpreter does not fail on it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _insert_model(message: str, options: argparse.Namespace) -> str:
    """The message, with the requested model in any command that it suggests."""
    model = getattr(options, "model", None)
    return message.replace(f" --model {MODEL_PLACEHOLDER}", f" --model {shlex.quote(model)}" if model else "")


def build_parser(more: Sequence[Callable[[Any], None]] = ()) -> Parser:
    """All commands and their options."""
    program = "aded" if Path(sys.argv[0]).stem == "aded" else PROGRAM
    parser = Parser(prog=program, description="Adaptive draft-verification decoding on a real language model.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)
    _add_generate(commands)
    _add_race(commands)
    _add_methods(commands)
    _add_replay(commands)
    _add_matrix(commands)
    _add_datastore(commands)
    _add_fetch(commands)
    _add_prepare(commands)
    _add_train(commands)
    _add_bench(commands)
    _add_ablate(commands)
    _add_lesson(commands)
    for add in more:
        add(commands)
    return parser


def _add_generate(commands: Any) -> None:
    parser = commands.add_parser("generate", help="generate text, with accepted draft tokens coloured, and print a summary")
    parser.add_argument("--method", default="aded", help="see `methods` (default: aded)")
    generation_options.add(parser)
    parser.add_argument("--json", action="store_true", help="print only one JSON object")
    parser.add_argument("--trace", metavar="FILE", help="write a trace of every step to this file")
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help=COLOR)
    parser.set_defaults(run=_generate)


def _add_race(commands: Any) -> None:
    from aded.cli import race

    parser = commands.add_parser("race", help="record several methods on one prompt, as a file that the page can open")
    generation_options.add(parser)
    race.add_options(parser)


def _add_methods(commands: Any) -> None:
    parser = commands.add_parser("methods", help="list the methods, and the missing prerequisites of those that cannot run")
    parser.add_argument("--model", metavar="SPEC", help="check the methods for this model (default: the bundled one, not loaded)")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(run=_methods)


def _add_replay(commands: Any) -> None:
    parser = commands.add_parser("replay", help="print a recorded trace step by step")
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--step", type=int, metavar="N", help="only step N, counted from 1, with its full draft tree")
    parser.add_argument(
        "--run", type=int, dest="run_number", metavar="N", help="only run N, counted from 1, of a file with several"
    )
    parser.add_argument("--pause", action="store_true", help="wait for Enter after each step")
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help=COLOR)
    parser.set_defaults(run=_replay)


def _add_matrix(commands: Any) -> None:
    parser = commands.add_parser("matrix", help="build, change, show or evaluate a base matrix for ADED")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=Parser)
    _add_matrix_making(actions)
    show = actions.add_parser("show", help="print a summary of a matrix")
    show.add_argument("file", metavar="FILE")
    show.add_argument("--model", metavar="SPEC", help="the model whose tokenizer decodes the tokens (default: any local one)")
    show.add_argument("--json", action="store_true")
    show.set_defaults(run=_matrix_show)
    compare = actions.add_parser("compare", help="measure how close a matrix is to its model, on the model's outputs")
    compare.add_argument("file", metavar="FILE")
    outputs = compare.add_mutually_exclusive_group(required=True)
    outputs.add_argument("--questions", metavar="FILE", help="JSON lines of questions; the model first answers them greedily")
    outputs.add_argument("--recorded", metavar="FILE", help="recorded outputs, JSON lines of token ids")
    compare.add_argument("--limit", type=int, metavar="N", help="at most N texts, spread evenly over the file")
    compare.add_argument("--max-new-tokens", type=int, default=128, metavar="N", help="per answer (default: 128)")
    compare.add_argument("--out", metavar="DIR", help="folder for the results: JSON, Markdown, a chart")
    compare.add_argument("--keep", action="store_true", help="one session: keep what was learned from one text for the next")
    compare.add_argument("--json", action="store_true")
    add_model_options(compare)
    compare.set_defaults(run=_matrix_compare, parser=compare)


def _add_matrix_build(actions: Any) -> None:
    parser = actions.add_parser("build", help="count tri-grams of texts, token ids, a data set, or text that the model writes")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--text", nargs="+", metavar="FILE", help="text files, or JSON lines (.jsonl) with 'text' or 'turns'")
    source.add_argument("--tokens", metavar="FILE.npy", help="a flat array of token ids")
    source.add_argument("--dataset", metavar="ID", help="a data set of the hub, streamed with the package datasets")
    source.add_argument("--self-written", type=int, metavar="N", help="N tokens of questions and answers that the model writes")
    data = parser.add_argument_group("options of --dataset")
    data.add_argument("--dataset-config", metavar="C", help="configuration of the data set")
    data.add_argument("--dataset-split", default="train", metavar="S", help="its split (default: train)")
    data.add_argument("--dataset-field", default="text", metavar="F", help="field that holds the text (default: text)")
    writing = parser.add_argument_group("options of --self-written")
    writing.add_argument("--batch", type=int, metavar="B", help="conversations per batch (default: as many as fit in memory)")
    writing.add_argument("--seed", type=int, default=0, metavar="S")
    writing.add_argument(
        "--greedy-share", type=float, default=0.6, metavar="X", help="fraction of answers decoded greedily (default: 0.6)"
    )
    writing.add_argument("--beginnings", metavar="FILE.jsonl", help="beginnings of the questions, used in turn, one per line")
    writing.add_argument(
        "--keep-text", metavar="FILE.npy", help="also save the token ids, with a separator after each conversation"
    )
    writing.add_argument("--device", default="auto", help="auto, cpu or cuda (default: auto)")
    writing.add_argument("--dtype", default="auto", help="auto, float32, bfloat16 or float16 (default: auto)")
    parser.add_argument(
        "--separator",
        type=int,
        metavar="ID",
        help="token id that ends each text (default: 0 with --tokens, otherwise a special token of the model)",
    )
    parser.add_argument(
        "--max-memory", type=int, default=1024, metavar="MB", help="approximate memory for counting (default: 1024)"
    )
    parser.add_argument(
        "--processes", type=int, default=1, metavar="P", help="processes that tokenize, and threads that count (default: 1)"
    )
    task_engine.add_options(parser)
    _add_bounds(parser)
    parser.add_argument("--restart", action="store_true", help="start again instead of resuming an interrupted build")
    parser.add_argument("--model", default="default", metavar="SPEC", help="the model whose tokenizer encodes the text")
    parser.add_argument("--out", metavar="FILE", help=f"default: {DEFAULT_PLACE}")
    parser.set_defaults(run=_matrix_build, parser=parser)


def _add_bounds(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, metavar="N", help="maximum number of rows")
    parser.add_argument("--bytes", type=int, metavar="N", help="maximum file size in bytes")
    parser.add_argument("--successors", type=int, metavar="K", help="maximum successors per row")


def _add_matrix_making(actions: Any) -> None:
    _add_matrix_build(actions)
    merge = actions.add_parser("merge", help="add the counts of matrices with the same tokenizer")
    merge.add_argument("files", nargs="+", metavar="FILE")
    merge.add_argument("--out", required=True, metavar="FILE")
    merge.set_defaults(run=_matrix_merge)
    prune = actions.add_parser("prune", help="keep the most frequent successors and contexts")
    prune.add_argument("file", metavar="FILE")
    _add_bounds(prune)
    prune.add_argument("--out", required=True, metavar="FILE")
    prune.set_defaults(run=_matrix_prune)


def _add_datastore(commands: Any) -> None:
    parser = commands.add_parser("datastore", help="build or show a datastore for REST and suffix decoding")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=Parser)
    build = actions.add_parser("build", help="build a suffix array of texts or token ids")
    source = build.add_mutually_exclusive_group(required=True)
    source.add_argument("--text", nargs="+", metavar="FILE", help="text files, or JSON lines (.jsonl) with 'text' or 'turns'")
    source.add_argument("--tokens", metavar="FILE.npy", help="a flat array of token ids")
    build.add_argument(
        "--separator",
        type=int,
        metavar="ID",
        help="token id that ends each text (default: 0 with --tokens, otherwise the tokenizer's end of text)",
    )
    build.add_argument("--model", default="default", metavar="SPEC", help="the model whose tokenizer encodes the text")
    build.add_argument("--out", metavar="FILE", help=f"default: {DEFAULT_PLACE}")
    build.add_argument("--max-tokens", type=int, metavar="N", help="use only the first N tokens")
    build.add_argument("--compact", action="store_true", help="omit the suffix array, which is then rebuilt on loading")
    build.set_defaults(run=_datastore_build)
    show = actions.add_parser("show", help="print a summary of a datastore")
    show.add_argument("file", metavar="FILE")
    show.add_argument("--json", action="store_true")
    show.set_defaults(run=_datastore_show)


def _add_fetch(commands: Any) -> None:
    parser = commands.add_parser("fetch", help="download and convert a model, and compile the search, in advance")
    parser.add_argument(
        "--model", default="default", metavar="SPEC", help="default (SmolLM2-135M-Instruct), a hub id or a .gguf file"
    )
    parser.set_defaults(run=_fetch)


def _add_prepare(commands: Any) -> None:
    from aded.cli import prepare as prepare_command

    prepare_command.add_options(commands.add_parser("prepare", help="make all artifacts that methods need for a model"))


def _add_train(commands: Any) -> None:
    from aded.cli import train as train_command

    parser = commands.add_parser("train", help="train draft heads or a draft model for any causal model")
    train_command.add_options(parser.add_subparsers(dest="kind", required=True, metavar="KIND", parser_class=Parser))


def _add_bench(commands: Any) -> None:
    from aded.cli import bench

    parser = commands.add_parser("bench", help="benchmark methods against plain decoding and other implementations")
    add_model_options(parser)
    parser.add_argument(
        "--budget", type=generation_options.budget, default="auto", metavar="auto|N", help=generation_options.BUDGET
    )
    bench.add_options(parser)
    parser.set_defaults(run=bench.run, parser=parser)


def _add_lesson(commands: Any) -> None:
    from aded.cli import lesson

    parser = commands.add_parser("lesson", help="write a lesson for the page, or check one")
    lesson.add_options(parser.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=Parser))


def _add_ablate(commands: Any) -> None:
    parser = commands.add_parser("ablate", help="ablation of ADED: change one setting at a time")
    texts = parser.add_mutually_exclusive_group(required=True)
    texts.add_argument("--recorded", metavar="FILE", help="replay recorded outputs, without a model")
    texts.add_argument("--questions", metavar="FILE", help="let the model answer these questions")
    parser.add_argument("--settings", metavar="A,B", help="change only these (default: all)")
    parser.add_argument(
        "--matrix", action="append", default=[], metavar="NAME=FILE", help="a further base matrix; may be repeated"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="at most N texts, spread evenly over the file")
    parser.add_argument("--max-new-tokens", type=int, default=128, metavar="N", help="per answer (default: 128)")
    parser.add_argument("--temperature", type=float, default=0.0, metavar="T", help="0 is greedy (default)")
    parser.add_argument("--top-p", type=float, default=1.0, metavar="P", help="1 keeps all tokens (default)")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--out", metavar="DIR", help="folder for the results: JSON, Markdown, charts")
    parser.add_argument("--json", action="store_true", help="print only the results, as one JSON object")
    add_model_options(parser)
    parser.set_defaults(run=_ablate, parser=parser)


def _generate(options: argparse.Namespace) -> int:
    from aded.cli import terminal
    from aded.core import trace
    from aded.decoding.decoder import Decoder
    from aded.drafters.registry import find_method
    from aded.engine import distributed

    method, settings = find_method(options.method), generation_options.settings(options)
    prompt, given = generation_options.prompt(options), method_options.given(options, method)
    method.check(given)
    inputs = generation_options.inputs(options, given)
    check_file(options.trace)
    check_distinct("--trace", options.trace, inputs)
    with terminal.Progress() as progress:
        model = load_model(options, progress)
        progress("preparing the method", None)
        decoder = Decoder(model, method.name, settings, given, record=bool(options.trace))
    stream = terminal.TokenStream(sys.stdout, terminal.use_color(options.color), silent=options.json)
    if model.notice:
        print(f"note: {model.notice}", file=sys.stderr)
    try:
        interrupted = _run(decoder, prompt, stream)
        record = decoder.trace
        stream.end()
        if decoder.drafter.notice:
            print(f"note: {decoder.drafter.notice}", file=sys.stderr)
        print(
            json.dumps(record.summary(), ensure_ascii=False, allow_nan=False) if options.json else terminal.summary_table(record)
        )
    finally:  # also if the output cannot be written
        if options.trace and decoder.began and distributed.is_leader():
            trace.save(decoder.trace, options.trace)
    return 130 if interrupted else 0


def _run(decoder: Any, prompt: str, stream: Any) -> bool:
    """Decode until the end or Ctrl-C; returns whether it was interrupted. The text up to there remains in the trace."""
    steps = decoder.stream(prompt)
    try:
        for step in steps:
            stream.write(step)
    except KeyboardInterrupt:
        if not decoder.began:
            raise  # interrupted in prefill: there is no text to show
        return True
    finally:
        steps.close()
        decoder.close()
    return False


def _methods(options: argparse.Namespace) -> None:
    from aded.drafters.registry import METHODS
    from aded.evaluation.bench.recorded import default_stand_in

    target: Any = _loaded(options.model) if options.model else default_stand_in()
    if options.json:
        print(json.dumps([method.to_json(target) for method in METHODS.values()], ensure_ascii=False, indent=2))
        return
    width = max(map(len, METHODS))
    for method in METHODS.values():
        print(f"{method.name:<{width}}  {'lossless' if method.lossless else 'lossy   '}  {method.description}")
        if (reason := method.unavailable(target)) is not None:
            print(f"{'':<{width}}  unavailable: {reason}")


def _loaded(spec: str) -> Any:
    from aded.engine.target_model import TargetModel

    return TargetModel.load(spec, "cpu")


def _replay(options: argparse.Namespace) -> None:
    from aded.cli import terminal
    from aded.core import trace

    race = trace.load(options.file)
    only = options.run_number
    if only is not None and not 1 <= only <= len(race.lanes):
        raise AdedError(f"there is no run {only}; {options.file} has {len(race.lanes)}, counted from 1")
    chosen = dict(enumerate(race.lanes, 1)) if only is None else {only: race.lanes[only - 1]}
    for number, one in chosen.items():  # all, before one is printed
        if options.step is not None and not 1 <= options.step <= len(one.steps):
            raise AdedError(f"there is no step {options.step}; run {number} has {len(one.steps)}, counted from 1")
    for one in chosen.values():
        terminal.replay(one, options.step, options.pause, terminal.use_color(options.color))


def _fetch(options: argparse.Namespace) -> None:
    from aded.cli import terminal
    from aded.drafters import compile_ahead
    from aded.engine.loading import weights

    with terminal.Progress() as progress, compile_ahead.meanwhile(progress):
        folder = weights.resolve(options.model, progress)
    print(f"{options.model}: {folder}")


def _matrix_build(options: argparse.Namespace) -> None:
    from aded.cli import terminal
    from aded.data import build_matrix
    from aded.data.job_folder import work_folder

    try:
        with terminal.Progress() as progress:
            made = build_matrix.run(options, progress)
    except KeyboardInterrupt:
        if options.out and (folder := work_folder(options.out)).exists():
            again = " without --restart" if options.restart else ""
            _report(f"the finished parts are saved in {folder}; the same command{again} resumes the build")
        raise
    print(made)


def _datastore_build(options: argparse.Namespace) -> None:
    from aded.data import build_datastore

    tokens, texts = options.tokens, options.text
    check_readable([tokens, *(texts or ())])
    check_file(options.out)
    check_distinct("--out", options.out, [tokens, *(texts or ()), *model_files(options.model)])
    made = build_datastore.build_file(
        tokens, texts, options.separator, options.model, options.out, options.compact, options.max_tokens
    )
    print(made)


def _datastore_show(options: argparse.Namespace) -> None:
    from aded.retrieval.suffix_array import Datastore

    body = Datastore.load(options.file).summary() | {"bytes": Path(options.file).stat().st_size}
    print(json.dumps(body, indent=2) if options.json else "\n".join(f"{name}: {value}" for name, value in body.items()))


def _matrix_merge(options: argparse.Namespace) -> None:
    from aded.data import corpus

    check_file(options.out)
    check_distinct("--out", options.out, options.files)
    print(corpus.merge(options.files, options.out))


def _matrix_prune(options: argparse.Namespace) -> None:
    from aded.data import corpus

    check_file(options.out)
    check_distinct("--out", options.out, [options.file])
    print(corpus.prune(options.file, options.rows, options.successors, options.bytes, options.out))


def _matrix_show(options: argparse.Namespace) -> None:
    from aded.data import corpus

    check_readable([options.file])
    body = corpus.describe(options.file, options.model)
    print(json.dumps(body, indent=2, ensure_ascii=False) if options.json else corpus.description(body))


def _matrix_compare(options: argparse.Namespace) -> None:
    from aded.cli import compare_matrix, terminal

    check_results(options.out, [options.file, options.questions, options.recorded])
    with terminal.Progress() as progress:
        found = compare_matrix.run(options, progress)
    _output_results(found, options)


def _ablate(options: argparse.Namespace) -> None:
    from aded.cli import ablate, terminal

    matrices = [argument.partition("=")[2] or None for argument in options.matrix]
    check_readable(matrices)
    check_results(options.out, [options.questions, options.recorded, *matrices])
    with terminal.Progress() as progress:
        found = ablate.run(options, progress)
    _output_results(found, options)


def _output_results(found: dict[str, Any], options: argparse.Namespace) -> None:
    """Write the results to ``--out``, if given, and print them."""
    from aded.evaluation.bench import output, results, tables

    if options.out:
        output.write(found, Path(options.out), html=True)
    print(results.dumps(found, indent=1) if options.json else tables.markdown(found))
