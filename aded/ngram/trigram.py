"""The tri-gram matrix, ADED's LLM representative (arXiv 2407.12021): successors of a bigram and their probabilities.

`TrigramMatrix` holds the base counts: counted once from text, read-only and shared by all sessions. What a session learns
from its own text is in `aded.ngram.session_counts`. Of the tokenizer, this module knows only a fingerprint.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from aded.core import tensor_file
from aded.core.compilation.jit import njit
from aded.core.errors import MODEL_PLACEHOLDER, AdedError, OtherModelError, first_line
from aded.core.trace import write_atomically

FORMAT = "aded-trigram"
VERSION = 1
MAX_SUCCESSORS = 12
"""Default number of successors in a row, most frequent first; the value of ADED (arXiv 2407.12021)."""
SUCCESSORS_LIMIT = 256
"""Upper bound of ``max_successors``."""
MAX_VOCAB = 1 << 20
"""The three ids of a tri-gram fit into one 64-bit sort key, and float32 represents ids below 2^24 exactly."""
REMEDY = f"build one for this model with `python -m aded matrix build --model {MODEL_PLACEHOLDER} --text FILE --out FILE`"

EMPTY = -1  # key of a free slot of the hash index; keys of bigrams are >= 0, of single tokens <= -2
EMPTY_BITS = np.uint64(2**64 - 1)
FIRST_MULTIPLIER, MULTIPLIER = np.uint64(0x9E3779B97F4A7C1), np.uint64(0x2545F4914F6CDD1D)  # unsigned, as their products overflow


@njit(cache=True)
def context_key(first: int, second: int) -> int:
    """The index key of a bigram; ``first == -1`` means the back-off row of ``second`` alone."""
    return -(second + 2) if first < 0 else (first << 32) | second


@njit(cache=True)
def extend_key(key, token):
    """The key of a context extended by one earlier token; 0 is the key of the empty context."""
    mixed = np.uint64(key ^ (token + 1)) * MULTIPLIER
    mixed ^= mixed >> np.uint64(32)
    return np.int64(mixed) if mixed != EMPTY_BITS else np.int64(0)


@njit(cache=True)
def first_slot(key: int, mask: int) -> int:
    """The slot where probing for ``key`` starts in a table of ``mask + 1`` slots."""
    mixed = np.uint64(key) * FIRST_MULTIPLIER
    mixed ^= mixed >> np.uint64(29)
    mixed *= MULTIPLIER
    return np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(mask))


@njit(cache=True)
def find_row(index: np.ndarray, key: int) -> int:
    """The row of ``key`` in ``index`` (open addressing, linear probing), packed by `pack_row`, or -1."""
    mask = len(index) - 1
    slot = first_slot(key, mask)
    while index[slot, 0] != EMPTY:
        if index[slot, 0] == key:
            return index[slot, 1]
        slot = (slot + 1) & mask
    return -1


@njit(cache=True)
def pack_row(start: int, length: int, total: int) -> int:
    """Pack a row's first entry, its number of entries and the occurrences of its context (at most 65 535) into 64 bits.

    A look-up then reads one cache line of the index and one of the entries; memory access dominates its time.
    """
    return (start << 32) | (min(total, 0xFFFF) << 16) | length


@njit(cache=True)
def unpack_row(row: int) -> tuple[int, int, int]:
    """First entry, last entry + 1, occurrences of the context."""
    start = row >> 32
    return start, start + (row & 0xFFFF), (row >> 16) & 0xFFFF


@njit(cache=True)
def _fill_index(contexts: np.ndarray, starts: np.ndarray, totals: np.ndarray, index: np.ndarray) -> bool:
    """Fill the index; False if two rows have the same context."""
    mask = len(index) - 1
    for row in range(len(contexts)):
        key = context_key(contexts[row, 0], contexts[row, 1])
        slot = first_slot(key, mask)
        while index[slot, 0] != EMPTY:
            if index[slot, 0] == key:
                return False
            slot = (slot + 1) & mask
        index[slot, 0] = key
        index[slot, 1] = pack_row(np.int64(starts[row]), np.int64(starts[row + 1] - starts[row]), np.int64(totals[row]))
    return True


class HigherOrders(NamedTuple):
    """Rows for contexts longer than a bigram (`aded.ngram.higher_orders`), for compiled code.

    Attributes:
        row_index: hash index of the rows: key (`extend_key`) and packed row, int64 ``[size, 2]``, read-only.
        entries: id and probability of each successor, most probable first, float32 ``[entries, 2]``, read-only.
    """

    row_index: np.ndarray
    entries: np.ndarray

    @classmethod
    def of(cls, row_index: np.ndarray, entries: np.ndarray) -> HigherOrders:
        """Make the arrays read-only: code compiled for one kind of array then fits all."""
        row_index.flags.writeable = entries.flags.writeable = False
        return cls(row_index, entries)


NO_HIGHER_ORDERS = HigherOrders.of(np.full((2, 2), EMPTY, dtype=np.int64), np.zeros((0, 2), dtype=np.float32))


class MatrixArrays(NamedTuple):
    """The arrays of a matrix, for compiled code.

    Attributes:
        row_index: hash index of the rows: key and packed row, int64 ``[size, 2]``.
        entries: id (exact, as ids are below 2^20) and probability of each successor, float32 ``[entries, 2]``.
        higher_index, higher_entries: see `HigherOrders`.
    """

    row_index: np.ndarray
    entries: np.ndarray
    higher_index: np.ndarray
    higher_entries: np.ndarray


@dataclass(frozen=True, eq=False)
class TrigramMatrix:
    """Rows of successors in flat arrays, sorted by context.

    Attributes:
        contexts: the bigram of each row, int32 ``[rows, 2]``; a first token of -1 marks the back-off row of a single token.
        starts: index of each row's first successor, int32 ``[rows + 1]``.
        successors: token ids, most frequent first, int32 ``[entries]``.
        counts: occurrences of each successor after its context, uint16 ``[entries]`` (at most 65 535).
        totals: occurrences of each context, pruned successors included, uint32 ``[rows]``.
        vocab_size: upper bound of the token ids, exclusive.
        fingerprint: fingerprint of the tokenizer.
        max_successors: upper bound of the successors of a row.
        corpus_tokens: number of tokens counted.
        higher_orders: rows for longer contexts, from another source; not part of the file.
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
    higher_orders: HigherOrders = NO_HIGHER_ORDERS

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
        """Count the bigrams and tri-grams of a text.

        Args:
            ids: token ids, any integer type ``[tokens]``. Each sequence ends with ``separator``, which may be a successor
                but is never part of a context: nothing is counted across it.
            separator: the token id that ends a sequence.
            vocab_size: upper bound of the token ids, exclusive.
            fingerprint: fingerprint of the tokenizer (`aded.engine.loading.tokenizer.tokenizer_fingerprint`).
            max_successors: successors kept for a context, most frequent first, ties by lower id.

        Raises:
            AdedError: fewer than two tokens, an id outside the vocabulary, or a bound out of range.
        """
        ids = np.asarray(ids).astype(np.int64)
        if not 0 < vocab_size <= MAX_VOCAB:
            raise AdedError(f"a vocabulary of {vocab_size} cannot be counted; at most {MAX_VOCAB} ids are supported")
        if not 1 <= max_successors <= SUCCESSORS_LIMIT:
            raise AdedError(f"max_successors is {max_successors}; give a number from 1 to {SUCCESSORS_LIMIT}")
        if ids.ndim != 1 or len(ids) < 2 or ids.min() < 0 or ids.max() >= vocab_size:
            raise AdedError(f"the corpus must hold token ids from 0 to {vocab_size - 1}; tokenize it with this model's tokenizer")
        is_token = ids != separator
        unigrams = _count(ids[:-1][is_token[:-1]], ids[1:][is_token[:-1]], vocab_size, max_successors)
        counted = is_token[:-2] & is_token[1:-1]
        bigrams = _count((ids[:-2] * vocab_size + ids[1:-1])[counted], ids[2:][counted], vocab_size, max_successors)
        contexts = np.concatenate(
            [_contexts_of_codes(unigrams[0], vocab_size, single=True), _contexts_of_codes(bigrams[0], vocab_size)]
        )
        lengths = np.concatenate([unigrams[1], bigrams[1]])
        return cls(
            contexts=contexts.astype(np.int32),
            starts=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
            successors=np.concatenate([unigrams[2], bigrams[2]]).astype(np.int32),
            counts=np.minimum(np.concatenate([unigrams[3], bigrams[3]]), 65535).astype(np.uint16),
            totals=np.concatenate([unigrams[4], bigrams[4]]).astype(np.uint32),
            vocab_size=vocab_size,
            fingerprint=fingerprint,
            max_successors=max_successors,
            corpus_tokens=len(ids),
        )

    @classmethod
    def empty(cls, vocab_size: int) -> TrigramMatrix:
        """A matrix without rows: a session then drafts from its own text alone."""
        none = np.zeros(0, dtype=np.int32)
        return cls(
            none.reshape(0, 2), np.zeros(1, np.int32), none, none.astype(np.uint16), none.astype(np.uint32), vocab_size, ""
        )

    def __len__(self) -> int:
        return len(self.totals)

    def summary(self) -> dict[str, Any]:
        """Metadata and sizes, as JSON values."""
        single = int((self.contexts[:, 0] < 0).sum())
        return {
            "format": FORMAT,
            "version": VERSION,
            "fingerprint": self.fingerprint,
            "vocab_size": self.vocab_size,
            "max_successors": self.max_successors,
            "corpus_tokens": self.corpus_tokens,
            "bigrams": len(self) - single,
            "single_tokens": single,
            "successors": len(self.successors),
        }

    @classmethod
    def merge(cls, matrices: Sequence[TrigramMatrix]) -> TrigramMatrix:
        """Add up the counts of several matrices of one tokenizer; entries pruned from one of them are not restored.

        Raises:
            AdedError: no matrix is given, or they belong to different tokenizers.
        """
        if not matrices:
            raise AdedError("there is no matrix to merge; name at least one file")
        first = matrices[0]
        for matrix in matrices[1:]:
            if (matrix.fingerprint, matrix.vocab_size) != (first.fingerprint, first.vocab_size):
                raise AdedError("the matrices belong to different tokenizers; merge only those built for one model")
        codes = np.concatenate([_context_codes(m) for m in matrices])
        row_codes, row = np.unique(codes, return_inverse=True)
        totals = np.zeros(len(row_codes), np.int64)
        np.add.at(totals, row, np.concatenate([m.totals for m in matrices]).astype(np.int64))
        entry_codes = np.concatenate([np.repeat(_context_codes(m), np.diff(m.starts)) for m in matrices])
        successors = np.concatenate([m.successors for m in matrices]).astype(np.int64)
        counts = np.concatenate([m.counts for m in matrices]).astype(np.int64)
        max_successors = max(m.max_successors for m in matrices)
        corpus_tokens = sum(m.corpus_tokens for m in matrices)
        return _assemble(
            first, row_codes, totals, *_sum_duplicates(entry_codes, successors, counts), max_successors, corpus_tokens
        )

    def prune(self, *, rows: int | None = None, successors: int | None = None, size: int | None = None) -> TrigramMatrix:
        """Keep the most frequent successors of each row, then the rows of the most frequent contexts.

        Args:
            rows: maximum number of rows, back-off rows included (ties by lower context).
            successors: maximum number of successors in a row.
            size: maximum file size in bytes.

        Raises:
            AdedError: a bound is out of range.
        """
        for name, bound, low, high in (
            ("rows", rows, 0, 1 << 31), ("successors", successors, 1, SUCCESSORS_LIMIT), ("size", size, 0, 1 << 62),
        ):  # fmt: skip
            if bound is not None and not low <= bound <= high:
                raise AdedError(f"{name} is {bound}; give a number from {low} to {high}")
        small = self._with_successors(successors) if successors is not None else self
        order = np.argsort(-small.totals.astype(np.int64), kind="stable")
        if rows is not None:
            order = order[:rows]
        if size is not None:
            empty_size = len(small._with_rows(order[:0]).to_bytes())
            if size < empty_size:
                raise AdedError(f"size is {size}; even an empty matrix takes {empty_size} bytes, give more")
            row_ends = np.cumsum(ROW_BYTES + ENTRY_BYTES * np.diff(small.starts)[order])
            order = order[: np.searchsorted(row_ends, size - empty_size, "right")]
            while (excess := len(small._with_rows(np.sort(order)).to_bytes()) - size) > 0:  # the header grows with the arrays
                order = order[: np.searchsorted(row_ends, row_ends[len(order) - 1] - excess, "right")]
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

    def _with_successors(self, limit: int) -> TrigramMatrix:
        lengths = np.diff(self.starts)
        kept = np.arange(len(self.successors)) - np.repeat(self.starts[:-1], lengths) < limit
        return replace(
            self,
            starts=np.concatenate([[0], np.cumsum(np.minimum(lengths, limit))]).astype(np.int32),
            successors=self.successors[kept],
            counts=self.counts[kept],
            max_successors=min(self.max_successors, limit),
        )

    @cached_property
    def arrays(self) -> MatrixArrays:
        """The arrays that compiled code reads."""
        size = 16
        while size < 2 * len(self):
            size *= 2
        index = np.full((size, 2), EMPTY, dtype=np.int64)
        if not _fill_index(self.contexts, self.starts, self.totals, index):
            raise AdedError(f"damaged tri-gram matrix: two rows have the same context; {REMEDY}")
        probabilities = self.counts / np.repeat(self.totals, np.diff(self.starts)).astype(np.float64)
        entries = np.stack([self.successors, probabilities], axis=1).astype(np.float32)
        return MatrixArrays(index, entries, *self.higher_orders)

    @cached_property
    def without_higher_orders(self) -> TrigramMatrix:
        """The matrix alone."""
        return self if self.higher_orders is NO_HIGHER_ORDERS else replace(self, higher_orders=NO_HIGHER_ORDERS)

    def row(self, first: int, second: int) -> tuple[np.ndarray, np.ndarray]:
        """Successors of a bigram (``first == -1``: of ``second`` alone) and their probabilities, int32 and float32 ``[k]``."""
        index, entries, *_ = self.arrays
        row = find_row(index, context_key(int(first), int(second)))
        start, end, _ = unpack_row(row) if row >= 0 else (0, 0, 0)
        return entries[start:end, 0].astype(np.int32), entries[start:end, 1]

    def to_bytes(self) -> bytes:
        """The matrix as a safetensors file; equal matrices give equal bytes."""
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
            AdedError: the file cannot be written.
        """
        write_atomically(Path(path), self.to_bytes())

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, fingerprint: str | None = None, vocab_size: int | None = None
    ) -> TrigramMatrix:
        """Read a matrix.

        Args:
            path: a safetensors file.
            fingerprint, vocab_size: of the model's tokenizer; None skips the check.

        Raises:
            AdedError: the file is missing, damaged, of another version, or built for another tokenizer.
        """
        try:
            file = tensor_file.read_header(path)
            header = file.metadata
            if header.get("format") != FORMAT:
                raise AdedError(f"{path} is not a tri-gram matrix; {REMEDY}")
            if header.get("version") != str(VERSION):
                raise AdedError(f"{path} has version {header.get('version')!r}, this program reads {VERSION}; {REMEDY}")
            if fingerprint not in (None, header["fingerprint"]) or vocab_size not in (None, int(header["vocab_size"])):
                raise OtherModelError(f"{path} was built for another tokenizer; {REMEDY}")
            arrays = tensor_file.map_arrays(path, file)
            sizes = {name: int(header[name]) for name in ("vocab_size", "max_successors", "corpus_tokens")}
            fields: dict[str, Any] = {name: np.array(arrays[name]) for name in _TENSORS} | sizes
            matrix = cls(**fields, fingerprint=header["fingerprint"])
            _validate(matrix)
        except AdedError:
            raise
        except OSError as error:
            raise AdedError(f"cannot read the tri-gram matrix {path}: {error.strerror}; {REMEDY}") from None
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise AdedError(f"damaged tri-gram matrix {path}: {first_line(error)}; {REMEDY}") from None
        return matrix


_TENSORS = {"contexts": np.int32, "starts": np.int32, "successors": np.int32, "counts": np.uint16, "totals": np.uint32}
ROW_BYTES = 16  # in a file: two ids, a start and a total
ENTRY_BYTES = 6  # in a file: an id and a count


def _count(contexts: np.ndarray, successors: np.ndarray, vocab_size: int, max_successors: int) -> tuple[np.ndarray, ...]:
    """Unique contexts, number of kept successors of each, those successors, their counts, and unpruned totals of contexts."""
    grams, counts = np.unique(contexts * vocab_size + successors, return_counts=True)
    context, successor = np.divmod(grams, vocab_size)
    order = np.lexsort((successor, -counts, context))  # by context, then most frequent first
    context, successor, counts = context[order], successor[order], counts[order]
    unique, first, sizes = np.unique(context, return_index=True, return_counts=True)
    totals = np.add.reduceat(counts, first) if len(first) else counts
    rank = np.arange(len(context)) - np.repeat(first, sizes)
    kept = rank < max_successors
    return unique, np.minimum(sizes, max_successors), successor[kept], counts[kept], totals


def _context_codes(matrix: TrigramMatrix) -> np.ndarray:
    """Each row's context as one number, int64 ``[rows]``; single tokens sort before bigrams."""
    return (matrix.contexts[:, 0].astype(np.int64) + 1) * matrix.vocab_size + matrix.contexts[:, 1]


def _sum_duplicates(
    contexts: np.ndarray, successors: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Add up the counts of equal (context, successor); sorted by context, then highest count, then lower id."""
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
    template: TrigramMatrix,
    rows: np.ndarray,
    totals: np.ndarray,
    contexts: np.ndarray,
    successors: np.ndarray,
    counts: np.ndarray,
    max_successors: int,
    corpus_tokens: int,
) -> TrigramMatrix:
    """A matrix from row codes with their totals, and entries in the order of `_sum_duplicates`."""
    starts = np.searchsorted(contexts, rows)
    lengths = np.diff(np.append(starts, len(contexts)))
    kept = np.arange(len(contexts)) - np.repeat(starts, lengths) < max_successors
    first, second = np.divmod(rows, template.vocab_size)
    return replace(
        template,
        contexts=np.stack([first - 1, second], axis=1).astype(np.int32),
        starts=np.concatenate([[0], np.cumsum(np.minimum(lengths, max_successors))]).astype(np.int32),
        successors=successors[kept].astype(np.int32),
        counts=np.minimum(counts[kept], 65535).astype(np.uint16),
        totals=np.minimum(totals, np.iinfo(np.int32).max).astype(np.uint32),
        max_successors=max_successors,
        corpus_tokens=corpus_tokens,
    )


def _contexts_of_codes(codes: np.ndarray, vocab_size: int, single: bool = False) -> np.ndarray:
    first, second = np.divmod(codes, vocab_size)
    return np.stack([np.full_like(second, -1) if single else first, second], axis=1)


def _validate(matrix: TrigramMatrix) -> None:
    """Check what compiled code relies on: it reads without bounds checks."""
    rows, entries = len(matrix.totals), len(matrix.successors)
    shapes = {"contexts": (rows, 2), "starts": (rows + 1,), "successors": (entries,), "counts": (entries,), "totals": (rows,)}
    for name, shape in shapes.items():
        array = getattr(matrix, name)
        if array.dtype != _TENSORS[name] or array.shape != shape:
            raise ValueError(f"{name} is {array.dtype}{list(array.shape)}, not {np.dtype(_TENSORS[name])}{list(shape)}")
    lengths = np.diff(matrix.starts.astype(np.int64))
    if matrix.starts[0] != 0 or matrix.starts[-1] != entries or (lengths < 1).any() or (lengths > matrix.max_successors).any():
        raise ValueError("starts do not split the successors into rows")
    for name, ids, lowest in (
        ("contexts", matrix.contexts[:, 0], -1),
        ("contexts", matrix.contexts[:, 1], 0),
        ("successors", matrix.successors, 0),
    ):
        if len(ids) and (ids.min() < lowest or ids.max() >= matrix.vocab_size):
            raise ValueError(f"{name} contain ids outside the vocabulary")
    if (matrix.counts < 1).any() or (matrix.totals < 1).any() or (matrix.totals > np.iinfo(np.int32).max).any():
        raise ValueError("a count is zero or too large")
    if not 0 < matrix.vocab_size <= MAX_VOCAB:
        raise ValueError("vocab_size is out of range")
    if not 1 <= matrix.max_successors <= SUCCESSORS_LIMIT or matrix.corpus_tokens < 0:
        raise ValueError("max_successors or corpus_tokens is out of range")
    sums = np.add.reduceat(matrix.counts.astype(np.int64), matrix.starts[:-1]) if rows else np.zeros(0)
    if (sums > matrix.totals).any():
        raise ValueError("the counts of a row exceed its total")
    _ = matrix.arrays  # refuses two rows with the same context
