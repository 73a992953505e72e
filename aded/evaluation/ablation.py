"""Ablation of ADED: one setting is changed at a time, all others keep their tuned values.

Drafts are either replayed on recorded outputs, without a model, or verified by a model that answers questions. All rows of a
table use the same texts and the same machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from aded.core.errors import AdedError
from aded.data.records import Record
from aded.drafters.aded_options import AdedOptions
from aded.drafters.base import Outcome
from aded.drafters.methods.aded import AdedDrafter
from aded.evaluation.replay import Report, Tally, replay
from aded.ngram.trigram import TrigramMatrix

if TYPE_CHECKING:
    import torch

    from aded.decoding.decoder import GenerationSettings
    from aded.engine.target_model import TargetModel
    from aded.evaluation.bench.questions import Question

BUDGET = 64
"""Nodes of a draft tree, unless the budget is the setting that changes."""
SWEEPS: Mapping[str, Sequence[Any]] = {
    "search": ("mcts", "best-first", "greedy", "full"),
    "adaptation": ("none", "text", "text and rejected nodes"),
    "coupling": ("off", "on"),
    "corpus": ("none", "full"),
    "higher_orders": ("off", "on"),
    "c1": (0.0, 0.25, 1.0, 4.0, 32.0),
    "c2": (1.0, 8.0, 64.0),
    "simulations": (9, 18, 36, 72, 144),
    "depth": (2, 4, 8, 16, 24),
    "budget": (8, 16, 22, 32, 64, 128),
}
"""The settings and their values."""
NEEDS_MODEL = "text and rejected nodes"
COLUMNS = ("tokens_per_step", "drafted_per_step", "draft_ms", "update_ms")


@dataclass(frozen=True)
class Variant:
    """One row of the table: ADED with one setting changed.

    Attributes:
        axis: the setting.
        value: its value.
        tuned: whether this is the tuned value, the baseline of the setting's other rows.
        options: options of the drafter.
        budget: nodes of a draft tree.
        adapts: whether the drafter learns from prompt and output.
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
    """ADED with its base matrix only: it learns from neither prompt nor output."""

    def start(self, prompt: Sequence[int], features: torch.Tensor | None = None) -> None:
        self._read([])

    def observe(self, outcome: Outcome) -> None:
        pass


def variants(matrices: Sequence[str], axes: Sequence[str] | None = None, *, model: bool, sampling: bool = False) -> list[Variant]:
    """The rows of the table.

    Args:
        matrices: names of further base matrices; "full" is the tuned one.
        axes: the settings to change; None: all that have an effect.
        model: whether a model verifies the drafts; without one, there is no target distribution at rejected nodes.
        sampling: whether that model samples; if not, coupling has no effect.

    Raises:
        AdedError: a setting that is unknown or has no effect.
    """
    unknown = [axis for axis in axes or () if axis not in SWEEPS]
    if unknown:
        raise AdedError(f"unknown setting '{unknown[0]}'; known are {', '.join(SWEEPS)}")
    if "coupling" in (axes or ()) and not sampling:
        raise AdedError(
            "coupling has no effect unless a model samples; add --questions FILE and --temperature T, or leave it out"
        )
    tuned, rows = AdedOptions.tuned(), []
    tuned_adaptation = NEEDS_MODEL if model else "text"
    for axis in axes or [axis for axis in SWEEPS if sampling or axis != "coupling"]:
        values = [*SWEEPS[axis], *(matrices if axis == "corpus" else ())]
        for value in values:
            if axis == "adaptation":
                if value != NEEDS_MODEL or model:
                    options = replace(tuned, feedback=value == NEEDS_MODEL)
                    rows.append(Variant(axis, value, value == tuned_adaptation, options, adapts=value != "none"))
            elif axis == "corpus":
                rows.append(Variant(axis, value, value == "full", matrix=None if value == "none" else value))
            elif axis in ("coupling", "higher_orders"):
                switched = value == "on"
                rows.append(Variant(axis, value, switched == getattr(tuned, axis), replace(tuned, **{axis: switched})))
            elif axis == "budget":
                rows.append(Variant(axis, value, value == BUDGET, budget=value))
            else:
                current = 12 + 3 * BUDGET // 8 if axis == "simulations" else getattr(tuned, axis)
                rows.append(Variant(axis, value, value == current, replace(tuned, **{axis: value})))
    return rows


def make_drafter(variant: Variant, matrices: Mapping[str, TrigramMatrix | None], vocab_size: int, seed: int = 0) -> AdedDrafter:
    """The drafter of a variant."""
    kind = AdedDrafter if variant.adapts else UnadaptedDrafter
    return kind(matrices[variant.matrix] if variant.matrix else None, vocab_size, variant.options, seed)


def on_records(
    rows: Sequence[Variant],
    matrices: Mapping[str, TrigramMatrix | None],
    vocab_size: int,
    records: Sequence[Record],
    progress: Any,
) -> list[dict[str, Any]]:
    """Replay the records with every variant; returns the rows of the table.

    Raises:
        AdedError: there is no recorded output, or a token id is outside the vocabulary.
    """
    if not any(len(record.output) for record in records):
        raise AdedError("there is no output to replay; give a file with recorded outputs")
    return _run(rows, progress, lambda row: replay(make_drafter(row, matrices, vocab_size), records, row.budget))


def on_questions(
    rows: Sequence[Variant],
    matrices: Mapping[str, TrigramMatrix | None],
    model: TargetModel,
    questions: Sequence[Question],
    settings: GenerationSettings,
    progress: Any,
) -> list[dict[str, Any]]:
    """Answer the questions with every variant; returns the rows of the table."""
    return _run(rows, progress, lambda row: _answer(row, matrices, model, questions, settings))


def _answer(
    row: Variant,
    matrices: Mapping[str, TrigramMatrix | None],
    model: TargetModel,
    questions: Sequence[Question],
    settings: GenerationSettings,
) -> Report:
    from aded.decoding.decoder import Decoder

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
    for number, variant in enumerate(rows):
        progress(f"{variant.axis} {variant.value}", number / len(rows))
        report = measure(variant)
        figures = {name: round(getattr(report.all, name), 4) for name in COLUMNS}
        by_category = {name: round(tally.tokens_per_step, 4) for name, tally in sorted(report.categories.items())}
        found.append(
            {"setting": variant.axis, "value": variant.value, "tuned": variant.tuned, **figures, "categories": by_category}
        )
    tuned = {row["setting"]: row["tokens_per_step"] for row in found if row["tuned"]}
    for row in found:
        baseline = tuned.get(row["setting"])
        row["change"] = row["tokens_per_step"] / baseline - 1 if baseline else None
    return found


def named_matrices(arguments: Sequence[str], fingerprint: str, vocab_size: int) -> dict[str, TrigramMatrix | None]:
    """Load the matrices of ``NAME=FILE`` arguments.

    Raises:
        AdedError: an argument has another form, a name is used twice, or a file is damaged or has another tokenizer.
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
