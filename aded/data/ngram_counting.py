"""Bigrams and tri-grams of a text of any size, counted by DuckDB in bounded memory; what does not fit is written to disk.

The text is stored in pieces of token ids. The matrix does not depend on the split: it is byte-identical to that of
`TrigramMatrix.build` over the whole text.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np

from aded.core.errors import RESUME_HINT, AdedError, InterruptedJobError, first_line
from aded.engine.loading.weights import Progress, quiet
from aded.ngram.trigram import ENTRY_BYTES, MAX_VOCAB, ROW_BYTES, TrigramMatrix

BYTES_PER_TOKEN = 256
"""Memory of counting, per token of a piece: half of it for the arrays of the piece, half for the database."""
MIN_MEMORY = 128
"""Minimum memory of the database in megabytes."""
INT32_MAX = np.iinfo(np.int32).max


def pack(tokens: np.ndarray, vocab_size: int) -> bytes:
    """A ``.npz`` file (a format with checksums) of token ids, any integer type ``[tokens]``; `unpack` reads it.

    Raises:
        AdedError: an id is outside the vocabulary, or the vocabulary is too large.
    """
    if not 0 < vocab_size <= MAX_VOCAB:
        raise AdedError(f"a vocabulary of {vocab_size} cannot be counted; at most {MAX_VOCAB} ids are supported")
    if len(tokens) and (tokens.min() < 0 or tokens.max() >= vocab_size):
        wrong = tokens.max() if tokens.max() >= vocab_size else tokens.min()
        raise AdedError(f"the text holds token id {wrong}, the model has 0 to {vocab_size - 1}; give the model that wrote it")
    file = io.BytesIO()
    np.savez(file, tokens=tokens.astype(np.min_scalar_type(vocab_size - 1)))
    return file.getvalue()


def unpack(path: Path) -> np.ndarray:
    """The token ids of a file, of the smallest unsigned type for the vocabulary, ``[tokens]``.

    Raises:
        AdedError: the file is missing or damaged.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            return file["tokens"]
    except Exception:  # NumPy evaluates the header as Python and may raise many exceptions
        raise AdedError(f"{path} is damaged; add --restart to build from scratch") from None


def count(
    paths: Sequence[Path],
    *,
    separator: int,
    vocab_size: int,
    fingerprint: str,
    max_successors: int,
    spill: Path,
    rows: int | None = None,
    size: int | None = None,
    memory: int = MIN_MEMORY,
    threads: int = 1,
    progress: Progress = quiet,
) -> TrigramMatrix:
    """The matrix of a text.

    Args:
        paths: files of its pieces, in text order.
        separator, vocab_size, fingerprint, max_successors: see `TrigramMatrix.build`.
        spill: folder for counts that do not fit in memory; created, and removed at the end.
        rows, size: see `TrigramMatrix.prune`.
        memory: megabytes of the database, at least `MIN_MEMORY`; a piece and the matrix need more in addition.
        threads: number of threads of the database.
        progress: called with a message and the share of the text that is counted, 0 to 1.

    Raises:
        AdedError: the text has no bigram, a file is damaged, or a bound is out of range.
        InterruptedJobError: memory or the disk is full.
    """
    known: dict[str, Any] = {"vocab_size": vocab_size, "fingerprint": fingerprint, "max_successors": max_successors}

    def pieces() -> Iterator[np.ndarray]:
        for number, path in enumerate(paths):
            progress("counting", number / len(paths))
            yield unpack(path)

    with database_of(memory, spill, threads) as database:
        tokens = insert_pieces(database, pieces(), separator, vocab_size)
        progress("sorting the counts", None)
        found = select_rows(database, vocab_size, max_successors, largest_rows(rows, size))
    return matrix_of(found, tokens, rows, size, **known)


class Rows(NamedTuple):
    """Rows of a matrix, in the order of their contexts.

    Attributes:
        contexts: code of each context, int64 ``[rows]``: the token, or ``(first + 1) * vocab_size + second`` for a bigram.
        lengths: number of successors of each row, int32 ``[rows]``.
        totals, successors, counts: see `TrigramMatrix`.
    """

    contexts: np.ndarray
    lengths: np.ndarray
    totals: np.ndarray
    successors: np.ndarray
    counts: np.ndarray


@contextmanager
def database_of(memory: int, spill: Path, threads: int = 1) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database in memory, with ``spill`` for what does not fit (see `count`).

    Raises:
        InterruptedJobError: memory or the disk is full.
    """
    settings: dict[str, Any] = {"memory_limit": f"{max(memory, MIN_MEMORY)}MiB", "threads": threads, "temp_directory": str(spill)}
    try:
        with duckdb.connect(config={**settings, "preserve_insertion_order": False}) as database:
            database.execute("CREATE TABLE grams (code BIGINT, n BIGINT)")
            yield database
    except (duckdb.OutOfMemoryException, duckdb.IOException) as error:
        raise InterruptedJobError(f"{first_line(error)}; give more --max-memory, free disk space, and {RESUME_HINT}") from None
    except RuntimeError as error:
        if "interrupted" not in str(error):  # by Ctrl-C during a query
            raise
        raise KeyboardInterrupt from None


def insert_pieces(
    database: duckdb.DuckDBPyConnection, pieces: Iterable[np.ndarray], separator: int, vocab_size: int, end: Sequence[int] = ()
) -> int:
    """Count the n-grams of each piece, and those that cross its start, into the table ``grams``; returns the number of tokens.

    Args:
        pieces: token ids, any integer type ``[tokens]``.
        end: the last two tokens before the first piece, or fewer if there are fewer.
    """
    tokens, before = 0, np.array(end, np.int64)  # the last two tokens before the piece
    for piece in pieces:
        ids = np.concatenate([before, piece.astype(np.int64)])
        bigrams = _bigrams(ids[max(len(before) - 1, 0) :], separator, vocab_size)
        database.register("piece", {"code": np.concatenate([bigrams, _trigrams(ids, separator, vocab_size)])})
        database.execute("INSERT INTO grams SELECT code, count(*) FROM piece GROUP BY code")
        tokens, before = tokens + len(piece), ids[-2:]
    return tokens


def largest_rows(rows: int | None, size: int | None) -> int:
    """An upper bound of the rows that a matrix has after pruning to ``rows`` and ``size``."""
    return min(rows if rows is not None else INT32_MAX, size // (ROW_BYTES + ENTRY_BYTES) if size is not None else INT32_MAX)


def select_rows(database: duckdb.DuckDBPyConnection, vocab_size: int, max_successors: int, max_rows: int) -> Rows:
    """The ``max_rows`` rows of the most frequent contexts from the table ``grams``, which is removed."""
    database.execute(f"""
        CREATE TABLE counts AS
        SELECT code // {vocab_size} AS context, code % {vocab_size} AS successor, sum(n)::BIGINT AS n FROM grams GROUP BY code;
        DROP TABLE grams;
        CREATE TABLE kept AS
        SELECT context, least(sum(n), {INT32_MAX})::UINTEGER AS total, least(count(*), {max_successors})::INTEGER AS length
        FROM counts GROUP BY context ORDER BY total DESC, context LIMIT {max_rows}""")
    kept = database.execute("SELECT * FROM kept ORDER BY context").fetchnumpy()
    entries = database.execute(f"""
        SELECT successor::INTEGER AS successor, least(counts.n, 65535)::USMALLINT AS n FROM counts SEMI JOIN kept USING (context)
        QUALIFY row_number() OVER (PARTITION BY context ORDER BY counts.n DESC, successor) <= {max_successors}
        ORDER BY context, counts.n DESC, successor""").fetchnumpy()
    return Rows(kept["context"], kept["length"], kept["total"], entries["successor"], entries["n"])


def matrix_of(
    found: Rows, tokens: int, rows: int | None, size: int | None, *, vocab_size: int, fingerprint: str, max_successors: int
) -> TrigramMatrix:
    """The matrix of these rows, pruned to ``rows`` and ``size`` (see `TrigramMatrix.prune`).

    Raises:
        AdedError: there are no rows although none were excluded, or more successors than a matrix can hold.
    """
    if not len(found.contexts) and largest_rows(rows, size):
        raise AdedError("there is no text to count; give a text of at least two tokens besides separators")
    starts = np.concatenate([[0], np.cumsum(found.lengths, dtype=np.int64)])
    if starts[-1] > INT32_MAX:
        raise AdedError(f"{starts[-1]} successors are more than a matrix can hold; keep fewer with --rows or --successors")
    first, second = np.divmod(found.contexts, vocab_size)
    matrix = TrigramMatrix(
        contexts=np.stack([first - 1, second], axis=1).astype(np.int32),
        starts=starts.astype(np.int32),
        successors=found.successors,
        counts=found.counts,
        totals=found.totals,
        vocab_size=vocab_size,
        fingerprint=fingerprint,
        max_successors=max_successors,
        corpus_tokens=tokens,
    )
    return matrix if rows is size is None else matrix.prune(rows=rows, size=size)


def _bigrams(ids: np.ndarray, separator: int, vocab_size: int) -> np.ndarray:
    """Codes of all bigrams whose first token is not the separator, int64: ``first * vocab_size + second``."""
    return (ids[:-1] * vocab_size + ids[1:])[ids[:-1] != separator]


def _trigrams(ids: np.ndarray, separator: int, vocab_size: int) -> np.ndarray:
    """Codes of all tri-grams whose first two tokens are not the separator, int64; greater than those of bigrams."""
    inside = (ids[:-2] != separator) & (ids[1:-1] != separator)
    return (((ids[:-2] + 1) * vocab_size + ids[1:-1]) * vocab_size + ids[2:])[inside]
