"""Benchmark of methods and peers on a model, question by question."""

from __future__ import annotations

import argparse
import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aded.core.errors import AdedError
from aded.drafters.artifacts import matrix_for
from aded.drafters.registry import find_method
from aded.evaluation.bench import results
from aded.evaluation.bench.aggregate import PLAIN, rows_of
from aded.evaluation.bench.cells import CellFile
from aded.evaluation.bench.measure import measure
from aded.evaluation.bench.output_diff import compare, tie_check_of
from aded.evaluation.bench.questions import Question, digest, read_questions, spread_out
from aded.evaluation.bench.systems import System, Task, method_system

if TYPE_CHECKING:
    from aded.decoding.decoder import GenerationSettings
    from aded.engine.target_model import TargetModel

WARM_UP_TOKENS = 24


def run(options: argparse.Namespace, methods: list[str], peers: list[str], progress: Any) -> dict[str, Any]:
    """Measure and return the results (see ``aded.evaluation.bench.results``).

    Raises:
        AdedError: a file, setting or method is invalid, or a prompt does not fit the model's context.
    """
    from aded.cli.model_options import load_model

    benchmark = LiveBenchmark.of(options)
    target = load_model(options, progress)
    if options.methods is None:
        methods = usable(methods, target)
    return benchmark.run(target, methods, peers, Path(options.out) if options.out else None, progress)


def usable(methods: list[str], target: TargetModel) -> list[str]:
    """Those of the methods that can run with the model."""
    return [name for name in methods if find_method(name).unavailable(target) is None]


@dataclass(frozen=True)
class LiveBenchmark:
    """What is measured, of whatever methods; can be pickled.

    Attributes:
        settings: generation settings; the seed changes with question and repeat.
        requested: what the command line says besides them, as JSON values.
    """

    questions: list[Question]
    settings: GenerationSettings
    requested: dict[str, Any]

    @classmethod
    def of(cls, options: argparse.Namespace) -> LiveBenchmark:
        """The benchmark that the options describe; raises ``AdedError`` if a file or setting is invalid."""
        from aded.decoding.decoder import GenerationSettings

        settings = GenerationSettings(
            max_new_tokens=options.max_new_tokens,
            budget=options.budget,
            temperature=options.temperature,
            top_p=options.top_p,
            seed=options.seed,
        )
        questions = spread_out(read_questions(options.questions), options.limit)
        requested = {"file": Path(options.questions).name, "digest": digest(options.questions), "repeat": options.repeat}
        return cls(questions, settings, requested)

    def systems(self, target: TargetModel, methods: list[str], peers: list[str]) -> list[System]:
        """Plain decoding, the methods and the peers; raises ``AdedError`` if one of them cannot run."""
        names = [PLAIN, *(name for name in methods if name != PLAIN)]
        return [method_system(name, target, self.settings.seed) for name in names] + [_peer(target, name) for name in peers]

    def description(self, systems: list[str]) -> dict[str, Any]:
        """What determines the results of these systems, as JSON values."""
        return {
            "kind": "live",
            "question_file": self.requested["file"],
            "digest": self.requested["digest"],
            "questions": len(self.questions),
            "methods": systems,
            "max_new_tokens": self.settings.max_new_tokens,
            "budget": self.settings.budget,
            "temperature": self.settings.temperature,
            "top_p": self.settings.top_p,
            "seed": self.settings.seed,
            "repeat": self.requested["repeat"],
        }

    def run(
        self, target: TargetModel, methods: list[str], peers: list[str], folder: Path | None, progress: Any
    ) -> dict[str, Any]:
        """Measure; ``folder``: where finished cells are stored (see ``CellFile``)."""
        settings, tasks, repeats = (
            self.settings,
            [task_of(target, question) for question in self.questions],
            self.requested["repeat"],
        )
        systems = self.systems(target, methods, peers)
        description, background = self.description([system.name for system in systems]), results.background(target)
        file = CellFile(folder, {**description, **background})
        warm_up = dataclasses.replace(settings, max_new_tokens=min(WARM_UP_TOKENS, settings.max_new_tokens))

        def settings_of(task: int, repeat: int) -> GenerationSettings:
            return dataclasses.replace(settings, seed=settings.seed + repeat * len(tasks) + task)

        cells = measure(tasks, systems, repeats, settings_of, warm_up, file, progress)
        compared = compare(cells, systems, settings.sampling.greedy, tie_check_of(target, tasks), PLAIN)
        texts = {cell.question: cell.token_ids for cell in cells if cell.method == PLAIN and cell.repeat == 0}
        return results.assemble("live", target, description, rows_of(cells, systems, texts, compared), background)


def task_of(target: TargetModel, question: Question) -> Task:
    """The question as a benchmark task: its prompt as token ids, with the chat template.

    Raises:
        AdedError: the prompt does not fit the model's context.
    """
    try:
        return Task(question.id, question.category, target.encode(question.text))
    except AdedError as error:
        raise AdedError(f"question {question.id}: {error}; or leave the question out") from None


def _peer(target: TargetModel, name: str) -> System:
    if name == "aded-reference":
        from aded.evaluation.bench.reference import reference_system

        return reference_system(target, matrix_for(target))
    from aded.evaluation.bench import peers

    return peers.generate_system(target) if name == "hf-generate" else peers.prompt_lookup_system(target)
