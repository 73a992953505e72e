"""The command ``prepare``: make all artifacts that methods need for a model."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aded.cli import train
from aded.cli.model_options import add_device_options, load_model
from aded.core.errors import AdedError
from aded.core.paths import cache_folder
from aded.core.validation import is_creatable

if TYPE_CHECKING:
    from aded.engine.loading.weights import Progress
    from aded.prepare.plan import Sizes
    from aded.prepare.text import WrittenText

EPILOG = """The model writes one text, from which all parts (artifacts) are made. Without --budget-minutes this takes about 20
minutes on a GPU, and about 30 on a CPU, with little text. After an interruption the same command resumes. The artifacts are
written to the cache folder, where all commands and the page find them."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.epilog = EPILOG
    parser.add_argument("model", metavar="MODEL", help="default (SmolLM2-135M-Instruct), a hub id, a folder or a .gguf file")
    parser.add_argument("--budget-minutes", type=float, metavar="N", help="time for writing and training together")
    parser.add_argument(
        "--parts", metavar="A,B", help="only these of matrix, datastore, medusa, draft, eagle, mtp, glide (default: all)"
    )
    parser.add_argument("--restart", action="store_true", help="start again instead of resuming an interrupted run")
    parser.add_argument("--json", action="store_true", help="print only the report, as one JSON object")
    add_device_options(parser)
    parser.set_defaults(run=run, device_map=None, tp=False, attention="triton")


class Trainer:
    """Trains artifacts with the options of ``train``."""

    def __init__(self, target: Any, options: argparse.Namespace, sizes: Sizes) -> None:
        self.target = target
        self._options, self._sizes = options, sizes

    def check(self, part: str) -> None:
        """Raise ``AdedError`` if the model cannot have an artifact."""
        train.check_fit(self.target, self._options_of(part))

    def __call__(self, part: str, text: WrittenText, minutes: float | None, folder: Path, progress: Progress) -> Path:
        limit = [] if minutes is None else ["--minutes", str(minutes)]
        files = ["--corpus", str(text.tokens), "--held-out", str(text.records)]
        return train.train(self.target, self._options_of(part, *files, *limit), folder, progress)

    def _options_of(self, part: str, *more: str) -> argparse.Namespace:
        given, sizes = self._options, self._sizes
        parser = argparse.ArgumentParser()
        train.add_options(parser.add_subparsers(dest="kind"))
        numbers = {"tokens": sizes.tokens, "length": min(sizes.length, self.target.context_limit), "batch": sizes.batch}
        numbers["save_every"] = sizes.save_every
        options = parser.parse_args([part, "--model", given.model, "--device", given.device, "--dtype", given.dtype, *more])
        if part == "draft":
            numbers["layers"] = min(options.layers, int(self.target.config.get_text_config().num_hidden_layers))
        vars(options).update(numbers)
        return options


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status: 0, 2 if an artifact could not be made, 130 if interrupted.

    Raises:
        AdedError: an option is invalid, no folder is writable, the model cannot be loaded or write text, or the disk is full.
    """
    from aded.cli import terminal
    from aded.data.job_folder import RESUME_HINT
    from aded.prepare import parts, plan

    chosen = parts.chosen(options.parts)
    plan.check_budget(options.budget_minutes)
    if not is_creatable(cache_folder()):
        raise AdedError(f"cannot write {cache_folder()}; set ADED_CACHE to a folder that can be written to")
    try:
        with terminal.Progress() as progress:
            target = load_model(options, progress, drafts=False)
        return _prepare(target, chosen, options)
    except KeyboardInterrupt:
        print(f"stopped; {RESUME_HINT}", file=sys.stderr)
        return 130


def _prepare(target: Any, chosen: list[str], options: argparse.Namespace) -> int:
    from aded.cli import terminal
    from aded.core.paths import model_folder
    from aded.data import self_generation
    from aded.prepare import plan
    from aded.prepare.record import PrepareRecord
    from aded.prepare.run import Run, report, report_lines
    from aded.prepare.text import discard_text

    sizes = plan.sizes_for(target.device.type, options.budget_minutes)
    trainer, record = Trainer(target, options, sizes), PrepareRecord(model_folder(target.label, target.fingerprint))
    begun = record.begun() if record.unfinished(sizes.minutes) else ()
    planned = plan.make_plan(target, chosen, sizes, trainer.check, record.started(sizes.minutes), begun)
    if planned.parts:
        self_generation.check_model(target)
        self_generation.script_of(target.tokenizer)
        plan.check_space(planned)
    print("\n".join(plan.plan_lines(planned, target, chosen)), file=sys.stderr if options.json else sys.stdout, flush=True)
    if planned.parts:
        with terminal.Progress() as progress:
            Run(target, planned, record, trainer, options.restart, progress).make()
    elif not planned.later:
        discard_text(target, planned)
    body = report(record, target)
    if options.json:
        print(json.dumps(body, ensure_ascii=False, allow_nan=False))
    elif planned.parts:
        print("\n".join(["", *report_lines(body, planned.parts, record)]))
    else:
        print("nothing to make")
    return 2 if any("error" in body["parts"][part] for part in planned.parts) else 0
