"""Merged counts of pieces are byte-identical to those of the whole text, however it was split."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from aded.core.errors import AdedError
from aded.data import ngram_counting
from aded.data.ngram_counting import Run, merge
from aded.ngram.trigram import TrigramMatrix

VOCAB = 50
KNOWN = {"separator": 0, "vocab_size": VOCAB, "fingerprint": "abc"}


def corpus(seed: int = 0, length: int = 3000) -> np.ndarray:
    return np.minimum(np.random.default_rng(seed).geometric(0.1, length) - 1, VOCAB - 1)


def runs(folder: Path, parts: list[np.ndarray]) -> list[Path]:
    paths = [folder / f"{number}.npy" for number in range(len(parts))]
    for path, part in zip(paths, parts):
        path.write_bytes(Run.of(part, 0, VOCAB).to_bytes())
    return paths


def merged(paths: list[Path], successors: int = 12, **options) -> bytes:
    return merge(paths, **KNOWN, max_successors=successors, **options).to_bytes()


@pytest.mark.parametrize("successors", [1, 3, 12, 256])
def test_pieces_merge_to_the_matrix_of_the_whole_text(tmp_path: Path, successors: int) -> None:
    ids, rng = corpus(), np.random.default_rng(1)
    whole = TrigramMatrix.build(ids, **KNOWN, max_successors=successors).to_bytes()
    for held in (1, 50, 1000, 1 << 20):
        parts = np.split(ids, np.sort(rng.integers(0, len(ids) + 1, rng.integers(12))))
        assert merged(runs(tmp_path, parts), successors, held=held) == whole


def test_pieces_of_a_token_or_none_lose_nothing_at_their_borders(tmp_path: Path) -> None:
    ids = corpus(length=60)
    rng = np.random.default_rng(2)
    whole = TrigramMatrix.build(ids, **KNOWN).to_bytes()
    for _ in range(20):
        parts = np.split(ids, np.sort(rng.integers(0, len(ids) + 1, 50)))
        assert {len(part) for part in parts} >= {0, 1}
        assert merged(runs(tmp_path, parts)) == whole


def test_counts_saturate_as_those_of_the_whole_text(tmp_path: Path) -> None:
    ids = np.tile([1, 2], 70_000)
    matrix = TrigramMatrix.build(ids, **KNOWN)
    assert matrix.counts.max() == 65535 < matrix.totals.max()
    assert merged(runs(tmp_path, np.split(ids, 4))) == matrix.to_bytes()


@pytest.mark.parametrize(
    "bounds", [{"rows": 0}, {"rows": 40}, {"rows": 10**6}, {"size": 3000}, {"rows": 100, "size": 2500}], ids=str
)
def test_bounds_keep_what_pruning_keeps(tmp_path: Path, bounds: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ngram_counting, "MERGE_SIZE", 1)  # rows are dropped during the merge
    ids = corpus()
    expected = TrigramMatrix.build(ids, **KNOWN).prune(**bounds).to_bytes()
    assert merged(runs(tmp_path, np.split(ids, 5)), held=30, **bounds) == expected


def test_a_merge_holds_no_more_than_it_may(tmp_path: Path) -> None:
    """Memory is bounded by ``held`` plus the n-grams of one context, at most the vocabulary size per run."""
    paths, held = runs(tmp_path, np.split(corpus(length=30_000), 6)), 600
    cuts = ngram_counting._cuts(paths, VOCAB, held)
    sizes = [
        sum(np.diff(ngram_counting._slice_bounds(Run.open(path).codes, cuts))[i] for path in paths) for i in range(len(cuts) + 1)
    ]
    assert len(sizes) > 10
    assert max(sizes) <= held + VOCAB * len(paths)


@pytest.mark.parametrize("parts", [[], [[]], [[3]], [[], [3], []], [[0, 0], [0]], [[0], [3]]], ids=str)
def test_less_than_two_tokens_and_separators_alone_are_refused(tmp_path: Path, parts: list) -> None:
    with pytest.raises(AdedError, match="no text to count"):
        merged(runs(tmp_path, [np.array(part, dtype=np.int64) for part in parts]))


@pytest.mark.parametrize("ids", [[1, VOCAB], [-1, 2]])
def test_foreign_ids_are_refused(ids: list[int]) -> None:
    with pytest.raises(AdedError, match="give the model that wrote it"):
        Run.of(np.array(ids), 0, VOCAB)


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.int32, np.uint64])
def test_every_integer_type_counts_alike(dtype: type) -> None:
    ids = corpus()
    np.testing.assert_array_equal(Run.of(ids.astype(dtype), 0, VOCAB).codes, Run.of(ids, 0, VOCAB).codes)


def test_damaged_runs_are_refused_with_the_remedy(tmp_path: Path) -> None:
    path = runs(tmp_path, [corpus()])[0]
    whole = path.read_bytes()
    for data in (b"", b"noise", whole[:-8], whole[:200]):
        path.write_bytes(data)
        with pytest.raises(AdedError, match="--restart"):
            merged([path])
    np.save(path, np.zeros((2, 2), np.int64))
    with pytest.raises(AdedError, match="--restart"):
        merged([path])


def test_damage_anywhere_in_a_run_is_found(tmp_path: Path) -> None:
    """CRC-32 finds every change of one byte."""
    path = runs(tmp_path, [corpus(length=50)])[0]
    whole = path.read_bytes()
    assert len(Run.verified(path).codes) == len(Run.open(path).codes) > 0
    for at in range(len(whole)):
        data = bytearray(whole)
        data[at] ^= 0x10
        path.write_bytes(data)
        try:
            found = Run.verified(path)
        except AdedError:
            continue
        assert at < len(whole) - 2 * 8 * (5 + len(found.codes))  # in unused bytes of the file header
