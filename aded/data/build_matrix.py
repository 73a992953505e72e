"""`matrix build`: a base matrix from given texts, or from text that the model writes itself, in bounded memory.

Writing, counting and merging leave their results in a work folder beside the matrix (see ``aded.data.job_folder``): the same
command goes on where an interrupted one stopped, and makes the same bytes.
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
from aded.core.validation import check_apart, check_file, check_readable, flag, refuse_ignored
from aded.data import corpus, ngram_counting
from aded.data.conversations import BARREN_WAVES, Collection, nothing_new, pack, unpack
from aded.data.job_folder import GOES_ON, Halted, WorkFolder, npy_bytes, store, work_folder
from aded.data.ngram_counting import BYTES_PER_TOKEN, Run
from aded.data.readers import DatasetStream, Piece, Source, TextFiles, TokenFile, stamps
from aded.engine.tokenizer import tokenizer_fingerprint
from aded.engine.weights import Progress, label_of
from aded.ngram.trigram import MAX_SUCCESSORS, TrigramMatrix

MOST_PROCESSES = 256
SMALLEST_PIECE = 1 << 12
"""Tokens; less memory than for so many is not to be had."""
OF_ONE_SOURCE = {
    "self_written": ("batch", "seed", "greedy_share", "beginnings", "keep_text", "device", "dtype"),
    "dataset": ("dataset_config", "dataset_split", "dataset_field"),
}
"""Options that go with one source alone."""


@dataclass(frozen=True)
class Vocabulary:
    """Whose tokens are counted, and what parts texts."""

    tokenizer: Any
    size: int
    separator: int


def run(options: argparse.Namespace, progress: Progress) -> str:
    """Build the matrix that the options of ``matrix build`` describe; returns a sentence on what was made.

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
    """Refuse what cannot be done before any work."""
    for source, names in OF_ONE_SOURCE.items():
        if getattr(options, source) is None:
            refuse_ignored(options, names, f"goes with {flag(source)}")
    TrigramMatrix.empty(1).prune(rows=options.rows, successors=options.successors, size=options.bytes)
    for name, value, most in (
        ("--max-memory", options.max_memory, 1 << 24), ("--processes", options.processes, MOST_PROCESSES),
        ("--self-written", options.self_written, 1 << 40), ("--batch", options.batch, 1 << 40),
    ):  # fmt: skip
        if value is not None and not 1 <= value <= most:
            raise AdedError(f"{name} is {value}; give a number from 1 to {most}")
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
    check_apart("--out", options.out, inputs)
    check_apart("--keep-text", options.keep_text, [options.out, *inputs])
    if options.keep_text and work_folder(options.out) in [(kept := Path(options.keep_text).resolve()), *kept.parents]:
        raise AdedError(f"--keep-text is {options.keep_text}, in the work folder of --out; choose another path")


def _from_source(options: argparse.Namespace, progress: Progress) -> tuple[TrigramMatrix, list[str]]:
    source = _source(options)
    tokenizer, size = corpus.load_tokenizer(options.model)
    usual = 0 if options.tokens else tokenizer.eos_token_id
    vocabulary = Vocabulary(tokenizer, size, corpus.separator_for(options.separator, usual, size))
    with _folder(options, vocabulary, source.identity, source.inputs) as folder:
        _settle_pieces(folder, options)
        matrix = _counted(source, vocabulary, folder, "run", options, progress)
        matrix.save(options.out)
    return matrix, _repaired(folder)


def _source(options: argparse.Namespace) -> Source:
    if options.tokens:
        return TokenFile(options.tokens)
    if options.text:
        return TextFiles(options.text)
    return DatasetStream(options.dataset, options.dataset_config, options.dataset_split, options.dataset_field)


def _from_model(options: argparse.Namespace, progress: Progress) -> tuple[TrigramMatrix, list[str]]:
    from aded.data.self_generation import SelfWriter, beginnings_in, script_of, separator_of
    from aded.engine.target_model import TargetModel

    target = TargetModel.load(options.model, options.device, options.dtype, progress)
    script = script_of(target.tokenizer)
    separator = corpus.separator_for(options.separator, separator_of(target.tokenizer, script), target.vocab_size)
    vocabulary = Vocabulary(target.tokenizer, target.vocab_size, separator)
    beginnings = beginnings_in(options.beginnings, target.tokenizer) if options.beginnings else []
    asked = [options.batch, options.seed, options.greedy_share, *([beginnings] if beginnings else [])]
    model = [target.spec, target.device_name, str(target.dtype), script.opening, script.closing]
    with _folder(options, vocabulary, {"self-written": asked, "model": model}, stamps(target.spec)) as folder:
        batch = folder.settings.get("batch", options.batch)
        writer = SelfWriter(target, batch, options.seed, options.greedy_share, script, beginnings)
        folder.settle(batch=writer.batch)
        collection = Collection(options.self_written, separator, target.vocab_size)
        write(writer, collection, folder, progress)
        text = folder.path("text.npy")
        store(text, npy_bytes(collection.text()))
        _settle_pieces(folder, options)
        matrix = _counted(TokenFile(str(text)), vocabulary, folder, f"run-{collection.tokens}", options, progress)
        if options.keep_text:
            write_atomically(Path(options.keep_text), text.read_bytes())
        matrix.save(options.out)
    notes = [f"{collection.conversations} conversations", f"{collection.duplicates} repeated questions dropped"]
    notes += [f"{collection.distinct():.0%} of the answers' 4-grams distinct", *filter(None, [writer.notice])]
    return matrix, [*notes, *_repaired(folder)]


def _repaired(folder: WorkFolder) -> list[str]:
    return [f"damaged files made again: {', '.join(folder.damaged)}"] if folder.damaged else []


def write(writer: Any, collection: Collection, folder: WorkFolder, progress: Progress) -> None:
    """Let the model write until the collection is full: waves that are in the folder are read, the others go there.

    Args:
        writer: as ``aded.data.self_generation.SelfWriter``.

    Raises:
        AdedError: it writes nothing new any more.
    """
    pace, index, barren = Pace(progress, "writing"), 0, 0
    while not collection.full:
        name, before = f"wave-{index:05d}.npz", collection.tokens
        wave = folder.read(name, unpack)
        if wave is not None:
            collection.add(wave)
            pace.start(collection.tokens / collection.limit)
        else:
            wave = writer.wave(index, pace.part(before / collection.limit, 1 / collection.limit))
            store(folder.path(name), pack(wave))
            collection.add(wave)
        barren = 0 if collection.tokens > before else barren + 1
        if barren == BARREN_WAVES:
            raise nothing_new(collection.conversations)
        index += 1


def _folder(options: argparse.Namespace, vocabulary: Vocabulary, source: dict[str, Any], inputs: Any) -> WorkFolder:
    """The build's work folder.

    What is only applied at the end (bounds, processes, how many tokens of an endless text) is no part of its identity.
    """
    known = {"version": aded.__version__, "fingerprint": tokenizer_fingerprint(vocabulary.tokenizer)}
    known |= {"vocabulary": str(vocabulary.size), "separator": str(vocabulary.separator)}
    return WorkFolder(options.out, {**known, **source}, inputs, options.restart)


def _settle_pieces(folder: WorkFolder, options: argparse.Namespace) -> None:
    folder.settle(piece=max(SMALLEST_PIECE, (options.max_memory << 20) // BYTES_PER_TOKEN // options.processes))


def _counted(
    source: Source, vocabulary: Vocabulary, folder: WorkFolder, name: str, options: argparse.Namespace, progress: Progress
) -> TrigramMatrix:
    paths = count(source, vocabulary, folder, name, options.processes, progress)
    return ngram_counting.merge(
        paths,
        separator=vocabulary.separator,
        vocab_size=vocabulary.size,
        fingerprint=tokenizer_fingerprint(vocabulary.tokenizer),
        max_successors=options.successors or MAX_SUCCESSORS,
        rows=options.rows,
        size=options.bytes,
        progress=progress,
    )


def count(
    source: Source, vocabulary: Vocabulary, folder: WorkFolder, name: str, processes: int, progress: Progress
) -> list[Path]:
    """Count every piece of a source into a run in the folder, but for those that are there and whole.

    Args:
        name: of the source: where its files' names begin.

    Returns:
        The runs' files, in order.
    """
    pace, paths = Pace(progress, "counting"), []

    def jobs() -> Iterator[tuple[Piece, Path]]:
        for number, piece in enumerate(source.pieces(folder.settings["piece"])):
            file = f"{name}-{number:05d}.npy"
            paths.append(folder.path(file))
            if folder.read(file, Run.verified) is not None:
                pace.start(piece.share)
            else:
                yield piece, paths[-1]

    for tokens, share in mapped(PieceCounter(vocabulary), jobs(), processes):
        pace.tell(pace.tokens + tokens, share)
    return paths


@dataclass(frozen=True)
class PieceCounter:
    """Counts a piece into a file, in whatever process."""

    vocabulary: Vocabulary

    def __call__(self, job: tuple[Piece, Path]) -> tuple[int, float | None]:
        """Returns the piece's tokens and its share of the source (see ``aded.data.readers.Piece``)."""
        piece, path = job
        tokens = piece.tokens(self.vocabulary.tokenizer, self.vocabulary.separator)
        store(path, Run.of(tokens, self.vocabulary.separator, self.vocabulary.size).to_bytes())
        return len(tokens), piece.share


def mapped(function: Callable[[Any], Any], jobs: Iterable[Any], processes: int) -> Iterator[Any]:
    """Results in order; jobs are taken only a little ahead of the processes.

    Raises:
        Halted: a process was killed.
    """
    if processes == 1:
        yield from map(function, jobs)
        return
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _follow) as pool:
        waiting: deque[Any] = deque()
        try:
            for job in jobs:
                waiting.append(pool.submit(function, job))
                if len(waiting) > processes:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool:
            raise Halted(f"a process was killed, likely for its memory; give fewer --processes and {GOES_ON}") from None
        finally:
            pool.shutdown(cancel_futures=True)


def _follow() -> None:
    """What a process does first: leave Ctrl-C to the one that leads, and end when that one ends, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_leader, daemon=True).start()


def _end_with_leader() -> None:
    leader = multiprocessing.parent_process()
    assert leader is not None
    leader.join()
    os._exit(1)


class Pace:
    """Tells how far a job is, how fast, and how long it will take yet.

    Attributes:
        tokens: done by this run.
    """

    def __init__(self, progress: Progress, what: str, clock: Callable[[], float] = time.perf_counter) -> None:
        self.tokens = 0
        self._progress, self._what, self._clock = progress, what, clock
        self.start(0.0)

    def start(self, share: float | None) -> None:
        """This share of the job, 0 to 1, was done before."""
        self._share, self._began = share or 0.0, self._clock()

    def tell(self, tokens: int, share: float | None) -> None:
        """So many tokens are done by this run, and this share of the job in all (None: not known)."""
        self.tokens = tokens
        seconds = max(self._clock() - self._began, 1e-9)
        message = f"{self._what}: {tokens:,} tokens, {tokens / seconds:,.0f} a second"
        if share is not None and share > self._share:
            left = seconds * max(0.0, 1 - share) / (share - self._share)
            message += f", {left / 60:.0f} min left" if left >= 90 else f", {left:.0f} s left"
        self._progress(message, share)

    def part(self, before: float, share: float) -> Callable[[int], None]:
        """What a part of the job tells by its own count of tokens: ``share`` each, and ``before`` at its beginning."""
        done = self.tokens
        return lambda tokens: self.tell(done + tokens, min(1.0, before + share * tokens))
