"""Counting the tri-grams of a text of any length in bounded memory: sorted runs on disk, merged at the end.

A text comes in pieces. Each is counted by itself, in any process, into a *run*: its grams and how often each was seen, in
order. What crosses the border of two pieces is counted from their outermost tokens. The merge cuts the range of grams so
that each part of all runs together fits in memory. Sums do not depend on how a text was cut or by whom it was counted:
the matrix is that of `TrigramMatrix.build` over the whole text, to the byte.
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
"""Memory that counting takes a token of a piece: two grams of it, as codes, sorted and summed, and its text before that."""
BORDER = 2
"""Tokens at each end of a piece that grams across a border are made of."""
FIELDS = 1 + 2 * BORDER
"""Numbers of a run's file before its grams."""
MERGED = 1 << 22
"""Grams that a merge holds at once, about."""


@dataclass(frozen=True)
class Run:
    """The grams of one piece.

    Attributes:
        codes: each gram once, ascending, int64 ``[grams]`` (see `TrigramMatrix.from_grams`).
        counts: how often each was seen, int64 ``[grams]``.
        tokens: of the piece.
        head, tail: its first and last `BORDER` tokens, int64, fewer if it has no more.
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
            AdedError: an id is outside the vocabulary, or that is too large.
        """
        if not 0 < vocab_size <= MAX_VOCAB:
            raise AdedError(f"a vocabulary of {vocab_size} cannot be counted; at most {MAX_VOCAB} ids are supported")
        if len(tokens) and (tokens.min() < 0 or tokens.max() >= vocab_size):
            wrong = tokens.max() if tokens.max() >= vocab_size else tokens.min()
            raise AdedError(f"the text holds token id {wrong}, the model has 0 to {vocab_size - 1}; give the model that wrote it")
        ids = tokens.astype(np.int64)
        grams = np.concatenate([_singles(ids, separator, vocab_size), _pairs(ids, separator, vocab_size)])
        return cls(*np.unique(grams, return_counts=True), len(ids), ids[:BORDER], ids[-BORDER:])

    def to_bytes(self) -> bytes:
        """A ``.npy`` file, int64 ``[2, FIELDS + grams]``: a row of codes and one of counts.

        Before the codes stand the number of tokens and those at the borders, -1 for what is not there; above them a checksum.
        """
        whole = np.full((2, FIELDS + len(self.codes)), -1, dtype=np.int64)
        whole[0, 0] = self.tokens
        whole[0, 1 : 1 + len(self.head)] = self.head
        whole[0, 1 + BORDER : 1 + BORDER + len(self.tail)] = self.tail
        whole[0, FIELDS:], whole[1, FIELDS:] = self.codes, self.counts
        whole[1, 0] = _checksum(whole)
        return npy_bytes(whole)

    @classmethod
    def verified(cls, path: Path) -> Run:
        """Read a run through once, so that damage anywhere in it is found, then as `open`.

        Raises:
            AdedError: the file is missing or damaged.
        """
        whole = cls._mapped(path)
        if whole[1, 0] != _checksum(whole):
            raise _damaged(path)
        return cls.open(path)

    @classmethod
    def open(cls, path: Path) -> Run:
        """Read a run; its grams stay on disk until they are asked for.

        Raises:
            AdedError: the file is missing or damaged.
        """
        whole = cls._mapped(path)
        head, tail = (part[part >= 0] for part in np.split(np.array(whole[0, 1:FIELDS]), 2))
        return cls(whole[0, FIELDS:], whole[1, FIELDS:], int(whole[0, 0]), head, tail)

    @staticmethod
    def _mapped(path: Path) -> np.ndarray:
        try:
            whole = np.load(path, mmap_mode="r", allow_pickle=False)
        except Exception:  # the head of the file is parsed as Python, which has many ways to fail
            raise _damaged(path) from None
        if not isinstance(whole, np.ndarray) or whole.dtype != np.int64 or whole.ndim != 2:
            raise _damaged(path)
        if len(whole) != 2 or whole.shape[1] < FIELDS:
            raise _damaged(path)
        return whole


@dataclass
class Borders:
    """The grams across the borders of pieces, taken in one by one in the text's order."""

    separator: int
    vocab_size: int
    tokens: int = 0
    _tail: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    _grams: list[np.ndarray] = field(default_factory=list)

    def add(self, run: Run) -> None:
        """Join a piece to those before it."""
        known = self.separator, self.vocab_size
        joined, at = np.concatenate([self._tail, run.head]), len(self._tail)
        self._grams += [_singles(joined[max(at - 1, 0) : at + 1], *known)] if at else []
        self._grams += [_pairs(joined, *known)] if at else []
        self._tail = np.concatenate([self._tail, run.tail])[-BORDER:] if run.tokens < BORDER else run.tail
        self.tokens += run.tokens

    def grams(self) -> tuple[np.ndarray, np.ndarray]:
        """Codes and counts, as of a run."""
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
    held: int = MERGED,
    progress: Progress = quiet,
) -> TrigramMatrix:
    """The matrix of a whole text from the runs of its pieces.

    Args:
        paths: files of runs, in the text's order.
        separator, vocab_size, fingerprint, max_successors: as of `TrigramMatrix.build`.
        rows, size: see `TrigramMatrix.prune`; rows that cannot be among those kept are then dropped on the way.
        held: grams held at once, about; one context's are never parted.
        progress: called with what is going on.

    Raises:
        AdedError: no token stands after another, a file is damaged, or a bound is out of range.
    """
    borders = Borders(separator, vocab_size)
    for path in paths:
        borders.add(Run.open(path))
    if not len(borders.grams()[0]) and not any(len(Run.open(path).codes) for path in paths):
        raise AdedError("there is no text to count; give one of at least two tokens, not separators alone")
    cuts = _cuts(paths, vocab_size, held)

    def parts() -> Iterator[TrigramMatrix]:
        for part, grams in enumerate(merged(paths, borders.grams(), cuts)):
            progress("merging the counts", part / (len(cuts) + 1))
            yield TrigramMatrix.from_grams(
                *grams,
                vocab_size=vocab_size,
                fingerprint=fingerprint,
                max_successors=max_successors,
                corpus_tokens=borders.tokens,
            )

    most = min(rows if rows is not None else 1 << 31, size // (ROW_BYTES + ENTRY_BYTES) if size is not None else 1 << 31)
    matrix = _kept(parts(), most)
    return matrix if rows is size is None else matrix.prune(rows=rows, size=size)


def merged(
    paths: Sequence[Path], others: tuple[np.ndarray, np.ndarray], cuts: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The sums of runs and of ``others``, ascending, in parts that end before each of the codes ``cuts``."""
    places = [_places(Run.open(path).codes, cuts) for path in paths]
    rest = _places(others[0], cuts)
    for part in range(len(cuts) + 1):
        slices = [(others[0][rest[part] : rest[part + 1]], others[1][rest[part] : rest[part + 1]])]
        for path, place in zip(paths, places):
            run = Run.open(path)
            slices.append((run.codes[place[part] : place[part + 1]], run.counts[place[part] : place[part + 1]]))
        yield _summed(np.concatenate([s[0] for s in slices]), np.concatenate([s[1] for s in slices]))


def _cuts(paths: Sequence[Path], vocab_size: int, held: int) -> np.ndarray:
    """Where to cut the range of codes: first codes of contexts, so that about ``held`` grams of all runs lie between two.

    Every ``step``-th code of each run is looked at. Between cuts lie as many of these as there are runs, and at most a step of
    each run besides.
    """
    step = max(1, held // (2 * max(1, len(paths))))
    looked_at = np.sort(np.concatenate([np.zeros(0, np.int64), *(np.array(Run.open(path).codes[step::step]) for path in paths)]))
    cuts = looked_at[len(paths) :: max(1, len(paths))]
    return np.unique(cuts // vocab_size * vocab_size)


def _places(codes: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.searchsorted(codes, cuts), [len(codes)]])


def _summed(codes: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each code once, ascending, with its counts added up."""
    order = np.argsort(codes, kind="stable")
    codes, counts = codes[order], counts[order]
    first = np.flatnonzero(np.diff(codes, prepend=-1))
    return codes[first], np.add.reduceat(counts, first) if len(first) else counts


def _kept(parts: Iterable[TrigramMatrix], most: int) -> TrigramMatrix:
    """The parts joined; where there is a bound, rows that cannot be among the ``most`` kept ones are dropped on the way."""
    held: list[TrigramMatrix] = []
    for part in parts:
        held.append(part)
        if sum(map(len, held)) > 2 * most + MERGED:
            held = [TrigramMatrix.joined(held).prune(rows=most)]
    return TrigramMatrix.joined(held)


def _checksum(whole: np.ndarray) -> int:
    """CRC-32 of a run's numbers but for the checksum itself."""
    return zlib.crc32(whole[1, 1:].data, zlib.crc32(whole[0].data))


def _damaged(path: Path) -> AdedError:
    return AdedError(f"{path} is damaged; start the build anew with --restart")


def _singles(ids: np.ndarray, separator: int, vocab_size: int) -> np.ndarray:
    """Codes of every token with the one before it."""
    return (ids[:-1] * vocab_size + ids[1:])[ids[:-1] != separator]


def _pairs(ids: np.ndarray, separator: int, vocab_size: int) -> np.ndarray:
    """Codes of every token with the two before it."""
    inside = (ids[:-2] != separator) & (ids[1:-1] != separator)
    return (((ids[:-2] + 1) * vocab_size + ids[1:-1]) * vocab_size + ids[2:])[inside]
