"""What each part of ADED is worth: one setting is changed at a time, everything else stays as tuned.

Recorded outputs are replayed with no model in the loop; questions are put to the model. Rows of one table can be compared
with each other: same texts, same machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aded.checks import refuse_ignored
from aded.drafters.aded import AdedDrafter, AdedOptions
from aded.drafters.base import Outcome
from aded.errors import AdedError
from aded.replay import Record, Report, Tally, replay
from aded.trigram import TrigramMatrix

if TYPE_CHECKING:
    from aded.bench.questions import Question
    from aded.decode import GenerationSettings
    from aded.model import TargetModel

BUDGET = 64
"""Nodes of a draft where the budget is not what changes."""
SWEEPS: Mapping[str, Sequence[Any]] = {
    "search": ("mcts", "best-first", "greedy", "full"),
    "adaptation": ("none", "text", "text and rejected nodes"),
    "corpus": ("none", "full"),
    "c1": (0.0, 0.25, 1.0, 4.0, 32.0),
    "c2": (1.0, 8.0, 64.0),
    "simulations": (9, 18, 36, 72, 144),
    "depth": (2, 4, 8, 16, 24),
    "budget": (8, 16, 22, 32, 64, 128),
}
"""What is changed, and to what."""
SAMPLING = ("max_new_tokens", "temperature", "top_p", "seed")
NEEDS_MODEL = "text and rejected nodes"
COLUMNS = ("tokens_per_step", "drafted_per_step", "draft_ms", "update_ms")


@dataclass(frozen=True)
class Variant:
    """One row: ADED with one setting changed.

    Attributes:
        axis, value: what is changed, and to what.
        tuned: whether that is how it is tuned, so that the row is the one that others are held against.
        options: of the drafter.
        budget: nodes of a draft.
        adapts: whether the session's text is learned at all.
        matrix: name of the base matrix; None for none.
    """

    axis: str
    value: Any
    tuned: bool
    options: AdedOptions = field(default_factory=AdedOptions.tuned)
    budget: int = BUDGET
    adapts: bool = True
    matrix: str | None = "full"


class UnadaptedDrafter(AdedDrafter):
    """ADED as the corpus made it: neither the prompt nor the output is learned."""

    def start(self, prompt: Sequence[int]) -> None:
        self._read([])

    def observe(self, outcome: Outcome) -> None:
        pass


def variants(matrices: Sequence[str], axes: Sequence[str] | None = None, *, model: bool) -> list[Variant]:
    """The rows of the table.

    Args:
        matrices: names of base matrices beside "full", the one that is tuned for.
        axes: what to change; None is everything.
        model: whether a model answers; without one there is nothing to learn of rejected nodes.

    Raises:
        AdedError: an axis that there is not.
    """
    unknown = [axis for axis in axes or () if axis not in SWEEPS]
    if unknown:
        raise AdedError(f"unknown setting '{unknown[0]}'; known are {', '.join(SWEEPS)}")
    tuned, rows = AdedOptions.tuned(), []
    most = NEEDS_MODEL if model else "text"
    for axis in axes or SWEEPS:
        values = [*SWEEPS[axis], *(matrices if axis == "corpus" else ())]
        for value in values:
            if axis == "adaptation":
                if value != NEEDS_MODEL or model:
                    options = replace(tuned, feedback=value == NEEDS_MODEL)
                    rows.append(Variant(axis, value, value == most, options, adapts=value != "none"))
            elif axis == "corpus":
                rows.append(Variant(axis, value, value == "full", matrix=None if value == "none" else value))
            elif axis == "budget":
                rows.append(Variant(axis, value, value == BUDGET, budget=value))
            else:
                current = 12 + 3 * BUDGET // 8 if axis == "simulations" else getattr(tuned, axis)
                rows.append(Variant(axis, value, value == current, replace(tuned, **{axis: value})))
    return rows


def make_drafter(variant: Variant, matrices: Mapping[str, TrigramMatrix | None], vocab_size: int, seed: int = 0) -> AdedDrafter:
    """The drafter of a row."""
    kind = AdedDrafter if variant.adapts else UnadaptedDrafter
    return kind(matrices[variant.matrix] if variant.matrix else None, vocab_size, variant.options, seed)


def on_records(
    rows: Sequence[Variant],
    matrices: Mapping[str, TrigramMatrix | None],
    vocab_size: int,
    records: Sequence[Record],
    progress: Any,
) -> list[dict[str, Any]]:
    """Replay the records with every variant.

    Raises:
        AdedError: no record, or one with ids outside the vocabulary.
    """
    if not any(len(record.output) for record in records):
        raise AdedError("there is no output to replay; give a file that holds some")
    return _run(rows, progress, lambda row: replay(make_drafter(row, matrices, vocab_size), records, row.budget))


def on_questions(
    rows: Sequence[Variant],
    matrices: Mapping[str, TrigramMatrix | None],
    model: TargetModel,
    questions: Sequence[Question],
    settings: GenerationSettings,
    progress: Any,
) -> list[dict[str, Any]]:
    """Put the questions to the model with every variant."""
    return _run(rows, progress, lambda row: _answer(row, matrices, model, questions, settings))


def _answer(
    row: Variant,
    matrices: Mapping[str, TrigramMatrix | None],
    model: TargetModel,
    questions: Sequence[Question],
    settings: GenerationSettings,
) -> Report:
    from aded.decode import Decoder

    report = Report(Tally(), {})
    for question in questions:
        drafter = make_drafter(row, matrices, model.vocab_size, settings.seed)
        tally = Tally()
        for step in Decoder(model, drafter, replace(settings, budget=row.budget), record=False).stream(question.text):
            tally.tokens += len(step.emitted)
            tally.steps += 1
            tally.accepted += step.accepted
            tally.drafted += len(step.tree.tokens) - 1
            tally.draft_seconds.append(step.seconds.draft)
            tally.update_seconds.append(step.seconds.update)
        report.all.add(tally)
        report.categories.setdefault(question.category, Tally()).add(tally)
    return report


def _run(rows: Sequence[Variant], progress: Any, measure: Callable[[Variant], Report]) -> list[dict[str, Any]]:
    found = []
    for number, row in enumerate(rows):
        progress(f"{row.axis} {row.value}", number / len(rows))
        report = measure(row)
        figures = {name: round(getattr(report.all, name), 4) for name in COLUMNS}
        by_category = {name: round(tally.tokens_per_step, 4) for name, tally in sorted(report.categories.items())}
        found.append({"setting": row.axis, "value": row.value, "tuned": row.tuned, **figures, "categories": by_category})
    tuned = {row["setting"]: row["tokens_per_step"] for row in found if row["tuned"]}
    for line in found:
        base = tuned.get(line["setting"])
        line["change"] = line["tokens_per_step"] / base - 1 if base else None
    return found


def named_matrices(arguments: Sequence[str], fingerprint: str, vocab_size: int) -> dict[str, TrigramMatrix | None]:
    """Matrices of ``NAME=FILE`` arguments.

    Raises:
        AdedError: an argument of another form, a name taken, or a file that is damaged or of another tokenizer.
    """
    found: dict[str, TrigramMatrix | None] = {}
    for argument in arguments:
        name, sign, path = argument.partition("=")
        if not (name and sign and path):
            raise AdedError(f"--matrix is '{argument}'; write NAME=FILE")
        if name in ("none", "full") or name in found:
            raise AdedError(f"there is a matrix named '{name}' already; choose another name")
        found[name] = TrigramMatrix.load(path, fingerprint=fingerprint, vocab_size=vocab_size)
    return found


def run(options: Any, progress: Any) -> dict[str, Any]:
    """The command: what was asked for, measured.

    Raises:
        AdedError: whatever the user can cause: a bad file, name or limit.
    """
    from aded.cli import MODEL_OPTIONS

    if options.recorded:
        refuse_ignored(options, (*MODEL_OPTIONS, *SAMPLING), "is for a model, and --recorded asks none")
    axes = [axis.strip() for axis in options.settings.split(",")] if options.settings else None
    variants((), axes, model=True)  # a bad name is found before a long run
    return _run_recorded(options, axes, progress) if options.recorded else _run_questions(options, axes, progress)


def _run_recorded(options: Any, axes: list[str] | None, progress: Any) -> dict[str, Any]:
    from aded.bench import results
    from aded.bench.questions import spread_out
    from aded.places import ASSETS
    from aded.replay import read_records

    records = spread_out(read_records(options.recorded), options.limit)
    files = sorted(ASSETS.glob("*.trigram.safetensors"))
    if not files:
        raise AdedError("there is no bundled tri-gram matrix; make one with `python -m aded matrix build`")
    full = TrigramMatrix.load(files[0])
    others = named_matrices(options.matrix, full.fingerprint, full.vocab_size)
    rows = variants(list(others), axes, model=False)
    found = on_records(rows, {"full": full, **others}, full.vocab_size, records, progress)
    settings = {"source": Path(options.recorded).name, "texts": len(records)}
    return results.assemble("ablation", None, settings, found, results.background())


def _run_questions(options: Any, axes: list[str] | None, progress: Any) -> dict[str, Any]:
    from aded.bench import results
    from aded.bench.live import task_of
    from aded.bench.questions import read_questions, spread_out
    from aded.cli import load_model
    from aded.decode import GenerationSettings
    from aded.methods import matrix_for

    settings = GenerationSettings(
        max_new_tokens=options.max_new_tokens,
        temperature=options.temperature,
        top_p=options.top_p,
        seed=options.seed,
        budget=BUDGET,
    )
    questions = spread_out(read_questions(options.questions), options.limit)
    model = load_model(options, progress)
    for question in questions:
        task_of(model, question)  # a prompt that does not fit is found before the first answer
    others = named_matrices(options.matrix, model.fingerprint, model.vocab_size)
    rows = variants(list(others), axes, model=True)
    matrices = {"full": matrix_for(model), **others}
    found = on_questions(rows, matrices, model, questions, settings, progress)
    about = {
        "source": Path(options.questions).name,
        "texts": len(questions),
        "temperature": options.temperature,
        "top_p": options.top_p,
        "max_new_tokens": options.max_new_tokens,
    }
    return results.assemble("ablation", model, about, found, results.background(model))
