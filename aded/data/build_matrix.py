"""`matrix build`: a base matrix from given texts or from self-generated text, in bounded memory.

Generation and counting store their intermediate results in a work folder next to the output (see ``aded.data.job_folder``).
After an interruption the same command resumes there and produces the same bytes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aded
from aded.core.errors import AdedError
from aded.core.paths import artifact_folder
from aded.core.trace import write_atomically
from aded.core.validation import check_distinct, check_file, check_readable, flag, refuse_ignored
from aded.data import corpus, ngram_counting
from aded.data.conversations import MAX_REPEATED_BATCHES, Collection, pack, repetition_error, unpack
from aded.data.job_folder import RESUME_HINT, SPILL, InterruptedJobError, WorkFolder, npy_bytes, store, work_folder
from aded.data.ngram_counting import BYTES_PER_TOKEN
from aded.data.readers import DatasetStream, Piece, Source, TextFiles, TokenFile, stamps
from aded.engine.tokenizer import tokenizer_fingerprint
from aded.engine.weights import Progress, label_of
from aded.ngram.trigram import MAX_SUCCESSORS, TrigramMatrix

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
    if options.self_written is not None:
        matrix, notes = _from_model(options, progress)
    else:
        matrix, notes = _from_source(options, progress)
    entries, size = len(matrix.successors), Path(options.out).stat().st_size / 1e6
    facts = [f"{len(matrix)} rows and {entries} entries from {matrix.corpus_tokens} tokens", f"{size:.1f} MB", *notes]
    return f"{options.out}: {', '.join(facts)}, {time.perf_counter() - started:.0f} seconds"


def _check(options: argparse.Namespace) -> None:
    """Check all options before any work starts."""
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
    inputs += [options.model] if os.path.isfile(options.model) else []
    check_file(options.out)
    check_file(options.keep_text)
    check_distinct("--out", options.out, inputs)
    check_distinct("--keep-text", options.keep_text, [options.out, *inputs])
    if options.keep_text and work_folder(options.out) in [(path := Path(options.keep_text).resolve()), *path.parents]:
        raise AdedError(f"--keep-text is {options.keep_text}, in the work folder of --out; choose another path")


def _from_source(options: argparse.Namespace, progress: Progress) -> tuple[TrigramMatrix, list[str]]:
    source = _source(options)
    tokenizer, size = corpus.load_tokenizer(options.model)
    default = 0 if options.tokens else tokenizer.eos_token_id
    return _count_source(
        source, Vocabulary(tokenizer, size, corpus.separator_for(options.separator, default, size)), options, progress
    )


def count_tokens(path: Path, vocabulary: Vocabulary, out: Path, restart: bool, progress: Progress) -> TrigramMatrix:
    """Build the matrix of a ``.npy`` file of token ids and save it; otherwise as ``matrix build --tokens``.

    Raises:
        AdedError: see ``run``.
    """
    bounds = {"rows": None, "successors": None, "bytes": None}
    options = argparse.Namespace(out=str(out), restart=restart, max_memory=MAX_MEMORY, processes=1, **bounds)
    return _count_source(TokenFile(str(path)), vocabulary, options, progress)[0]


def _count_source(
    source: Source, vocabulary: Vocabulary, options: argparse.Namespace, progress: Progress
) -> tuple[TrigramMatrix, list[str]]:
    with _folder(options, vocabulary, source.identity, source.inputs) as folder:
        _settle_pieces(folder, options)
        matrix = _counted(source, vocabulary, folder, "piece", options, progress)
        matrix.save(options.out)
    return matrix, _rebuilt(folder)


def _source(options: argparse.Namespace) -> Source:
    if options.tokens:
        return TokenFile(options.tokens)
    if options.text:
        return TextFiles(options.text)
    return DatasetStream(options.dataset, options.dataset_config, options.dataset_split, options.dataset_field)


def _from_model(options: argparse.Namespace, progress: Progress) -> tuple[TrigramMatrix, list[str]]:
    from aded.data.self_generation import ConversationGenerator, read_beginnings, script_of, separator_of
    from aded.engine.target_model import TargetModel

    target = TargetModel.load(options.model, options.device, options.dtype, progress)
    script = script_of(target.tokenizer)
    separator = corpus.separator_for(options.separator, separator_of(target.tokenizer, script), target.vocab_size)
    vocabulary = Vocabulary(target.tokenizer, target.vocab_size, separator)
    beginnings = read_beginnings(options.beginnings, target.tokenizer) if options.beginnings else []
    requested = [options.batch, options.seed, options.greedy_share, *([beginnings] if beginnings else [])]
    model = [target.spec, target.device_name, str(target.dtype), script.opening, script.closing]
    with _folder(options, vocabulary, {"self-written": requested, "model": model}, stamps(target.spec)) as folder:
        batch_size = folder.settings.get("batch", options.batch)
        generator = ConversationGenerator(target, batch_size, options.seed, options.greedy_share, script, beginnings)
        folder.settle(batch=generator.batch_size)
        collection = Collection(options.self_written, separator, target.vocab_size)
        write(generator, collection, folder, progress)
        text = folder.path("text.npy")
        store(text, npy_bytes(collection.text()))
        _settle_pieces(folder, options)
        matrix = _counted(TokenFile(str(text)), vocabulary, folder, f"piece-{collection.tokens}", options, progress)
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
        generator: a ``aded.data.self_generation.ConversationGenerator``.
        expired: called before each batch except the first; whether time is up, so that no more are written.

    Raises:
        AdedError: the model only repeats earlier questions.
    """
    reporter, index, repeated = ProgressReporter(progress, "writing"), 0, 0
    while not collection.full:
        name, before = f"batch-{index:05d}.npz", collection.tokens
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
    source: Source, vocabulary: Vocabulary, folder: WorkFolder, name: str, options: argparse.Namespace, progress: Progress
) -> TrigramMatrix:
    paths = tokenize(source, vocabulary, folder, name, options.processes, progress)
    return ngram_counting.count(
        paths,
        separator=vocabulary.separator,
        vocab_size=vocabulary.size,
        fingerprint=tokenizer_fingerprint(vocabulary.tokenizer),
        max_successors=options.successors or MAX_SUCCESSORS,
        spill=folder.path(SPILL),
        rows=options.rows,
        size=options.bytes,
        memory=options.max_memory // 2,
        threads=options.processes,
        progress=progress,
    )


def tokenize(
    source: Source, vocabulary: Vocabulary, folder: WorkFolder, name: str, processes: int, progress: Progress
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

    for tokens, share in ordered_map(PieceTokenizer(vocabulary), jobs(), processes):
        reporter.report(reporter.tokens + tokens, share)
    return paths


@dataclass(frozen=True)
class PieceTokenizer:
    """Stores the token ids of a piece in a file; can be pickled, so it runs in any process."""

    vocabulary: Vocabulary

    def __call__(self, job: tuple[Piece, Path]) -> tuple[int, float | None]:
        """Returns the number of tokens and the share of the source that is done (see ``aded.data.readers.Piece``)."""
        piece, path = job
        tokens = piece.tokens(self.vocabulary.tokenizer, self.vocabulary.separator)
        store(path, ngram_counting.pack(tokens, self.vocabulary.size))
        return len(tokens), piece.share


def ordered_map(function: Callable[[Any], Any], jobs: Iterable[Any], processes: int) -> Iterator[Any]:
    """Results of ``function`` in the order of the jobs; at most ``processes + 1`` jobs are taken in advance.

    Raises:
        InterruptedJobError: a process was killed.
    """
    if processes == 1:
        yield from map(function, jobs)
        return
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _init_worker) as pool:
        pending: deque[Any] = deque()
        try:
            for job in jobs:
                pending.append(pool.submit(function, job))
                if len(pending) > processes:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except BrokenProcessPool:
            raise InterruptedJobError(
                f"a process was killed, probably for lack of memory; give fewer --processes and {RESUME_HINT}"
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


def _init_worker() -> None:
    """Start a worker process: ignore Ctrl-C, which the parent handles, and exit when the parent exits."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


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
