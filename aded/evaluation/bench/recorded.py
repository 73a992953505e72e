"""Benchmark of drafts replayed on recorded greedy outputs, without a model: tokens per step and host time."""

from __future__ import annotations

import argparse
import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aded.core.errors import AdedError
from aded.core.paths import ASSETS
from aded.data.records import Record, read_records
from aded.drafters.base import Drafter
from aded.drafters.registry import find_method
from aded.engine.loading.weights import DEFAULT
from aded.evaluation.bench import results
from aded.evaluation.bench.aggregate import rows_of
from aded.evaluation.bench.cells import CellFile
from aded.evaluation.bench.measure import measure
from aded.evaluation.bench.questions import digest, spread_out
from aded.evaluation.bench.systems import Figures, System, Task, method_system
from aded.evaluation.replay import replay_one
from aded.ngram.trigram import TrigramMatrix

MAX_BUDGET = 256
DEFAULT_BUDGET = 64
"""Nodes of a draft tree with ``--budget auto``, which otherwise needs the measured cost of a model."""


@dataclass(frozen=True)
class ModelStandIn:
    """A stand-in for the target model, with what drafters need that use token ids only.

    Attributes:
        fingerprint: hash of the tokenizer.
        vocab_size: size of the vocabulary.
        method: name of the method, for messages.
        spec: name of the model.

    Raises:
        AdedError: on access to any other attribute.
    """

    fingerprint: str
    vocab_size: int
    method: str = "a method"
    spec: str = DEFAULT

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AdedError(f"{self.method} needs the model itself, not only recorded text; measure it with --questions")


def run(options: argparse.Namespace, methods: list[str], peers: list[str], progress: Any) -> dict[str, Any]:
    """Replay and return the results (see ``aded.evaluation.bench.results``).

    Raises:
        AdedError: a file is invalid, a method needs a model, or the budget is out of range.
    """
    budget = DEFAULT_BUDGET if options.budget == "auto" else int(options.budget)
    if not 2 <= budget <= MAX_BUDGET:
        raise AdedError(f"budget is {budget}; give 2 to {MAX_BUDGET} nodes, including the root")
    tasks, matrix = _tasks(options.recorded, options.limit), _bundled_matrix()
    _check_ids(tasks, matrix, options.recorded)
    if options.methods is None:
        methods = [name for name in methods if _needs_only_tokens(name, default_stand_in())]
    systems = _systems(methods, peers, matrix, options.seed)
    settings = {
        "kind": "recorded",
        "recorded": Path(options.recorded).name,
        "digest": digest(options.recorded),
        "questions": len(tasks),
        "methods": [system.name for system in systems],
        "budget": budget,
        "seed": options.seed,
        "repeat": options.repeat,
    }
    background = results.background()
    file = CellFile(Path(options.out) if options.out else None, {**settings, **background})
    cells = measure(tasks, systems, options.repeat, lambda task, repeat: budget, budget, file, progress)
    rows = rows_of(cells, systems, {task.id: task.output for task in tasks}, {})
    return results.assemble("recorded", None, settings, rows, background)


def _tasks(path: str, limit: int | None) -> list[Task]:
    tasks = [
        Task(str(number), record.category, record.prompt.tolist(), record.output.tolist())
        for number, record in enumerate(read_records(path), 1)
        if len(record.output)
    ]
    if not tasks:
        raise AdedError(f"{path} has no recorded output; give a file of recorded outputs")
    return spread_out(tasks, limit)


def _bundled_matrix() -> TrigramMatrix:
    files = sorted(ASSETS.glob("*.trigram.safetensors"))
    if not files:
        raise AdedError("there is no bundled tri-gram matrix; make one with `python -m aded matrix build`")
    return TrigramMatrix.load(str(files[0]))


def default_stand_in() -> ModelStandIn:
    """A stand-in for the default model, made from the bundled matrix without loading the model."""
    matrix = _bundled_matrix()
    return ModelStandIn(matrix.fingerprint, matrix.vocab_size)


def _needs_only_tokens(name: str, target: Any) -> bool:
    try:
        return not _needs_model(find_method(name).make(target, {}, 0))
    except AdedError:  # it uses the model, or a prerequisite is missing
        return False


def _needs_model(drafter: Drafter) -> bool:
    needs = drafter.needs
    return bool(needs.hidden_layers or needs.reader or needs.top_k) and not needs.optional


def _check_ids(tasks: list[Task], matrix: TrigramMatrix, path: str) -> None:
    for task in tasks:
        ids = [*task.prompt, *task.output]
        if min(ids) < 0 or max(ids) >= matrix.vocab_size:
            raise AdedError(
                f"{path}: record {task.id} has token ids outside the bundled matrix's range 0 to {matrix.vocab_size - 1}; "
                "record it with the default model"
            )


def _systems(methods: list[str], peers: list[str], matrix: TrigramMatrix, seed: int) -> list[System]:
    target = default_stand_in()
    systems = [method_system(spec, dataclasses.replace(target, method=spec), seed) for spec in methods]
    for system in systems:
        assert system.drafter is not None
        if _needs_model(system.drafter()):
            raise AdedError(
                f"{system.name} needs the model's hidden states or logits, which are not recorded; measure it with --questions"
            )
    if peers:
        from aded.evaluation.bench.reference import reference_system

        systems.append(reference_system(target, matrix))
    return [_replaying(system) for system in systems]


def _replaying(system: System) -> System:
    make = system.drafter
    assert make is not None
    return dataclasses.replace(system, run=lambda task, budget: replay_figures(make(), task, budget))


def replay_figures(drafter: Drafter, task: Task, budget: int) -> Figures:
    """Replay a task's recorded output with a draft budget in nodes; returns its figures."""
    tally = replay_one(drafter, _record(task), budget)
    return {
        "tokens": tally.tokens,
        "steps": tally.steps,
        "accepted": tally.accepted,
        "draft_ms": [round(1e3 * s, 4) for s in tally.draft_seconds],
        "update_ms": [round(1e3 * s, 4) for s in tally.update_seconds],
        "budget_nodes": [budget] * tally.steps,
        "tree_nodes": tally.tree_nodes,
        "reached_at": tally.positions.reached,
        "accepted_at": tally.positions.accepted,
    }


def _record(task: Task) -> Record:
    return Record(np.array(task.prompt, dtype=np.int32), np.array(task.output, dtype=np.int32), task.category)
