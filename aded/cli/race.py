"""The command ``race``: several methods on one prompt, recorded as a file that the page can open."""

from __future__ import annotations

import argparse
import codecs
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from aded.cli import generation_options, method_options
from aded.cli.model_options import load_model
from aded.core.errors import AdedError
from aded.core.trace import first_fault
from aded.core.validation import check_distinct, check_file, check_folder, check_readable, flag, refuse_ignored

if TYPE_CHECKING:
    from aded.core.trace import Race
    from aded.decoding.decoder import GenerationSettings
    from aded.drafters.registry import RunSpec
    from aded.engine.target_model import TargetModel

METHODS = "plain,aded,medusa"
MAX_TITLE = 200
"""Maximum bytes of a title, which is the name of a file."""
Options = Mapping[str, Any]
"""Options of methods by name."""


def _check_title(title: str) -> str:
    if not title.strip() or title.startswith(".") or not title.isprintable() or set(title) & {"/", "\\"}:
        raise ValueError("it is the name of a file: write visible characters without / and \\, and no full stop at the start")
    if len(title.encode()) > MAX_TITLE:
        raise ValueError(f"it is the name of a file: write at most {MAX_TITLE} bytes")
    return title


class RaceSpec(BaseModel):
    """An entry of a list file: a race to record.

    Attributes:
        title: name of its file, without the extension.
        prompt: the prompt.
        methods: names of methods in the registry; ``METHOD:OPTION=VALUE`` sets an option of one run.
        settings: changed fields of ``GenerationSettings``.
        options: options of the methods, by name; an option of several methods is given to each of them.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
    title: Annotated[str, AfterValidator(_check_title)]
    prompt: Annotated[str, AfterValidator(generation_options.check_prompt)]
    methods: Annotated[list[str], Field(min_length=1)]
    settings: dict[str, Any] = {}
    options: dict[str, bool | int | float | str | list[str] | list[int]] = {}


_LIST: TypeAdapter[list[RaceSpec]] = TypeAdapter(Annotated[list[RaceSpec], Field(min_length=1)])


@dataclass(frozen=True)
class PreparedRace:
    """A race after all checks that need no model: its trace file, prompt, settings and runs."""

    file: Path
    prompt: str
    settings: GenerationSettings
    runs: Sequence[RunSpec]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command, besides those of a decode."""
    parser.add_argument(
        "--methods", default=METHODS, metavar="A,B", help=f"the methods (default: {METHODS}); METHOD:OPTION=VALUE as in `bench`"
    )
    parser.add_argument("--repeats", type=int, default=0, metavar="N", help="decode N more times, for the range of the speed-up")
    parser.add_argument(
        "--list", metavar="FILE", help="record all races of a JSON list of {title, prompt, methods, settings, options}"
    )
    parser.add_argument("--out", required=True, metavar="FILE", help="the trace; with --list a folder for the traces")
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> None:
    """Run the command.

    Raises:
        AdedError: an option is not valid, or the trace cannot be written.
    """
    from aded.cli import terminal
    from aded.core import trace

    if options.repeats < 0:
        raise AdedError(f"--repeats is {options.repeats}; give 0 or more")
    races = _listed(options) if options.list else [_single(options)]
    inputs = [options.list, *generation_options.inputs(options, method_options.values(options))]
    inputs += [file for race in races for run in race.runs for file in method_options.files(run.options)]
    for race in races:
        check_distinct("--out", str(race.file), inputs)
    with terminal.Progress() as progress:
        model = load_model(options, progress)
        for race in races:
            model.encode(race.prompt, race.settings.raw)  # check that all prompts fit before the first race
        for race in races:
            progress(f"recording {race.file.name}", None)
            made = record(model, race.prompt, race.runs, race.settings, options.repeats)
            race.file.parent.mkdir(parents=True, exist_ok=True)
            trace.save(made, race.file)
    for race in races:
        print(f"{race.file}: {race.file.stat().st_size / 1e6:.1f} MB")


def _single(options: argparse.Namespace) -> PreparedRace:
    """The race that the command line describes."""
    check_file(options.out)
    prompt, given = generation_options.prompt(options), method_options.values(options)
    methods = [name.strip() for name in options.methods.split(",")]
    check_used(map(flag, given), methods, flag)
    settings = generation_options.settings(options)
    return PreparedRace(Path(options.out), prompt, settings, _runs(methods, given))


def _listed(options: argparse.Namespace) -> list[PreparedRace]:
    """The races of the list file, with the settings and method options of the command line where they do not change them."""
    refuse_ignored(options, ("prompt", "prompt_file", "methods"), "has no effect with --list")
    check_folder(options.out)
    specs = specs_of(options.list)
    given, settings = method_options.values(options), generation_options.settings(options)
    check_used(map(flag, given), [name for spec in specs for name in spec.methods], flag)
    races = []
    for spec in specs:
        file = Path(options.out) / f"{spec.title}.json"
        if os.path.lexists(file):
            check_file(str(file))
        try:
            races.append(_prepared(file, spec, settings, given))
        except AdedError as error:
            raise AdedError(f"{options.list}, race '{spec.title}': {error}") from None
    return races


def _prepared(file: Path, spec: RaceSpec, settings: GenerationSettings, given: Options) -> PreparedRace:
    known = [field.name for field in fields(settings)]
    if unknown := sorted(spec.settings.keys() - {*known}):
        raise AdedError(f"unknown setting '{unknown[0]}'; known are {', '.join(known)}")
    check_used(spec.options, spec.methods, str)
    runs = _runs(spec.methods, {**given, **spec.options})
    return PreparedRace(file, spec.prompt, replace(settings, **spec.settings), runs)


def specs_of(path: str) -> list[RaceSpec]:
    """The races of a list file.

    Raises:
        AdedError: it cannot be read, is not such a list, or two races have the same title.
    """
    check_readable([path])
    try:
        specs = _LIST.validate_json(Path(path).read_bytes().removeprefix(codecs.BOM_UTF8))
    except ValidationError as error:
        where, message = first_fault(error, "list")
        raise AdedError(
            f"{path}: {where}: {message}; give a JSON list of {{title, prompt, methods, settings, options}}"
        ) from None
    titles = [spec.title.casefold() for spec in specs]
    for spec in specs:
        if titles.count(spec.title.casefold()) > 1:
            raise AdedError(f"{path}: two races have the title '{spec.title}', the name of their file; give each another title")
    return specs


def check_used(given: Iterable[str], methods: Iterable[str], form: Callable[[str], str]) -> None:
    """Raise ``AdedError`` if an option belongs to none of these methods, so that it would be ignored.

    Args:
        given: options, in the form ``form(name)``.
    """
    from aded.drafters.registry import find_method

    known = {form(option) for name in methods for option in find_method(name.split(":")[0]).options}
    for option in given:
        if option not in known:
            raise AdedError(f"{option} is not a setting of these methods; leave it out, or add a method that has it")


def _runs(specs: Sequence[str], given: Options) -> list[RunSpec]:
    """The runs of a race, which must differ in the method or in its options."""
    runs = [_run(spec, given) for spec in specs]
    settings = [(run.method, run.options) for run in runs]
    for i, spec in enumerate(specs):
        if settings[i] in settings[:i]:
            raise AdedError(
                f"the method '{spec}' is given twice; leave one out, or change one of its options, as in aded:depth=3"
            )
    return runs


def _run(spec: str, given: Options) -> RunSpec:
    """A run of ``METHOD:OPTION=VALUE`` with its own options and those of the given ones that the method has, checked."""
    from aded.drafters.registry import RunSpec
    from aded.evaluation.bench.systems import label_of, method_of

    method, own = method_of(spec)
    options = {**{option: value for option, value in given.items() if option in method.options}, **own}
    method.check(options)
    return RunSpec(method.name, options, label_of(method, own))


def record(
    model: TargetModel,
    prompt: str,
    runs: Sequence[RunSpec],
    settings: GenerationSettings,
    repeats: int = 0,
) -> Race:
    """Decode a prompt in every run and record all steps; decode it again ``repeats`` times for the times only."""
    from aded.core.trace import Race
    from aded.decoding.decoder import Decoder
    from aded.decoding.race import race

    def decode(recorded: bool) -> list[Decoder]:
        decoders = [Decoder(model, run.method, settings, run.options, record=recorded) for run in runs]
        for decoder, run in zip(decoders, runs):
            decoder.method = replace(decoder.method, label=run.label)
        for _ in race(decoders, prompt):
            pass
        return decoders

    decode(recorded=False)  # everything is compiled, captured and measured
    traces = [decoder.trace for decoder in decode(recorded=True)]
    again = [[decoder.trace.decode_seconds for decoder in decode(recorded=False)] for _ in range(repeats)]
    return Race([replace(trace, repeat_seconds=[run[i] for run in again]) for i, trace in enumerate(traces)])
