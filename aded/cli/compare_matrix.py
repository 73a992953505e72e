"""The command ``matrix compare``: how close a tri-gram matrix is to its model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aded.core.validation import refuse_ignored
from aded.evaluation.representative_fidelity import answer, compare
from aded.ngram.trigram import TrigramMatrix


def run(options: Any, progress: Any) -> dict[str, Any]:
    """Compare and return the results (see ``aded.evaluation.bench.results``).

    Raises:
        AdedError: a file is invalid, the matrix has another tokenizer, or a limit is out of range.
    """
    from aded.cli.bench_live import task_of
    from aded.cli.model_options import load_model
    from aded.data.records import read_records
    from aded.decoding.decoder import GenerationSettings
    from aded.evaluation.bench import results
    from aded.evaluation.bench.questions import read_questions, spread_out

    GenerationSettings(max_new_tokens=options.max_new_tokens)  # check the range before loading a model
    if options.questions:
        questions = spread_out(read_questions(options.questions), options.limit)
    else:
        refuse_ignored(options, ["max_new_tokens"], "requires --questions")
        records = spread_out(read_records(options.recorded), options.limit)
    TrigramMatrix.load(options.file)  # check the file before loading a model
    model = load_model(options, progress)
    matrix = TrigramMatrix.load(options.file, fingerprint=model.fingerprint, vocab_size=model.vocab_size)
    if options.questions:
        for question in questions:
            task_of(model, question)  # check that all prompts fit before the first answer
        records = [answer(model, question.text, options.max_new_tokens, question.category) for question in questions]
    rows = compare(model, matrix, records, progress, options.keep)
    settings = {"matrix": Path(options.file).name, "texts": len(records), "keep": options.keep}
    return results.assemble("fidelity", model, settings, rows, results.background(model))
