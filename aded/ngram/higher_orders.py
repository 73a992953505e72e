"""Base counts of higher order than the tri-gram matrix: 4-grams and 5-grams counted from a datastore.

A search reads the successors of a longer context before those of a bigram, which are less specific. Contexts are counted from
the suffix array of the datastore, in which all occurrences of a context are neighbours, and kept in the cache folder.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

import numpy as np

from aded.core import tensor_file
from aded.core.compilation.jit import njit
from aded.core.errors import AdedError
from aded.core.paths import in_cache
from aded.core.trace import write_atomically
from aded.ngram.trigram import EMPTY, HigherOrders, extend_key, first_slot, pack_row

LENGTHS = (3, 4)
"""Lengths of the contexts in tokens: those of 4-grams and 5-grams."""
MIN_OCCURRENCES = 2
"""A context that occurs less often has no row: most would be of no use, and take most of the memory."""
MAX_SUCCESSORS = 8
VERSION = "1"


def counts_of(tokens: np.ndarray, suffixes: np.ndarray, separator: int, vocab_size: int) -> HigherOrders:
    """The rows of a datastore, from the cache folder or counted now (seconds for 5 million tokens).

    Args:
        tokens, suffixes, separator, vocab_size: see `aded.retrieval.suffix_array.Datastore`.
    """
    digest = hashlib.sha256(f"{VERSION} {LENGTHS} {MIN_OCCURRENCES} {MAX_SUCCESSORS} {separator}".encode())
    digest.update(tokens.tobytes())
    path = in_cache(f"contexts/{digest.hexdigest()[:16]}.safetensors")
    with suppress(AdedError, OSError, ValueError, KeyError, TypeError):  # the cached file is missing or damaged
        return _load(path, vocab_size)
    made = count(tokens, suffixes, separator)
    with suppress(AdedError, OSError):  # without a writable cache, they are counted again
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, tensor_file.to_bytes({"version": VERSION}, made._asdict()))
    return made


def count(tokens: np.ndarray, suffixes: np.ndarray, separator: int) -> HigherOrders:
    """Count the contexts of ``LENGTHS`` in a datastore; see `counts_of`."""
    sizes = [_sizes(tokens, suffixes, separator, length) for length in LENGTHS]
    rows, n_entries = sum(size[0] for size in sizes), sum(size[1] for size in sizes)
    index = np.full((1 << max(1, int(2 * rows).bit_length()), 2), EMPTY, dtype=np.int64)
    entries, filled = np.zeros((n_entries, 2), dtype=np.float32), 0
    for length in LENGTHS:
        filled = _fill(tokens, suffixes, separator, length, index, entries, filled)
    return HigherOrders.of(index, entries)


def _load(path: Path, vocab_size: int) -> HigherOrders:
    """Raises ``ValueError`` for contents that compiled code, which reads without bounds checks, must not see."""
    header = tensor_file.read_header(path)
    arrays = tensor_file.map_arrays(path, header)
    index, entries = np.array(arrays["row_index"]), np.array(arrays["entries"])
    size, rows = len(index), index[index[:, 0] != EMPTY, 1]
    shapes = index.shape == (size, 2) and entries.shape == (len(entries), 2) and size >= 2 and size & (size - 1) == 0
    ends = (rows >> 32) + (rows & 0xFFFF)
    ids = entries[:, 0]
    if not shapes or len(rows) == size or (rows < 0).any() or (ends > len(entries)).any() or (ends == rows >> 32).any():
        raise ValueError("damaged rows")
    if not ((ids >= 0) & (ids < vocab_size)).all() or not np.isfinite(entries).all():
        raise ValueError("damaged entries")
    return HigherOrders.of(index, entries)


@njit(cache=True)
def _next_group(tokens, suffixes, separator, length, first):
    """The suffixes that share their first ``length`` tokens with that at ``first``.

    Returns:
        The end of their range, and whether they are a context: no separator and no end of the corpus is within it.
    """
    start = np.int64(suffixes[first])
    complete = start >= 0 and start + length <= len(tokens)
    for i in range(length if complete else 0):
        complete = complete and tokens[start + i] != separator
    end = first + 1
    while complete and end < len(suffixes):
        other = np.int64(suffixes[end])
        equal = other >= 0 and other + length <= len(tokens)
        for i in range(length if equal else 0):
            if tokens[other + i] != tokens[start + i]:
                equal = False
                break
        if not equal:
            break
        end += 1
    return end, complete


@njit(cache=True)
def _successors(tokens, suffixes, separator, length, first, end, found, counts):
    """The most frequent successors of a context, into ``found`` and ``counts``; suffixes with one successor are neighbours.

    Returns:
        Their number, and the number of occurrences of the context that have a successor.
    """
    kept, total, at = 0, 0, first
    while at < end:
        position = np.int64(suffixes[at]) + length
        token = np.int64(tokens[position]) if position < len(tokens) else np.int64(separator)
        run = 0
        while at < end:
            position = np.int64(suffixes[at]) + length
            if (np.int64(tokens[position]) if position < len(tokens) else np.int64(separator)) != token:
                break
            run, at = run + 1, at + 1
        if token == separator:
            continue
        total += run
        if kept == len(found) and run <= counts[kept - 1]:
            continue
        slot = min(kept, len(found) - 1)
        while slot > 0 and counts[slot - 1] < run:
            found[slot], counts[slot] = found[slot - 1], counts[slot - 1]
            slot -= 1
        found[slot], counts[slot] = token, run
        kept = min(kept + 1, len(found))
    return kept, total


@njit(cache=True)
def _sizes(tokens, suffixes, separator, length):
    """Number of rows and of entries for contexts of this length."""
    found, counts = np.empty(MAX_SUCCESSORS, np.int64), np.empty(MAX_SUCCESSORS, np.int64)
    rows, entries, first = 0, 0, 0
    while first < len(suffixes):
        end, complete = _next_group(tokens, suffixes, separator, length, first)
        if complete and end - first >= MIN_OCCURRENCES:
            kept, _ = _successors(tokens, suffixes, separator, length, first, end, found, counts)
            rows, entries = rows + (kept > 0), entries + kept
        first = end
    return rows, entries


@njit(cache=True)
def _fill(tokens, suffixes, separator, length, index, entries, filled):
    """Add the rows for contexts of this length; returns the number of entries filled."""
    found, counts = np.empty(MAX_SUCCESSORS, np.int64), np.empty(MAX_SUCCESSORS, np.int64)
    mask, first = len(index) - 1, 0
    while first < len(suffixes):
        end, complete = _next_group(tokens, suffixes, separator, length, first)
        if complete and end - first >= MIN_OCCURRENCES:
            kept, total = _successors(tokens, suffixes, separator, length, first, end, found, counts)
            if kept:
                key = np.int64(0)
                for i in range(length - 1, -1, -1):
                    key = extend_key(key, np.int64(tokens[np.int64(suffixes[first]) + i]))
                slot = first_slot(key, mask)
                while index[slot, 0] != EMPTY:
                    slot = (slot + 1) & mask
                index[slot, 0], index[slot, 1] = key, pack_row(np.int64(filled), np.int64(kept), np.int64(total))
                for i in range(kept):
                    entries[filled + i, 0], entries[filled + i, 1] = found[i], counts[i] / total
                filled += kept
        first = end
    return filled
