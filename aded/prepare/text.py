"""The text from which all artifacts are made: conversations that the model writes, of which some are held out.

The conversations are kept in a work folder beside the artifacts until no artifact is missing, so that an interrupted run resumes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aded
from aded.core.errors import AdedError
from aded.data.build_matrix import Vocabulary, write
from aded.data.conversations import Collection
from aded.data.corpus import separator_for
from aded.data.job_folder import WorkFolder, npy_bytes, store, work_folder
from aded.data.readers import stamps
from aded.data.records import Record, records_bytes
from aded.engine.loading.weights import Progress
from aded.prepare.plan import Plan

if TYPE_CHECKING:
    from aded.engine.target_model import TargetModel

HELD_OUT = 0.05
"""Share of the conversations that are held out."""
MAX_HELD_OUT = 64
TEXT = "text.npy"
ELSEWHERE = "set ADED_CACHE to another folder"


@dataclass(frozen=True)
class WrittenText:
    """The text of a run.

    Attributes:
        tokens: file of the token ids from which artifacts are made, each conversation followed by the separator.
        records: file of the held-out conversations, as recorded decodes; ``held_out``: its contents.
        facts: sizes of the text, as JSON values.
    """

    tokens: Path
    records: Path
    held_out: list[Record]
    vocabulary: Vocabulary
    facts: dict[str, Any]


@contextmanager
def text_folder(target: TargetModel, plan: Plan, restart: bool) -> Iterator[WorkFolder]:
    """The locked folder of the text. It is deleted at the end if ``keep`` is not set; see ``WorkFolder``.

    Raises:
        AdedError: the folder cannot be written, is in use, or holds the text of another model, device or dtype.
    """
    try:
        plan.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AdedError(f"cannot write {plan.folder}: {error.strerror}; {ELSEWHERE}") from None
    model = [target.spec, target.device_name, str(target.dtype)]
    identity = {"version": aded.__version__, "fingerprint": target.fingerprint, "model": model}
    with WorkFolder(str(plan.folder / TEXT), identity, stamps(target.spec), restart, ELSEWHERE) as folder:
        yield folder


def discard_text(target: TargetModel, plan: Plan) -> None:
    """Delete the text of earlier runs, which is not needed any more."""
    if work_folder(str(plan.folder / TEXT)).exists():
        with text_folder(target, plan, restart=True):
            pass


def write_text(target: TargetModel, plan: Plan, folder: WorkFolder, progress: Progress) -> WrittenText:
    """Write the text, or what is missing of it after an interruption.

    Raises:
        AdedError: the model cannot write conversations, only repeats its questions, or memory or disk are full.
    """
    from aded.data.self_generation import ConversationGenerator, script_of, separator_of

    script = script_of(target.tokenizer)
    separator = separator_for(None, separator_of(target.tokenizer, script), target.vocab_size)
    collection = Collection(plan.sizes.text_tokens, separator, target.vocab_size)
    generator = ConversationGenerator(target, folder.settings.get("batch"), script=script)
    folder.settle(batch=generator.batch_size, seconds=0.0)
    limit, before, started = 60 * plan.minutes.get("text", float("inf")), folder.settings["seconds"], time.perf_counter()

    def expired() -> bool:
        folder.change(seconds=before + time.perf_counter() - started)
        return folder.settings["seconds"] >= limit

    write(generator, collection, folder, progress, expired)
    held_out = min(MAX_HELD_OUT, max(1, round(HELD_OUT * collection.conversations)))
    first = collection.conversations - held_out
    if first < 1:
        raise AdedError("the model wrote only one conversation; give a larger --budget-minutes")
    tokens, records = folder.path(TEXT), folder.path("held-out.jsonl")
    for path, data in ((tokens, npy_bytes(collection.text(first))), (records, records_bytes(collection.records(first)))):
        if not path.exists() or path.read_bytes() != data:  # unchanged files keep their times, so that builds from them resume
            store(path, data)
    facts: dict[str, Any] = {"tokens": collection.tokens, "conversations": collection.conversations, "held_out": held_out}
    facts |= {"repeated_questions": collection.duplicates, "distinct_4_grams": collection.distinct(), "seed": generator.seed}
    vocabulary = Vocabulary(target.tokenizer, target.vocab_size, separator)
    return WrittenText(tokens, records, collection.records(first), vocabulary, facts)
