"""ADED's stand-in for the language model: for a pair of tokens, its successors and their probabilities.

`TrigramMatrix` is the read-only part, counted once from text and shared by every session; what a session learns of its
own text lies in `aded.ngram.session_overlay`. Knows nothing about searching a draft, and nothing about tokenizers but a
fingerprint.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load as parse_safetensors

from aded.core import tensor_file
from aded.core.errors import ANY_MODEL, AdedError, ForeignError, first_line
from aded.core.jit import njit
from aded.core.trace import write_atomically

FORMAT = "aded-trigram"
VERSION = 1
MAX_SUCCESSORS = 12
"""Successors kept of a pair, most frequent first (ADED, arXiv 2407.12021, keeps as many)."""
MOST_SUCCESSORS = 256
MAX_VOCAB = 1 << 20
"""Three ids of a trigram share one 64-bit sort key, and float32 holds ids below 2^24 exactly."""
REMEDY = f"build one for this model with `python -m aded matrix build --model {ANY_MODEL} --text FILE --out FILE`"

EMPTY = -1  # a free slot of the hash index; keys of pairs are >= 0, of single tokens <= -2


@njit(cache=True)
def pair_key(first: int, second: int) -> int:
    """The index key of a pair; ``first == -1`` stands for "any token", the back-off row of ``second`` alone."""
    return -(second + 2) if first < 0 else (first << 32) | second


@njit(cache=True)
def slot_of(key: int, mask: int) -> int:
    """Where the search for ``key`` starts in a table of ``mask + 1`` slots."""
    mixed = key * 0x9E3779B97F4A7C1
    mixed ^= mixed >> 29
    mixed *= 0x2545F4914F6CDD1D
    return (mixed ^ (mixed >> 32)) & mask


@njit(cache=True)
def find_row(index: np.ndarray, key: int) -> int:
    """The row of ``key`` in the open-addressed ``index`` (linear probing), packed as by `pack_row`, or -1."""
    mask = len(index) - 1
    slot = slot_of(key, mask)
    while index[slot, 0] != EMPTY:
        if index[slot, 0] == key:
            return index[slot, 1]
        slot = (slot + 1) & mask
    return -1


@njit(cache=True)
def pack_row(start: int, length: int, total: int) -> int:
    """Where a row's entries begin, their number, and how often its context was seen (at most 65 535), in 64 bits.

    So a look-up touches one line of the index and one of the entries: it is memory that the time goes to.
    """
    return (start << 32) | (min(total, 0xFFFF) << 16) | length


@njit(cache=True)
def unpack_row(row: int) -> tuple[int, int, int]:
    """First entry, last entry + 1, sights of the context."""
    start = row >> 32
    return start, start + (row & 0xFFFF), (row >> 16) & 0xFFFF


@njit(cache=True)
def _fill(contexts: np.ndarray, starts: np.ndarray, totals: np.ndarray, index: np.ndarray) -> bool:
    """Fill the index; False where two rows have one context."""
    mask = len(index) - 1
    for row in range(len(contexts)):
        key = pair_key(contexts[row, 0], contexts[row, 1])
        slot = slot_of(key, mask)
        while index[slot, 0] != EMPTY:
            if index[slot, 0] == key:
                return False
            slot = (slot + 1) & mask
        index[slot, 0] = key
        index[slot, 1] = pack_row(np.int64(starts[row]), np.int64(starts[row + 1] - starts[row]), np.int64(totals[row]))
    return True


@dataclass(frozen=True, eq=False)
class TrigramMatrix:
    """Successor rows in flat arrays, in ascending order of their contexts.

    Attributes:
        contexts: the pair of each row, int32 ``[rows, 2]``; a first token of -1 marks a single token's back-off row.
        starts: where each row's successors begin, int32 ``[rows + 1]``.
        successors: token ids, most frequent first, int32 ``[entries]``.
        counts: how often each was seen after its context, uint16 ``[entries]`` (at most 65 535).
        totals: how often each context was seen at all, pruned successors included, uint32 ``[rows]``.
        vocab_size: ids are below it.
        fingerprint: of the tokenizer that the ids belong to.
        max_successors: bound on a row's successors.
        corpus_tokens: number of tokens that were counted.
    """

    contexts: np.ndarray
    starts: np.ndarray
    successors: np.ndarray
    counts: np.ndarray
    totals: np.ndarray
    vocab_size: int
    fingerprint: str
    max_successors: int = MAX_SUCCESSORS
    corpus_tokens: int = 0

    @classmethod
    def build(
        cls,
        ids: np.ndarray,
        *,
        separator: int,
        vocab_size: int,
        fingerprint: str,
        max_successors: int = MAX_SUCCESSORS,
    ) -> TrigramMatrix:
        """Count the pairs and trigrams of a text.

        Args:
            ids: token ids, any integer type ``[tokens]``; sequences end with ``separator``, which may itself be a
                successor but never a context: nothing is counted across it.
            separator: the id that ends a sequence.
            vocab_size: ids must be below it.
            fingerprint: of the tokenizer (`aded.engine.tokenizer.tokenizer_fingerprint`).
            max_successors: keep that many successors of a context, most frequent first, lower id first among equals.

        Raises:
            AdedError: no tokens, an id outside the vocabulary, or a bound out of range.
        """
        ids = np.asarray(ids).astype(np.int64)
        if not 0 < vocab_size <= MAX_VOCAB:
            raise AdedError(f"a vocabulary of {vocab_size} cannot be counted; at most {MAX_VOCAB} ids are supported")
        if not 1 <= max_successors <= MOST_SUCCESSORS:
            raise AdedError(f"max_successors is {max_successors}; give a number from 1 to {MOST_SUCCESSORS}")
        if ids.ndim != 1 or len(ids) < 2 or ids.min() < 0 or ids.max() >= vocab_size:
            raise AdedError(f"the corpus must hold token ids from 0 to {vocab_size - 1}; tokenize it with this model's tokenizer")
        inside = ids != separator
        singles = _count(ids[:-1][inside[:-1]], ids[1:][inside[:-1]], vocab_size, max_successors)
        whole = inside[:-2] & inside[1:-1]
        pairs = _count((ids[:-2] * vocab_size + ids[1:-1])[whole], ids[2:][whole], vocab_size, max_successors)
        contexts = np.concatenate([_pairs_of(singles[0], vocab_size, single=True), _pairs_of(pairs[0], vocab_size)])
        lengths = np.concatenate([singles[1], pairs[1]])
        return cls(
            contexts=contexts.astype(np.int32),
            starts=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
            successors=np.concatenate([singles[2], pairs[2]]).astype(np.int32),
            counts=np.minimum(np.concatenate([singles[3], pairs[3]]), 65535).astype(np.uint16),
            totals=np.concatenate([singles[4], pairs[4]]).astype(np.uint32),
            vocab_size=vocab_size,
            fingerprint=fingerprint,
            max_successors=max_successors,
            corpus_tokens=len(ids),
        )

    @classmethod
    def from_grams(
        cls, codes: np.ndarray, counts: np.ndarray, *, vocab_size: int, fingerprint: str, max_successors: int, corpus_tokens: int
    ) -> TrigramMatrix:
        """What `build` makes of a text with these counts.

        Args:
            codes: each (context, successor) once, ascending, int64 ``[grams]``: ``((first + 1) * vocab_size + second) *
                vocab_size + successor``, a single token's context with a ``first`` of -1.
            counts: how often each was seen, int64 ``[grams]``.
            vocab_size, fingerprint, max_successors: as of `build`.
            corpus_tokens: number of tokens that were counted.
        """
        contexts, successors = np.divmod(codes, vocab_size)
        rows, first = np.unique(contexts, return_index=True)
        totals = np.add.reduceat(counts, first) if len(first) else counts
        order = np.lexsort((successors, -counts, contexts))
        like = replace(cls.empty(vocab_size), fingerprint=fingerprint)
        return _assemble(like, rows, totals, contexts[order], successors[order], counts[order], max_successors, corpus_tokens)

    @classmethod
    def joined(cls, parts: Sequence[TrigramMatrix]) -> TrigramMatrix:
        """One matrix of several whose rows follow one another: every context of one comes after those of the one before.

        Raises:
            AdedError: together they are larger than a file can hold.
        """
        ends = np.cumsum([0, *(len(part.successors) for part in parts)])
        if ends[-1] > np.iinfo(np.int32).max:
            raise AdedError(f"{ends[-1]} successors are more than a matrix can hold; keep less with --rows or --successors")
        return replace(
            parts[0],
            contexts=np.concatenate([part.contexts for part in parts]),
            starts=np.concatenate([[0], *(part.starts[1:] + end for part, end in zip(parts, ends))]).astype(np.int32),
            successors=np.concatenate([part.successors for part in parts]),
            counts=np.concatenate([part.counts for part in parts]),
            totals=np.concatenate([part.totals for part in parts]),
        )

    @classmethod
    def empty(cls, vocab_size: int) -> TrigramMatrix:
        """A matrix that knows nothing: a session then works from its own text alone."""
        none = np.zeros(0, dtype=np.int32)
        return cls(
            none.reshape(0, 2), np.zeros(1, np.int32), none, none.astype(np.uint16), none.astype(np.uint32), vocab_size, ""
        )

    def __len__(self) -> int:
        return len(self.totals)

    def summary(self) -> dict[str, Any]:
        """What the matrix holds, as JSON values."""
        single = int((self.contexts[:, 0] < 0).sum())
        return {
            "format": FORMAT,
            "version": VERSION,
            "fingerprint": self.fingerprint,
            "vocab_size": self.vocab_size,
            "max_successors": self.max_successors,
            "corpus_tokens": self.corpus_tokens,
            "pairs": len(self) - single,
            "single_tokens": single,
            "successors": len(self.successors),
        }

    @classmethod
    def merge(cls, matrices: Sequence[TrigramMatrix]) -> TrigramMatrix:
        """The counts of several matrices of one tokenizer, added up; what one of them had pruned stays lost.

        Raises:
            AdedError: there is none, or they belong to different tokenizers.
        """
        if not matrices:
            raise AdedError("there is no matrix to merge; name at least one file")
        first = matrices[0]
        for matrix in matrices[1:]:
            if (matrix.fingerprint, matrix.vocab_size) != (first.fingerprint, first.vocab_size):
                raise AdedError("the matrices belong to different tokenizers; merge only those built for one model")
        contexts = np.concatenate([_codes(m) for m in matrices])
        row_codes, row = np.unique(contexts, return_inverse=True)
        totals = np.zeros(len(row_codes), np.int64)
        np.add.at(totals, row, np.concatenate([m.totals for m in matrices]).astype(np.int64))
        entry_codes = np.concatenate([np.repeat(_codes(m), np.diff(m.starts)) for m in matrices])
        successors = np.concatenate([m.successors for m in matrices]).astype(np.int64)
        counts = np.concatenate([m.counts for m in matrices]).astype(np.int64)
        keep = max(m.max_successors for m in matrices)
        tokens = sum(m.corpus_tokens for m in matrices)
        return _assemble(first, row_codes, totals, *_summed(entry_codes, successors, counts), keep, tokens)

    def prune(self, *, rows: int | None = None, successors: int | None = None, size: int | None = None) -> TrigramMatrix:
        """The most useful part: of each row its most frequent successors, then the rows of the most frequent contexts.

        Args:
            rows: keep at most that many (lower context first among equals; single tokens' rows count as any other).
            successors: keep at most that many in a row.
            size: keep rows for a file of at most that many bytes.

        Raises:
            AdedError: a bound is out of range.
        """
        for name, bound, low, high in (
            ("rows", rows, 0, 1 << 31), ("successors", successors, 1, MOST_SUCCESSORS), ("size", size, 0, 1 << 62),
        ):  # fmt: skip
            if bound is not None and not low <= bound <= high:
                raise AdedError(f"{name} is {bound}; give a number from {low} to {high}")
        small = self._with_successors(successors) if successors is not None else self
        order = np.argsort(-small.totals.astype(np.int64), kind="stable")
        if rows is not None:
            order = order[:rows]
        if size is not None:
            least = len(small._with_rows(order[:0]).to_bytes())
            if size < least:
                raise AdedError(f"size is {size}; even an empty matrix takes {least} bytes, give more")
            taken = np.cumsum(ROW_BYTES + ENTRY_BYTES * np.diff(small.starts)[order])
            order = order[: np.searchsorted(taken, size - least, "right")]
            while (over := len(small._with_rows(np.sort(order)).to_bytes()) - size) > 0:  # the header grows with the arrays
                order = order[: np.searchsorted(taken, taken[len(order) - 1] - over, "right")]
        return small._with_rows(np.sort(order))

    def _with_rows(self, rows: np.ndarray) -> TrigramMatrix:
        lengths = np.diff(self.starts)
        kept = np.zeros(len(self), bool)
        kept[rows] = True
        entries = np.repeat(kept, lengths)
        return replace(
            self,
            contexts=self.contexts[kept],
            starts=np.concatenate([[0], np.cumsum(lengths[kept])]).astype(np.int32),
            successors=self.successors[entries],
            counts=self.counts[entries],
            totals=self.totals[kept],
        )

    def _with_successors(self, most: int) -> TrigramMatrix:
        lengths = np.diff(self.starts)
        kept = np.arange(len(self.successors)) - np.repeat(self.starts[:-1], lengths) < most
        return replace(
            self,
            starts=np.concatenate([[0], np.cumsum(np.minimum(lengths, most))]).astype(np.int32),
            successors=self.successors[kept],
            counts=self.counts[kept],
            max_successors=min(self.max_successors, most),
        )

    @cached_property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """What compiled code reads: the index, int64 ``[size, 2]`` (key, packed row), and the entries.

        The entries are float32 ``[entries, 2]``: a successor's id (exact, ids are below 2^20) and its probability.
        """
        size = 16
        while size < 2 * len(self):
            size *= 2
        index = np.full((size, 2), EMPTY, dtype=np.int64)
        if not _fill(self.contexts, self.starts, self.totals, index):
            raise AdedError(f"damaged tri-gram matrix: two rows have one context; {REMEDY}")
        probabilities = self.counts / np.repeat(self.totals, np.diff(self.starts)).astype(np.float64)
        return index, np.stack([self.successors, probabilities], axis=1).astype(np.float32)

    def row(self, first: int, second: int) -> tuple[np.ndarray, np.ndarray]:
        """Successors of a pair (``first == -1``: of ``second`` alone) and their probabilities, int32 and float32 ``[k]``."""
        index, entries = self.arrays
        row = find_row(index, pair_key(int(first), int(second)))
        start, end, _ = unpack_row(row) if row >= 0 else (0, 0, 0)
        return entries[start:end, 0].astype(np.int32), entries[start:end, 1]

    def to_bytes(self) -> bytes:
        """A safetensors file; equal matrices are equal bytes."""
        metadata = {
            "format": FORMAT,
            "version": str(VERSION),
            "fingerprint": self.fingerprint,
            "vocab_size": str(self.vocab_size),
            "max_successors": str(self.max_successors),
            "corpus_tokens": str(self.corpus_tokens),
        }
        return tensor_file.to_bytes(metadata, {name: getattr(self, name).astype(kind) for name, kind in _TENSORS.items()})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a safetensors file atomically.

        Raises:
            AdedError: the place cannot be written.
        """
        write_atomically(Path(path), self.to_bytes())

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, fingerprint: str | None = None, vocab_size: int | None = None
    ) -> TrigramMatrix:
        """Read a matrix, for the model with this tokenizer and this vocabulary (None: whatever model it was built for).

        Raises:
            AdedError: the file is missing, damaged, of another version, or made for another tokenizer.
        """
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise AdedError(f"cannot read the tri-gram matrix {path}: {error.strerror}; {REMEDY}") from None
        try:
            header = _header(data)
            if header.get("format") != FORMAT:
                raise AdedError(f"{path} is not a tri-gram matrix; {REMEDY}")
            if header.get("version") != str(VERSION):
                raise AdedError(f"{path} has version {header.get('version')!r}, this program reads {VERSION}; {REMEDY}")
            if fingerprint not in (None, header["fingerprint"]) or vocab_size not in (None, int(header["vocab_size"])):
                raise ForeignError(f"{path} was built for another tokenizer; {REMEDY}")
            tensors = parse_safetensors(data)
            sizes = {name: int(header[name]) for name in ("vocab_size", "max_successors", "corpus_tokens")}
            fields: dict[str, Any] = {name: tensors[name] for name in _TENSORS} | sizes
            matrix = cls(**fields, fingerprint=header["fingerprint"])
            _check(matrix)
        except AdedError:
            raise
        except Exception as error:  # the parser of safetensors has its own exception type for every kind of damage
            raise AdedError(f"damaged tri-gram matrix {path}: {first_line(error)}; {REMEDY}") from None
        return matrix


_TENSORS = {"contexts": np.int32, "starts": np.int32, "successors": np.int32, "counts": np.uint16, "totals": np.uint32}
ROW_BYTES = 16  # of a file: two ids, a start and a total
ENTRY_BYTES = 6  # an id and a count


def _count(contexts: np.ndarray, successors: np.ndarray, vocab_size: int, keep: int) -> tuple[np.ndarray, ...]:
    """Unique contexts, kept successors of each, those successors, their counts, and each context's unpruned total."""
    grams, counts = np.unique(contexts * vocab_size + successors, return_counts=True)
    context, successor = np.divmod(grams, vocab_size)
    order = np.lexsort((successor, -counts, context))  # by context, then most frequent first
    context, successor, counts = context[order], successor[order], counts[order]
    unique, first, sizes = np.unique(context, return_index=True, return_counts=True)
    totals = np.add.reduceat(counts, first) if len(first) else counts
    rank = np.arange(len(context)) - np.repeat(first, sizes)
    kept = rank < keep
    return unique, np.minimum(sizes, keep), successor[kept], counts[kept], totals


def _codes(matrix: TrigramMatrix) -> np.ndarray:
    """Each row's context as one number, in the order of the rows of a built matrix: single tokens first."""
    return (matrix.contexts[:, 0].astype(np.int64) + 1) * matrix.vocab_size + matrix.contexts[:, 1]


def _summed(contexts: np.ndarray, successors: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each (context, successor) once, with its counts added up; by context, then most frequent, then lower id first."""
    order = np.lexsort((successors, contexts))
    contexts, successors, counts = contexts[order], successors[order], counts[order]
    new = np.ones(len(contexts), bool)
    new[1:] = (contexts[1:] != contexts[:-1]) | (successors[1:] != successors[:-1])
    first = np.flatnonzero(new)
    counts = np.add.reduceat(counts, first) if len(first) else counts
    contexts, successors = contexts[first], successors[first]
    order = np.lexsort((successors, -counts, contexts))
    return contexts[order], successors[order], counts[order]


def _assemble(
    like: TrigramMatrix,
    rows: np.ndarray,
    totals: np.ndarray,
    contexts: np.ndarray,
    successors: np.ndarray,
    counts: np.ndarray,
    keep: int,
    tokens: int,
) -> TrigramMatrix:
    """A matrix from row codes with their totals, and entries sorted as by `_summed`."""
    starts = np.searchsorted(contexts, rows)
    lengths = np.diff(np.append(starts, len(contexts)))
    kept = np.arange(len(contexts)) - np.repeat(starts, lengths) < keep
    first, second = np.divmod(rows, like.vocab_size)
    return replace(
        like,
        contexts=np.stack([first - 1, second], axis=1).astype(np.int32),
        starts=np.concatenate([[0], np.cumsum(np.minimum(lengths, keep))]).astype(np.int32),
        successors=successors[kept].astype(np.int32),
        counts=np.minimum(counts[kept], 65535).astype(np.uint16),
        totals=np.minimum(totals, np.iinfo(np.int32).max).astype(np.uint32),
        max_successors=keep,
        corpus_tokens=tokens,
    )


def _pairs_of(contexts: np.ndarray, vocab_size: int, single: bool = False) -> np.ndarray:
    first, second = np.divmod(contexts, vocab_size)
    return np.stack([np.full_like(second, -1) if single else first, second], axis=1)


def _header(data: bytes) -> dict[str, str]:
    """The text header of a safetensors file (its length stands in the first eight bytes)."""
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > len(data) - 8:
        raise ValueError("the file is cut short")
    return dict(json.loads(data[8 : 8 + size]).get("__metadata__") or {})


def _check(matrix: TrigramMatrix) -> None:
    """What compiled code relies on: it reads without bounds checks."""
    rows, entries = len(matrix.totals), len(matrix.successors)
    shapes = {"contexts": (rows, 2), "starts": (rows + 1,), "successors": (entries,), "counts": (entries,), "totals": (rows,)}
    for name, shape in shapes.items():
        array = getattr(matrix, name)
        if array.dtype != _TENSORS[name] or array.shape != shape:
            raise ValueError(f"{name} is {array.dtype}{list(array.shape)}, not {np.dtype(_TENSORS[name])}{list(shape)}")
    lengths = np.diff(matrix.starts.astype(np.int64))
    if matrix.starts[0] != 0 or matrix.starts[-1] != entries or (lengths < 1).any() or (lengths > matrix.max_successors).any():
        raise ValueError("starts do not cut the successors into rows")
    for name, ids, lowest in (
        ("contexts", matrix.contexts[:, 0], -1),
        ("contexts", matrix.contexts[:, 1], 0),
        ("successors", matrix.successors, 0),
    ):
        if len(ids) and (ids.min() < lowest or ids.max() >= matrix.vocab_size):
            raise ValueError(f"{name} hold ids outside the vocabulary")
    if (matrix.counts < 1).any() or (matrix.totals < 1).any() or (matrix.totals > np.iinfo(np.int32).max).any():
        raise ValueError("a count is zero or too large")
    if not 0 < matrix.vocab_size <= MAX_VOCAB:
        raise ValueError("vocab_size is out of range")
    if not 1 <= matrix.max_successors <= MOST_SUCCESSORS or matrix.corpus_tokens < 0:
        raise ValueError("max_successors or corpus_tokens is out of range")
    sums = np.add.reduceat(matrix.counts.astype(np.int64), matrix.starts[:-1]) if rows else np.zeros(0)
    if (sums > matrix.totals).any():
        raise ValueError("a row's successors outnumber its total")
    _ = matrix.arrays  # two rows of one context
