"""The command ``race``: several methods on one prompt, recorded as a file that the page can open."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aded.cli import generation_options, method_options
from aded.cli.model_options import load_model
from aded.core.errors import AdedError
from aded.core.validation import check_distinct, check_file, check_folder, check_readable

if TYPE_CHECKING:
    from aded.core.trace import Race
    from aded.decoding.decoder import GenerationSettings
    from aded.engine.target_model import TargetModel

METHODS = "plain,aded,medusa"


@dataclass(frozen=True)
class RaceSpec:
    """A race to record.

    Attributes:
        title: name of its file; ``methods``: names in the registry; ``options``: settings of methods, by name of the setting.
        settings: changed fields of ``GenerationSettings``.
    """

    title: str
    prompt: str
    methods: Sequence[str]
    settings: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command, besides those of a decode."""
    parser.add_argument("--methods", default=METHODS, metavar="A,B", help=f"the methods (default: {METHODS})")
    parser.add_argument("--repeats", type=int, default=0, metavar="N", help="decode N more times, for the range of the speed-up")
    parser.add_argument(
        "--list", metavar="FILE", help="record all races of a JSON list of {title, prompt, methods, settings, options}"
    )
    parser.add_argument("--out", required=True, metavar="FILE", help="the trace; with --list a folder for the traces")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run the command.

    Raises:
        AdedError: an option is not valid, or the trace cannot be written.
    """
    from aded.cli import terminal
    from aded.core import trace

    if options.repeats < 0:
        raise AdedError(f"--repeats is {options.repeats}; give 0 or more")
    settings = generation_options.settings(options)
    if options.list:
        check_folder(options.out)
        races = {Path(options.out) / f"{spec.title}.json": spec for spec in specs_of(options.list)}
    else:
        check_file(options.out)
        check_distinct("--out", options.out, [options.prompt_file])
        races = {Path(options.out): RaceSpec("", generation_options.prompt(options), options.methods.split(","))}
    given = {spec.title: [(name, _options(options, spec, name)) for name in spec.methods] for spec in races.values()}
    with terminal.Progress() as progress:
        model = load_model(options, progress)
        for file, spec in races.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            progress(f"recording {file.name}", None)
            own = replace(settings, **spec.settings)
            trace.save(record(model, spec.prompt, given[spec.title], own, options.repeats), str(file))
    for file in races:
        print(f"{file}: {file.stat().st_size / 1e6:.1f} MB")


def specs_of(path: str) -> list[RaceSpec]:
    """The races of a list file.

    Raises:
        AdedError: it cannot be read, or is no such list.
    """
    check_readable([path])
    try:
        return [RaceSpec(**row) for row in json.loads(Path(path).read_text("utf-8"))]
    except (TypeError, ValueError) as error:
        raise AdedError(f"{path} is no list of races ({error}); give a JSON list of {{title, prompt, methods}}") from None


def _options(options: argparse.Namespace, spec: RaceSpec, name: str) -> dict[str, Any]:
    """The options of one method in a race, checked; an option of several methods is given to each of them."""
    from aded.drafters.registry import find_method

    method = find_method(name)
    known = {**method_options.values(options), **spec.options}
    given = {option: value for option, value in known.items() if option in method.options}
    method.check(given)
    return given


def record(
    model: TargetModel,
    prompt: str,
    methods: Sequence[tuple[str, dict[str, Any]]],
    settings: GenerationSettings,
    repeats: int = 0,
) -> Race:
    """Decode a prompt with every method and record all steps; decode it again ``repeats`` times for the times only."""
    from aded.core.trace import Race
    from aded.decoding.decoder import Decoder
    from aded.decoding.lockstep import race

    def decode(recorded: bool) -> list[Decoder]:
        decoders = [Decoder(model, name, settings, given, record=recorded) for name, given in methods]
        for _ in race(decoders, prompt):
            pass
        return decoders

    decode(recorded=False)  # everything is compiled, captured and measured
    traces = [decoder.trace for decoder in decode(recorded=True)]
    again = [[decoder.trace.decode_seconds for decoder in decode(recorded=False)] for _ in range(repeats)]
    return Race([replace(trace, repeat_seconds=[run[i] for run in again]) for i, trace in enumerate(traces)])
