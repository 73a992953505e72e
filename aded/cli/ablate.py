"""The command ``ablate``: ADED with one setting changed at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aded.core.validation import refuse_ignored
from aded.evaluation.ablation import BUDGET, named_matrices, on_questions, on_records, variants
from aded.sampling.settings import SamplingSettings

SAMPLING = ("max_new_tokens", "temperature", "top_p", "seed")


def run(options: Any, progress: Any) -> dict[str, Any]:
    """Run the ablation and return its results (see ``aded.evaluation.bench.results``).

    Raises:
        AdedError: a file, name or limit is invalid.
    """
    from aded.cli.model_options import MODEL_OPTIONS

    if options.recorded:
        refuse_ignored(options, (*MODEL_OPTIONS, *SAMPLING), "needs a model, and --recorded replays without one")
    axes = [axis.strip() for axis in options.settings.split(",")] if options.settings else None
    sampling = not SamplingSettings(temperature=options.temperature).greedy
    variants((), axes, model=not options.recorded, sampling=sampling and not options.recorded)  # check before a long run
    return _run_recorded(options, axes, progress) if options.recorded else _run_questions(options, axes, progress)


def _run_recorded(options: Any, axes: list[str] | None, progress: Any) -> dict[str, Any]:
    from aded.data.records import read_records
    from aded.drafters.artifacts import base_counts_for
    from aded.evaluation.bench import results
    from aded.evaluation.bench.questions import spread_out
    from aded.evaluation.bench.recorded import default_stand_in

    records = spread_out(read_records(options.recorded), options.limit)
    full = base_counts_for(default_stand_in())
    assert full is not None, "the stand-in is made from the bundled matrix"
    others = named_matrices(options.matrix, full.fingerprint, full.vocab_size)
    rows = variants(list(others), axes, model=False)
    found = on_records(rows, {"full": full, **others}, full.vocab_size, records, progress)
    settings = {"source": Path(options.recorded).name, "texts": len(records)}
    return results.assemble("ablation", None, settings, found, results.background())


def _run_questions(options: Any, axes: list[str] | None, progress: Any) -> dict[str, Any]:
    from aded.cli.bench_live import task_of
    from aded.cli.model_options import load_model
    from aded.decoding.decoder import GenerationSettings
    from aded.drafters.artifacts import base_counts_for
    from aded.evaluation.bench import results
    from aded.evaluation.bench.questions import read_questions, spread_out

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
        task_of(model, question)  # check that all prompts fit before the first answer
    others = named_matrices(options.matrix, model.fingerprint, model.vocab_size)
    rows = variants(list(others), axes, model=True, sampling=not settings.sampling.greedy)
    matrices = {"full": base_counts_for(model), **others}
    found = on_questions(rows, matrices, model, questions, settings, progress)
    description = {
        "source": Path(options.questions).name,
        "texts": len(questions),
        "temperature": options.temperature,
        "top_p": options.top_p,
        "max_new_tokens": options.max_new_tokens,
    }
    return results.assemble("ablation", model, description, found, results.background(model))
