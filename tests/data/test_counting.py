"""The counts of pieces are byte-identical to those of the whole text, however it was split."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest

from aded.core.errors import AdedError
from aded.data import ngram_counting
from aded.data.job_folder import InterruptedJobError
from aded.data.ngram_counting import count, pack, unpack
from aded.ngram.trigram import TrigramMatrix

VOCAB = 50
KNOWN = {"separator": 0, "vocab_size": VOCAB, "fingerprint": "abc"}


def corpus(seed: int = 0, length: int = 3000) -> np.ndarray:
    return np.minimum(np.random.default_rng(seed).geometric(0.1, length) - 1, VOCAB - 1)


def pieces(folder: Path, parts: list[np.ndarray]) -> list[Path]:
    paths = [folder / f"{number}.npz" for number in range(len(parts))]
    for path, part in zip(paths, parts):
        path.write_bytes(pack(part, VOCAB))
    return paths


def counted(paths: list[Path], successors: int = 12, **options) -> bytes:
    return count(paths, **KNOWN, max_successors=successors, spill=paths[0].parent / "spill", **options).to_bytes()


@pytest.mark.parametrize("successors", [1, 3, 12, 256])
def test_pieces_are_counted_to_the_matrix_of_the_whole_text(tmp_path: Path, successors: int) -> None:
    ids, rng = corpus(), np.random.default_rng(1)
    whole = TrigramMatrix.build(ids, **KNOWN, max_successors=successors).to_bytes()
    for threads in (1, 2, 1, 2):
        parts = np.split(ids, np.sort(rng.integers(0, len(ids) + 1, rng.integers(12))))
        assert counted(pieces(tmp_path, parts), successors, threads=threads) == whole
    assert not (tmp_path / "spill").exists()


def test_pieces_of_a_token_or_none_lose_nothing_at_their_borders(tmp_path: Path) -> None:
    ids = corpus(length=60)
    rng = np.random.default_rng(2)
    whole = TrigramMatrix.build(ids, **KNOWN).to_bytes()
    for _ in range(20):
        parts = np.split(ids, np.sort(rng.integers(0, len(ids) + 1, 50)))
        assert {len(part) for part in parts} >= {0, 1}
        assert counted(pieces(tmp_path, parts)) == whole


def test_counts_saturate_as_those_of_the_whole_text(tmp_path: Path) -> None:
    ids = np.tile([1, 2], 70_000)
    matrix = TrigramMatrix.build(ids, **KNOWN)
    assert matrix.counts.max() == 65535 < matrix.totals.max()
    assert counted(pieces(tmp_path, np.split(ids, 4))) == matrix.to_bytes()


@pytest.mark.parametrize(
    "bounds", [{"rows": 0}, {"rows": 40}, {"rows": 10**6}, {"size": 3000}, {"rows": 100, "size": 2500}], ids=str
)
def test_bounds_keep_what_pruning_keeps(tmp_path: Path, bounds: dict) -> None:
    ids = corpus()
    expected = TrigramMatrix.build(ids, **KNOWN).prune(**bounds).to_bytes()
    assert counted(pieces(tmp_path, np.split(ids, 5)), **bounds) == expected


LARGE = {**KNOWN, "vocab_size": 20_000}


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[np.ndarray, list[Path]]:
    """Token ids with 1.4 million n-grams, for which the database takes more than 100 MB if it may, and their pieces."""
    monkeypatch.setattr(ngram_counting, "MIN_MEMORY", 24)
    ids = np.random.default_rng(3).integers(0, 20_000, 700_000)
    paths = [tmp_path / f"{number}.npz" for number in range(7)]
    for path, part in zip(paths, np.split(ids, 7)):
        path.write_bytes(pack(part, 20_000))
    return ids, paths


def test_counts_that_do_not_fit_in_memory_are_on_disk(tmp_path: Path, large) -> None:
    ids, paths = large
    spilled: list[int] = []

    def look(message: str, share: float | None) -> None:
        spilled.append(sum(file.stat().st_size for file in (tmp_path / "spill").glob("*")))

    matrix = count(paths, **LARGE, max_successors=12, spill=tmp_path / "spill", memory=1, progress=look)
    assert matrix.to_bytes() == TrigramMatrix.build(ids, **LARGE).to_bytes()
    assert max(spilled) > 1 << 20
    assert not (tmp_path / "spill").exists()


def test_ctrl_c_stops_a_query_and_what_it_left_on_disk_does_not_matter(tmp_path: Path, large) -> None:
    def press(message: str, share: float | None) -> None:
        if share is None:  # the queries that take longest come next
            threading.Timer(0.002, os.kill, (os.getpid(), signal.SIGINT)).start()

    ids, paths = large
    options = {**LARGE, "max_successors": 12, "spill": tmp_path / "spill", "memory": 1}
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            count(paths, **options, progress=press)
    finally:
        signal.signal(signal.SIGINT, before)
    assert count(paths, **options).to_bytes() == TrigramMatrix.build(ids, **LARGE).to_bytes()


def test_memory_that_is_too_small_is_one_line_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ngram_counting, "MIN_MEMORY", 1)
    with pytest.raises(InterruptedJobError, match="more --max-memory.*resumes where it stopped") as caught:
        counted(pieces(tmp_path, [corpus(length=300_000)]), memory=1)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("parts", [[], [[]], [[3]], [[], [3], []], [[0, 0], [0]], [[0], [3]]], ids=str)
def test_less_than_two_tokens_and_separators_alone_are_refused(tmp_path: Path, parts: list) -> None:
    with pytest.raises(AdedError, match="no text to count"):
        count(
            pieces(tmp_path, [np.array(part, dtype=np.int64) for part in parts]),
            **KNOWN,
            max_successors=12,
            spill=tmp_path / "spill",
        )


@pytest.mark.parametrize("ids", [[1, VOCAB], [-1, 2]])
def test_foreign_ids_are_refused(ids: list[int]) -> None:
    with pytest.raises(AdedError, match="give the model that wrote it"):
        pack(np.array(ids), VOCAB)


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.int32, np.uint64])
def test_every_integer_type_counts_alike(dtype: type) -> None:
    assert pack(corpus().astype(dtype), VOCAB) == pack(corpus(), VOCAB)


@pytest.mark.parametrize("vocab_size", [1, 256, 257, 1 << 16, 1 << 20])
def test_every_id_of_a_vocabulary_is_stored(tmp_path: Path, vocab_size: int) -> None:
    (tmp_path / "0.npz").write_bytes(pack(np.array([0, vocab_size - 1]), vocab_size))
    assert unpack(tmp_path / "0.npz").tolist() == [0, vocab_size - 1]


def test_damaged_pieces_are_refused_with_the_remedy(tmp_path: Path) -> None:
    path = pieces(tmp_path, [corpus()])[0]
    whole = path.read_bytes()
    for data in (b"", b"noise", whole[:-8], whole[:200]):
        path.write_bytes(data)
        with pytest.raises(AdedError, match="--restart"):
            counted([path])
    with path.open("wb") as file:
        np.save(file, np.zeros((2, 2), np.int64))
    with pytest.raises(AdedError, match="--restart"):
        counted([path])


def test_damage_anywhere_in_a_piece_is_found(tmp_path: Path) -> None:
    """CRC-32 finds every change of one byte of the ids."""
    ids = corpus(length=50)
    path = pieces(tmp_path, [ids])[0]
    whole = path.read_bytes()
    for at in range(len(whole)):
        data = bytearray(whole)
        data[at] ^= 0x10
        path.write_bytes(data)
        try:
            np.testing.assert_array_equal(unpack(path), ids)
        except AdedError:
            continue
