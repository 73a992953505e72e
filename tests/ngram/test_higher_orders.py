"""4-grams and 5-grams counted from a datastore: equal to counting in dictionaries; a damaged cache is never read."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aded.core import tensor_file
from aded.core.paths import in_cache
from aded.drafters.aded_options import AdedOptions
from aded.drafters.base import Context
from aded.drafters.methods.aded import AdedDrafter
from aded.ngram import higher_orders
from aded.ngram.trigram import NO_HIGHER_ORDERS, HigherOrders, TrigramMatrix, extend_key, find_row, unpack_row
from aded.retrieval.suffix_array import Datastore

VOCAB, SEPARATOR = 40, 0


@pytest.fixture(scope="module")
def store() -> Datastore:
    rng = np.random.default_rng(3)
    ids = rng.choice(VOCAB, 4000, p=rng.dirichlet(np.full(VOCAB, 0.15)))
    return Datastore.build(ids, separator=SEPARATOR, vocab_size=VOCAB, fingerprint="abc")


def counted(store: Datastore) -> HigherOrders:
    return higher_orders.counts_of(store.tokens, store.suffixes, store.separator, store.vocab_size)


def successors(rows: HigherOrders, context: list[int]) -> dict[int, float]:
    key = np.int64(0)
    for token in reversed(context):
        key = extend_key(key, np.int64(token))
    row = find_row(rows.row_index, key)
    if row < 0:
        return {}
    start, end, _ = unpack_row(row)
    return {int(token): float(probability) for token, probability in rows.entries[start:end]}


def expected_counts(ids: np.ndarray) -> dict[tuple[int, ...], Counter[int]]:
    found: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
    for length in higher_orders.LENGTHS:
        for at in range(len(ids) - length + 1):
            context = tuple(ids[at : at + length].tolist())
            if SEPARATOR not in context:
                after = int(ids[at + length]) if at + length < len(ids) else SEPARATOR
                found[context][after] += 1
    return found


def test_rows_equal_counting_in_dictionaries(store: Datastore) -> None:
    rows, kept = counted(store), 0
    for context, counts in expected_counts(store.tokens).items():
        occurrences = counts.total()
        del counts[SEPARATOR]
        best = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: higher_orders.MAX_SUCCESSORS]
        if occurrences < higher_orders.MIN_OCCURRENCES or not best:
            assert successors(rows, list(context)) == {}
            continue
        kept += 1
        found = successors(rows, list(context))
        assert list(found) == [token for token, _ in best]
        assert list(found.values()) == pytest.approx([count / counts.total() for _, count in best])
    assert kept == (rows.row_index[:, 0] != -1).sum() > 100


def test_rows_come_from_the_cache_folder_the_second_time(store: Datastore, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("ADED_CACHE", str(tmp_path))
    first = counted(store)
    monkeypatch.setattr(higher_orders, "count", lambda *arguments: pytest.fail("counted again"))
    second = counted(store)
    np.testing.assert_array_equal(first.row_index, second.row_index)
    np.testing.assert_array_equal(first.entries, second.entries)


@pytest.mark.parametrize(
    "damage",
    [
        lambda index, entries: index.__setitem__((slice(None), 1), np.where(index[:, 0] == -1, 0, 1 << 60)),  # a row out of range
        lambda index, entries: index.__setitem__((index[:, 0] == -1, 0), 7),  # no free slot: a search would not end
        lambda index, entries: entries.__setitem__((0, 0), VOCAB),
        lambda index, entries: entries.__setitem__((0, 1), np.nan),
        None,
    ],
    ids=["range", "full", "id", "nan", "truncated"],
)
def test_a_damaged_file_is_counted_again(store: Datastore, tmp_path: Path, monkeypatch, damage) -> None:
    monkeypatch.setenv("ADED_CACHE", str(tmp_path))
    good = counted(store)
    (path,) = in_cache("contexts").glob("*")
    if damage is None:
        os.truncate(path, path.stat().st_size - 9)
    else:
        index, entries = good.row_index.copy(), good.entries.copy()
        damage(index, entries)
        path.write_bytes(tensor_file.to_bytes({"version": "1"}, {"row_index": index, "entries": entries}))
    again = counted(store)
    np.testing.assert_array_equal(good.row_index, again.row_index)
    np.testing.assert_array_equal(good.entries, again.entries)


def test_without_a_place_to_write_the_rows_are_the_same(store: Datastore, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ADED_CACHE", str(tmp_path / "file"))
    expected = higher_orders.count(store.tokens, store.suffixes, SEPARATOR)
    np.testing.assert_array_equal(counted(store).entries, expected.entries)


def test_the_drafter_follows_what_only_a_longer_context_tells(store: Datastore) -> None:
    """After 1 2 the matrix knows 3 and 4 equally; the token before tells which."""
    ids = np.array([*[9, 1, 2, 3, 0] * 4, *[8, 1, 2, 4, 0] * 4])
    matrix = TrigramMatrix.build(ids, separator=0, vocab_size=VOCAB, fingerprint="abc")
    corpus = Datastore.build(ids, separator=0, vocab_size=VOCAB, fingerprint="abc")
    matrix = replace(matrix, higher_orders=counted(corpus))
    for before, after in ((9, 3), (8, 4)):
        context = Context(np.array([before, 1, 2], dtype=np.int32), 3)
        with_them, without = AdedDrafter(matrix, VOCAB), AdedDrafter(matrix, VOCAB, AdedOptions(higher_orders=False))
        assert with_them.propose(context, 2).tokens.tolist() == [2, after]
        assert without.propose(context, 2).tokens.tolist() == [2, 3]
        assert (with_them.settings()["datastore"], without.settings()["datastore"]) == (True, False)
    assert AdedDrafter(matrix, VOCAB, AdedOptions.paper())._base.higher_orders is NO_HIGHER_ORDERS
