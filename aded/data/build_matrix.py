"""`matrix build`: a base matrix from given texts or from self-generated text, in bounded memory.

Generation and counting store their intermediate results in a work folder next to the output (see ``aded.data.job_folder``).
After an interruption the same command resumes there and produces the same bytes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aded
from aded.core.errors import AdedError
from aded.core.paths import artifact_folder
from aded.core.trace import write_atomically
from aded.core.validation import check_distinct, check_file, check_readable, flag, model_files, refuse_ignored
from aded.data import corpus, ngram_counting, sharded_counting
from aded.data.conversations import MAX_REPEATED_BATCHES, Collection, pack, repetition_error, unpack
from aded.data.job_folder import SPILL, WorkFolder, npy_bytes, store, work_folder
from aded.data.ngram_counting import BYTES_PER_TOKEN
from aded.data.readers import DatasetStream, Piece, Source, TextFiles, TokenFile, stamps
from aded.data.remote_generation import GenerationModel, GenerationSpec, batch_name, exists_in, generation_model
from aded.engine.loading.tokenizer import tokenizer_fingerprint
from aded.engine.loading.weights import Progress, label_of
from aded.ngram.trigram import MAX_SUCCESSORS, TrigramMatrix
from aded.tasks.engine import Engine, check_options, engine_of
from aded.tasks.processes import Processes

MAX_PROCESSES = 256
MAX_MEMORY = 1024
"""Default approximate memory for counting, in MB."""
SMALLEST_PIECE = 1 << 12
"""Tokens; a lower memory limit is raised to what this many tokens need."""
SOURCE_OPTIONS = {
    "self_written": ("batch", "seed", "greedy_share", "beginnings", "keep_text", "device", "dtype"),
    "dataset": ("dataset_config", "dataset_split", "dataset_field"),
}
"""Options that are valid with one source only."""


@dataclass(frozen=True)
class Vocabulary:
    """The tokenizer of the counted ids, its vocabulary size, and the id that separates texts."""

    tokenizer: Any
    size: int
    separator: int


def run(options: argparse.Namespace, progress: Progress) -> str:
    """Build the matrix that the options of ``matrix build`` describe; returns a one-line summary.

    Raises:
        AdedError: a file, model or data set cannot be read, a setting is out of range, memory or the disk is full, or the
            work folder holds another build.
    """
    started = time.perf_counter()
    _check(options)
    if options.out is None:
        fingerprint = tokenizer_fingerprint(corpus.load_tokenizer(options.model)[0])
        options.out = str(artifact_folder("trigram", label_of(options.model), fingerprint) / "matrix.safetensors")
    _check_paths(options)
    with engine_of(options, options.processes) as engine:
        make = _from_source if options.self_written is None else _from_model
        matrix, notes = make(options, engine, progress)
    entries, size = len(matrix.successors), Path(options.out).stat().st_size / 1e6
    facts = [f"{len(matrix)} rows and {entries} entries from {matrix.corpus_tokens} tokens", f"{size:.1f} MB", *notes]
    return f"{options.out}: {', '.join(facts)}, {time.perf_counter() - started:.0f} seconds"


def _check(options: argparse.Namespace) -> None:
    """Check all options before any work starts."""
    check_options(options)
    if options.engine == "ray":
        refuse_ignored(options, ["processes"], "has no effect with --engine ray, which uses all cores of the cluster")
    for source, names in SOURCE_OPTIONS.items():
        if getattr(options, source) is None:
            refuse_ignored(options, names, f"goes with {flag(source)}")
    TrigramMatrix.empty(1).prune(rows=options.rows, successors=options.successors, size=options.bytes)
    for name, value, maximum in (
        ("--max-memory", options.max_memory, 1 << 24), ("--processes", options.processes, MAX_PROCESSES),
        ("--self-written", options.self_written, 1 << 40), ("--batch", options.batch, 1 << 40),
    ):  # fmt: skip
        if value is not None and not 1 <= value <= maximum:
            raise AdedError(f"{name} is {value}; give a number from 1 to {maximum}")
    if not 0 <= options.seed < 1 << 63:
        raise AdedError(f"--seed is {options.seed}; give a whole number from 0 to 2**63 - 1")
    if not 0 <= options.greedy_share <= 1:
        raise AdedError(f"--greedy-share is {options.greedy_share}; give a number from 0 to 1")


def _check_paths(options: argparse.Namespace) -> None:
    inputs = [*(options.text or ()), options.tokens, options.beginnings]
    check_readable(inputs)
    inputs += model_files(options.model)
    check_file(options.out)
    check_file(options.keep_text)
    check_distinct("--out", options.out, inputs)
    check_distinct("--keep-text", options.keep_text, [options.out, *inputs])
    if options.keep_text and work_folder(options.out) in [(path := Path(options.keep_text).resolve()), *path.parents]:
        raise AdedError(f"--keep-text is {options.keep_text}, in the work folder of --out; choose another path")


def _from_source(options: argparse.Namespace, engine: Engine, progress: Progress) -> tuple[TrigramMatrix, list[str]]:
    source = _source(options)
    tokenizer, size = corpus.load_tokenizer(options.model)
    default = 0 if options.tokens else tokenizer.eos_token_id
    vocabulary = Vocabulary(tokenizer, size, corpus.separator_for(options.separator, default, size))
    return _count_source(source, vocabulary, options, engine, progress)


def count_tokens(path: Path, vocabulary: Vocabulary, out: Path, restart: bool, progress: Progress) -> TrigramMatrix:
    """Build the matrix of a ``.npy`` file of token ids and save it; otherwise as ``matrix build --tokens``.

    Raises:
        AdedError: see ``run``.
    """
    bounds = {"rows": None, "successors": None, "bytes": None}
    options = argparse.Namespace(out=str(out), restart=restart, max_memory=MAX_MEMORY, processes=1, **bounds)
    return _count_source(TokenFile(str(path)), vocabulary, options, Processes(1), progress)[0]


def _count_source(
    source: Source, vocabulary: Vocabulary, options: argparse.Namespace, engine: Engine, progress: Progress
) -> tuple[TrigramMatrix, list[str]]:
    with _folder(options, vocabulary, source.identity, source.inputs) as folder:
        _settle_pieces(folder, options)
        matrix = _counted(source, vocabulary, folder, "piece", options, engine, progress)
        matrix.save(options.out)
    return matrix, _rebuilt(folder)


def _source(options: argparse.Namespace) -> Source:
    if options.tokens:
        return TokenFile(options.tokens)
    if options.text:
        return TextFiles(options.text)
    return DatasetStream(options.dataset, options.dataset_config, options.dataset_split, options.dataset_field)


def _from_model(options: argparse.Namespace, engine: Engine, progress: Progress) -> tuple[TrigramMatrix, list[str]]:
    settings = GenerationSpec(
        options.model, options.device, options.dtype, options.seed, options.greedy_share, options.beginnings
    )
    with generation_model(settings, engine, progress) as model:
        return _from_text_of(model, options, engine, progress)


def _from_text_of(
    model: GenerationModel, options: argparse.Namespace, engine: Engine, progress: Progress
) -> tuple[TrigramMatrix, list[str]]:
    from aded.data.self_generation import script_of, separator_of

    script = script_of(model.tokenizer)
    separator = corpus.separator_for(options.separator, separator_of(model.tokenizer, script), model.vocab_size)
    vocabulary = Vocabulary(model.tokenizer, model.vocab_size, separator)
    requested = [options.batch, options.seed, options.greedy_share, *([model.beginnings] if model.beginnings else [])]
    identity = [options.model, *model.where, script.opening, script.closing]
    with _folder(options, vocabulary, {"self-written": requested, "model": identity}, stamps(options.model)) as folder:
        generator = model.generator(folder.settings.get("batch", options.batch), exists_in(folder.folder))
        folder.settle(batch=generator.batch_size)
        collection = Collection(options.self_written, separator, model.vocab_size)
        write(generator, collection, folder, progress)
        model.release()
        text = folder.path("text.npy")
        store(text, npy_bytes(collection.text()))
        _settle_pieces(folder, options)
        matrix = _counted(TokenFile(str(text)), vocabulary, folder, f"piece-{collection.tokens}", options, engine, progress)
        if options.keep_text:
            write_atomically(Path(options.keep_text), text.read_bytes())
        matrix.save(options.out)
    notes = [f"{collection.conversations} conversations", f"{collection.duplicates} repeated questions dropped"]
    notes += [f"{collection.distinct():.0%} of the answers' 4-grams distinct", *filter(None, [generator.notice])]
    return matrix, [*notes, *_rebuilt(folder)]


def _rebuilt(folder: WorkFolder) -> list[str]:
    return [f"damaged files rebuilt: {', '.join(folder.damaged)}"] if folder.damaged else []


def write(
    generator: Any,
    collection: Collection,
    folder: WorkFolder,
    progress: Progress,
    expired: Callable[[], bool] = lambda: False,
) -> None:
    """Generate conversations until the collection is full; batches that are in the folder are read, new ones are stored there.

    Args:
        generator: a ``aded.data.self_generation.ConversationGenerator`` or a ``aded.data.remote_generation.RemoteGenerator``.
        expired: called before each batch except the first; whether time is up, so that no more are written.

    Raises:
        AdedError: the model only repeats earlier questions.
    """
    reporter, index, repeated = ProgressReporter(progress, "writing"), 0, 0
    while not collection.full:
        name, before = batch_name(index), collection.tokens
        batch = folder.read(name, unpack)
        if batch is not None:
            collection.add(batch)
            reporter.start(collection.tokens / collection.limit)
        elif index and expired():
            return
        else:
            batch = generator.generate_batch(index, reporter.subtask(before / collection.limit, 1 / collection.limit))
            store(folder.path(name), pack(batch))
            collection.add(batch)
        repeated = 0 if collection.tokens > before else repeated + 1
        if repeated == MAX_REPEATED_BATCHES:
            raise repetition_error(collection.conversations)
        index += 1


def _folder(options: argparse.Namespace, vocabulary: Vocabulary, source: dict[str, Any], inputs: Any) -> WorkFolder:
    """The build's work folder.

    Its identity excludes options that do not change the intermediate files: bounds, processes, and the number of tokens to
    generate.
    """
    known = {"version": aded.__version__, "fingerprint": tokenizer_fingerprint(vocabulary.tokenizer)}
    known |= {"vocabulary": str(vocabulary.size), "separator": str(vocabulary.separator)}
    return WorkFolder(options.out, {**known, **source}, inputs, options.restart)


def _settle_pieces(folder: WorkFolder, options: argparse.Namespace) -> None:
    folder.settle(piece=max(SMALLEST_PIECE, (options.max_memory << 20) // BYTES_PER_TOKEN // options.processes))


def _counted(
    source: Source, vocabulary: Vocabulary, folder: WorkFolder, name: str, options: argparse.Namespace, engine: Engine,
    progress: Progress,
) -> TrigramMatrix:  # fmt: skip
    paths = tokenize(source, vocabulary, folder, name, engine, progress)
    given: dict[str, Any] = {
        "separator": vocabulary.separator,
        "vocab_size": vocabulary.size,
        "fingerprint": tokenizer_fingerprint(vocabulary.tokenizer),
        "max_successors": options.successors or MAX_SUCCESSORS,
        "rows": options.rows,
        "size": options.bytes,
        "memory": options.max_memory // 2,
        "progress": progress,
    }
    if engine.cluster is not None:
        return sharded_counting.count(paths, engine.cluster, **given)
    return ngram_counting.count(paths, **given, spill=folder.path(SPILL), threads=options.processes)


def tokenize(
    source: Source, vocabulary: Vocabulary, folder: WorkFolder, name: str, engine: Engine, progress: Progress
) -> list[Path]:
    """Store the token ids of every piece of a source in a file (see ``aded.data.ngram_counting.pack``); valid files are reused.

    Args:
        name: prefix of the files' names.

    Returns:
        The paths of the files, in order.
    """
    reporter, paths = ProgressReporter(progress, "tokenizing"), []

    def jobs() -> Iterator[tuple[Piece, Path]]:
        for number, piece in enumerate(source.pieces(folder.settings["piece"])):
            filename = f"{name}-{number:05d}.npz"
            paths.append(folder.path(filename))
            if folder.read(filename, ngram_counting.unpack) is not None:
                reporter.start(piece.share)
            else:
                yield piece, paths[-1]

    if source.tokenized:
        engine = Processes(1)
    for path, data, tokens, share in engine.map(PieceTokenizer(vocabulary), jobs()):
        store(path, data)
        reporter.report(reporter.tokens + tokens, share)
    return paths


@dataclass(frozen=True)
class PieceTokenizer:
    """Tokenizes a piece; can be pickled, so it runs in any process."""

    vocabulary: Vocabulary

    def __call__(self, job: tuple[Piece, Path]) -> tuple[Path, bytes, int, float | None]:
        """Returns the path and the content of the piece's file, its number of tokens and its ``share``."""
        piece, path = job
        tokens = piece.tokens(self.vocabulary.tokenizer, self.vocabulary.separator)
        return path, ngram_counting.pack(tokens, self.vocabulary.size), len(tokens), piece.share


class ProgressReporter:
    """Reports the progress of a job: tokens done, tokens per second, time left.

    Attributes:
        tokens: how many this run has processed.
    """

    def __init__(self, progress: Progress, label: str, clock: Callable[[], float] = time.perf_counter) -> None:
        self.tokens = 0
        self._progress, self._label, self._clock = progress, label, clock
        self.start(0.0)

    def start(self, share: float | None) -> None:
        """Start measuring when ``share`` of the job, 0 to 1, is already done."""
        self._share, self._started_at = share or 0.0, self._clock()

    def report(self, tokens: int, share: float | None) -> None:
        """Report the number of tokens of this run and the share of the whole job, 0 to 1 (None: unknown)."""
        self.tokens = tokens
        seconds = max(self._clock() - self._started_at, 1e-9)
        message = f"{self._label}: {tokens:,} tokens, {tokens / seconds:,.0f} per second"
        if share is not None and share > self._share:
            left = seconds * max(0.0, 1 - share) / (share - self._share)
            message += f", {left / 60:.0f} min left" if left >= 90 else f", {left:.0f} s left"
        self._progress(message, share)

    def subtask(self, before: float, share: float) -> Callable[[int], None]:
        """A callback that a subtask calls with its own number of tokens.

        Args:
            before: share of the job that is done when the subtask starts.
            share: share of the job that one token is.
        """
        done = self.tokens
        return lambda tokens: self.report(done + tokens, min(1.0, before + share * tokens))
