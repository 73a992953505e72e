"""N-grams of a text counted in tasks: shards of the text by hash of the context, then all counts of a part together.

Every part has whole rows, so each is pruned once, after its counts are added up. The matrix is byte-identical to that of
`aded.data.ngram_counting.count`, whatever the number of shards and parts.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np

from aded.data.ngram_counting import Rows, database_of, insert_pieces, largest_rows, matrix_of, select_rows, unpack
from aded.engine.loading.weights import Progress
from aded.ngram.trigram import TrigramMatrix

if TYPE_CHECKING:
    from aded.tasks.ray_cluster import RayCluster

SHARDS_PER_WORKER = 4
"""So that workers of different speed finish at about the same time; each shard is counted again if its node is lost."""
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
Table = tuple[np.ndarray, np.ndarray]
"""N-grams: code (see ``ngram_counting``), int64 ``[n]``, and occurrences, of the smallest unsigned type ``[n]``."""


def count(
    paths: Sequence[Path],
    cluster: RayCluster,
    *,
    separator: int,
    vocab_size: int,
    fingerprint: str,
    max_successors: int,
    rows: int | None,
    size: int | None,
    memory: int,
    progress: Progress,
) -> TrigramMatrix:
    """The matrix of a text; arguments as of `ngram_counting.count`, with ``memory`` for each task.

    Raises:
        AdedError: see `ngram_counting.count`.
    """
    parts = cluster.workers
    with cluster.serving(unpack) as read:
        split = ShardCounter(read, separator, vocab_size, parts, memory)
        join = PartCounter(vocab_size, max_successors, largest_rows(rows, size), memory)
        shards = list(shards_of(paths, SHARDS_PER_WORKER * cluster.workers))
        counted, found = cluster.shuffle(split, shards, join, parts, lambda share: progress("counting", share))
    known: dict[str, Any] = {"vocab_size": vocab_size, "fingerprint": fingerprint, "max_successors": max_successors}
    return matrix_of(in_order_of_contexts(found), sum(counted), rows, size, **known)


@dataclass(frozen=True)
class Shard:
    """Consecutive pieces of a text, and the last two tokens before them."""

    paths: Sequence[Path]
    end: Sequence[int]


def shards_of(paths: Sequence[Path], number: int) -> Iterator[Shard]:
    """At most ``number`` shards with about the same number of pieces."""
    size = max(1, -(-len(paths) // number))
    for start in range(0, len(paths), size):
        end: list[int] = []
        for path in reversed(paths[:start]):  # a piece may have no token
            end = [*unpack(path)[-2:].tolist(), *end][-2:]
            if len(end) == 2:
                break
        yield Shard(paths[start : start + size], end)


@dataclass(frozen=True)
class ShardCounter:
    """Counts the n-grams of a shard; can be pickled, so it runs in any process.

    Attributes:
        read: returns the token ids of a piece.
        parts: number of parts into which the counts are divided, by hash of the context.
        memory: megabytes of the database.
    """

    read: Callable[[Path], np.ndarray]
    separator: int
    vocab_size: int
    parts: int
    memory: int

    def __call__(self, shard: Shard) -> tuple[int, list[Table]]:
        """Returns the number of tokens, and the n-grams of each part."""
        with _database(self.memory) as database:
            tokens = insert_pieces(database, map(self.read, shard.paths), self.separator, self.vocab_size, shard.end)
            grams = database.execute("SELECT code, sum(n)::BIGINT AS n FROM grams GROUP BY code").fetchnumpy()
        codes, counts = grams["code"], grams["n"]
        counts = counts.astype(np.min_scalar_type(counts.max(initial=0)))
        part = part_of(codes // self.vocab_size, self.parts)
        order = np.argsort(part, kind="stable")
        ends = np.cumsum(np.bincount(part, minlength=self.parts))[:-1]
        return tokens, list(zip(np.split(codes[order], ends), np.split(counts[order], ends)))


@dataclass(frozen=True)
class PartCounter:
    """Adds up the counts of a part and prunes its rows; can be pickled, so it runs in any process."""

    vocab_size: int
    max_successors: int
    max_rows: int
    memory: int

    def __call__(self, tables: Iterator[Table]) -> Rows:
        with _database(self.memory) as database:
            for codes, counts in tables:
                database.register("piece", {"code": codes, "n": counts})
                database.execute("INSERT INTO grams SELECT code, n FROM piece")
                database.unregister("piece")
            return select_rows(database, self.vocab_size, self.max_successors, self.max_rows)


def part_of(contexts: np.ndarray, parts: int) -> np.ndarray:
    """The part of each context code, int64 ``[n]``; the same on every machine."""
    mixed = contexts.astype(np.uint64) * MULTIPLIER
    return ((mixed >> np.uint64(32)) % np.uint64(parts)).astype(np.int64)


def in_order_of_contexts(parts: Sequence[Rows]) -> Rows:
    """The rows of all parts in the order of their contexts."""
    contexts, lengths, totals, successors, counts = map(np.concatenate, zip(*parts))
    order = np.argsort(contexts)
    starts = (np.cumsum(lengths, dtype=np.int64) - lengths)[order]
    lengths = lengths[order]
    ends = np.cumsum(lengths, dtype=np.int64)
    entries = np.repeat(starts - (ends - lengths), lengths) + np.arange(ends[-1] if len(ends) else 0)
    return Rows(contexts[order], lengths, totals[order], successors[entries], counts[entries])


@contextmanager
def _database(memory: int) -> Iterator[duckdb.DuckDBPyConnection]:
    """`database_of` with a temporary folder of this machine."""
    with tempfile.TemporaryDirectory(prefix="aded-counting-") as folder, database_of(memory, Path(folder)) as database:
        yield database
