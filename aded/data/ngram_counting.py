"""External-memory counting of bigrams and tri-grams: sorted runs on disk, merged at the end.

A text is split into pieces. Each piece is counted on its own, in any process, into a *run*: its n-grams in ascending order with
their counts. N-grams that cross the boundary of two pieces are counted from the tokens at their ends. The merge splits the range
of n-grams into slices that fit in memory. The sums do not depend on the split: the matrix is byte-identical to that of
`TrigramMatrix.build` over the whole text.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from aded.core.errors import AdedError
from aded.data.job_folder import npy_bytes
from aded.engine.weights import Progress, quiet
from aded.ngram.trigram import ENTRY_BYTES, MAX_VOCAB, ROW_BYTES, TrigramMatrix

BYTES_PER_TOKEN = 128
"""Peak memory of counting, per token of a piece: the text, and two n-gram codes per token with their sorting and summing."""
BORDER = 2
"""Number of tokens at each end of a piece that are needed for the n-grams across its boundaries."""
FIELDS = 1 + 2 * BORDER
"""Number of columns of a run file before its n-grams."""
MERGE_SIZE = 1 << 22
"""Approximate number of n-grams that a merge keeps in memory."""


@dataclass(frozen=True)
class Run:
    """The n-grams of one piece.

    Attributes:
        codes: distinct n-gram codes, ascending, int64 ``[grams]`` (see `TrigramMatrix.from_grams`).
        counts: their counts, int64 ``[grams]``.
        tokens: number of tokens of the piece.
        head, tail: first and last `BORDER` token ids of the piece, int64; fewer if the piece is shorter.
    """

    codes: np.ndarray
    counts: np.ndarray
    tokens: int
    head: np.ndarray
    tail: np.ndarray

    @classmethod
    def of(cls, tokens: np.ndarray, separator: int, vocab_size: int) -> Run:
        """Count a piece, any integer type ``[tokens]``.

        Raises:
            AdedError: an id is outside the vocabulary, or the vocabulary is too large.
        """
        if not 0 < vocab_size <= MAX_VOCAB:
            raise AdedError(f"a vocabulary of {vocab_size} cannot be counted; at most {MAX_VOCAB} ids are supported")
        if len(tokens) and (tokens.min() < 0 or tokens.max() >= vocab_size):
            wrong = tokens.max() if tokens.max() >= vocab_size else tokens.min()
            raise AdedError(f"the text holds token id {wrong}, the model has 0 to {vocab_size - 1}; give the model that wrote it")
        ids = tokens.astype(np.int64)
        grams = np.concatenate([_bigrams(ids, separator, vocab_size), _trigrams(ids, separator, vocab_size)])
        return cls(*np.unique(grams, return_counts=True), len(ids), ids[:BORDER], ids[-BORDER:])

    def to_bytes(self) -> bytes:
        """The run as a ``.npy`` file, int64 ``[2, FIELDS + grams]``.

        Row 0: number of tokens, head, tail (padded with -1), codes. Row 1: checksum, -1 up to `FIELDS`, counts.
        """
        array = np.full((2, FIELDS + len(self.codes)), -1, dtype=np.int64)
        array[0, 0] = self.tokens
        array[0, 1 : 1 + len(self.head)] = self.head
        array[0, 1 + BORDER : 1 + BORDER + len(self.tail)] = self.tail
        array[0, FIELDS:], array[1, FIELDS:] = self.codes, self.counts
        array[1, 0] = _checksum(array)
        return npy_bytes(array)

    @classmethod
    def verified(cls, path: Path) -> Run:
        """Like `open`, but verifies the checksum first, which reads the whole file.

        Raises:
            AdedError: the file is missing or damaged.
        """
        array = cls._mapped(path)
        if array[1, 0] != _checksum(array):
            raise _damaged(path)
        return cls.open(path)

    @classmethod
    def open(cls, path: Path) -> Run:
        """Open a run file; its n-grams are memory-mapped.

        Raises:
            AdedError: the file is missing or damaged.
        """
        array = cls._mapped(path)
        head, tail = (ids[ids >= 0] for ids in np.split(np.array(array[0, 1:FIELDS]), 2))
        return cls(array[0, FIELDS:], array[1, FIELDS:], int(array[0, 0]), head, tail)

    @staticmethod
    def _mapped(path: Path) -> np.ndarray:
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        except Exception:  # NumPy evaluates the header as Python and may raise many exceptions
            raise _damaged(path) from None
        if not isinstance(array, np.ndarray) or array.dtype != np.int64 or array.ndim != 2:
            raise _damaged(path)
        if len(array) != 2 or array.shape[1] < FIELDS:
            raise _damaged(path)
        return array


@dataclass
class BoundaryGrams:
    """The n-grams that cross the boundaries of pieces; the pieces are added one by one in text order."""

    separator: int
    vocab_size: int
    tokens: int = 0
    _tail: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    _grams: list[np.ndarray] = field(default_factory=list)

    def add(self, run: Run) -> None:
        """Add the next piece."""
        options = self.separator, self.vocab_size
        joined, at = np.concatenate([self._tail, run.head]), len(self._tail)
        self._grams += [_bigrams(joined[max(at - 1, 0) : at + 1], *options)] if at else []
        self._grams += [_trigrams(joined, *options)] if at else []
        self._tail = np.concatenate([self._tail, run.tail])[-BORDER:] if run.tokens < BORDER else run.tail
        self.tokens += run.tokens

    def grams(self) -> tuple[np.ndarray, np.ndarray]:
        """Distinct codes, ascending, and their counts, int64 ``[grams]`` each."""
        return np.unique(np.concatenate([np.zeros(0, np.int64), *self._grams]), return_counts=True)


def merge(
    paths: Sequence[Path],
    *,
    separator: int,
    vocab_size: int,
    fingerprint: str,
    max_successors: int,
    rows: int | None = None,
    size: int | None = None,
    held: int = MERGE_SIZE,
    progress: Progress = quiet,
) -> TrigramMatrix:
    """The matrix of a text from the runs of its pieces.

    Args:
        paths: run files, in text order.
        separator, vocab_size, fingerprint, max_successors: see `TrigramMatrix.build`.
        rows, size: see `TrigramMatrix.prune`; rows that pruning would drop may already be dropped during the merge.
        held: approximate number of n-grams in memory; the n-grams of one context always stay together.
        progress: called with a message and the share of the merge that is done, 0 to 1.

    Raises:
        AdedError: the text has no bigram, a file is damaged, or a bound is out of range.
    """
    boundary = BoundaryGrams(separator, vocab_size)
    for path in paths:
        boundary.add(Run.open(path))
    if not len(boundary.grams()[0]) and not any(len(Run.open(path).codes) for path in paths):
        raise AdedError("there is no text to count; give a text of at least two tokens besides separators")
    cuts = _cuts(paths, vocab_size, held)

    def slices() -> Iterator[TrigramMatrix]:
        for number, grams in enumerate(_merged_slices(paths, boundary.grams(), cuts)):
            progress("merging the counts", number / (len(cuts) + 1))
            yield TrigramMatrix.from_grams(
                *grams,
                vocab_size=vocab_size,
                fingerprint=fingerprint,
                max_successors=max_successors,
                corpus_tokens=boundary.tokens,
            )

    max_rows = min(rows if rows is not None else 1 << 31, size // (ROW_BYTES + ENTRY_BYTES) if size is not None else 1 << 31)
    matrix = _joined(slices(), max_rows)
    return matrix if rows is size is None else matrix.prune(rows=rows, size=size)


def _merged_slices(
    paths: Sequence[Path], others: tuple[np.ndarray, np.ndarray], cuts: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Codes and summed counts of all runs and of ``others``, ascending, in slices that end before each code of ``cuts``."""
    bounds = [_slice_bounds(Run.open(path).codes, cuts) for path in paths]
    other = _slice_bounds(others[0], cuts)
    for i in range(len(cuts) + 1):
        slices = [(others[0][other[i] : other[i + 1]], others[1][other[i] : other[i + 1]])]
        for path, bound in zip(paths, bounds):
            run = Run.open(path)
            slices.append((run.codes[bound[i] : bound[i + 1]], run.counts[bound[i] : bound[i + 1]]))
        yield _summed(np.concatenate([s[0] for s in slices]), np.concatenate([s[1] for s in slices]))


def _cuts(paths: Sequence[Path], vocab_size: int, held: int) -> np.ndarray:
    """Codes at which the merge splits the range, int64: about ``held`` n-grams of all runs lie between two of them.

    Each is the first code of a context. They are chosen among every ``step``-th code of each run: between two cuts lie as many
    of these samples as there are runs, plus less than ``step`` codes of each run.
    """
    step = max(1, held // (2 * max(1, len(paths))))
    samples = np.sort(np.concatenate([np.zeros(0, np.int64), *(np.array(Run.open(path).codes[step::step]) for path in paths)]))
    cuts = samples[len(paths) :: max(1, len(paths))]
    return np.unique(cuts // vocab_size * vocab_size)


def _slice_bounds(codes: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    """Start index of each slice in ``codes``, and the end of the last, int64 ``[cuts + 2]``."""
    return np.concatenate([[0], np.searchsorted(codes, cuts), [len(codes)]])


def _summed(codes: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct codes, ascending, with their counts added up."""
    order = np.argsort(codes, kind="stable")
    codes, counts = codes[order], counts[order]
    first = np.flatnonzero(np.diff(codes, prepend=-1))
    return codes[first], np.add.reduceat(counts, first) if len(first) else counts


def _joined(slices: Iterable[TrigramMatrix], max_rows: int) -> TrigramMatrix:
    """The slices joined; prunes to ``max_rows`` rows in between to bound memory."""
    joined: list[TrigramMatrix] = []
    for matrix in slices:
        joined.append(matrix)
        if sum(map(len, joined)) > 2 * max_rows + MERGE_SIZE:
            joined = [TrigramMatrix.joined(joined).prune(rows=max_rows)]
    return TrigramMatrix.joined(joined)


def _checksum(array: np.ndarray) -> int:
    """CRC-32 of all numbers of a run file except the checksum."""
    return zlib.crc32(array[1, 1:].data, zlib.crc32(array[0].data))


def _damaged(path: Path) -> AdedError:
    return AdedError(f"{path} is damaged; add --restart to build from scratch")


def _bigrams(ids: np.ndarray, separator: int, vocab_size: int) -> np.ndarray:
    """Codes of all bigrams whose first token is not the separator, int64."""
    return (ids[:-1] * vocab_size + ids[1:])[ids[:-1] != separator]


def _trigrams(ids: np.ndarray, separator: int, vocab_size: int) -> np.ndarray:
    """Codes of all tri-grams whose first two tokens are not the separator, int64."""
    inside = (ids[:-2] != separator) & (ids[1:-1] != separator)
    return (((ids[:-2] + 1) * vocab_size + ids[1:-1]) * vocab_size + ids[2:])[inside]
