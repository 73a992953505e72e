"""Engines without Ray: counting in shards is counting the whole text, and errors of `--engine ray` are one line."""

from __future__ import annotations

import json
import pickle
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from command import run

from aded.core.errors import AdedError
from aded.data import sharded_counting
from aded.data.ngram_counting import pack
from aded.data.sharded_counting import MULTIPLIER, part_of, shards_of
from aded.ngram.trigram import TrigramMatrix

VOCAB = 50
KNOWN = {"separator": 0, "vocab_size": VOCAB, "fingerprint": "abc"}


class Here:
    """A cluster without processes: tasks and their results are pickled, and each task runs twice, as after a loss."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    @contextmanager
    def serving(self, function):
        yield function

    def shuffle(self, split, jobs, join, parts, done):
        copy = pickle.loads(pickle.dumps((split, join)))
        divided = [[copy[0](job) for _ in range(2)][1] for job in jobs]
        return [note for note, _ in divided], [copy[1](iter([values[part] for _, values in divided])) for part in range(parts)]


def counted(folder: Path, ids: np.ndarray, pieces: int, workers: int, successors: int = 12, rows=None, size=None) -> bytes:
    ends = np.sort(np.random.default_rng(pieces).integers(0, len(ids) + 1, pieces - 1))
    paths = [folder / f"{number}.npz" for number in range(pieces)]
    for path, part in zip(paths, np.split(ids, ends)):
        path.write_bytes(pack(part, VOCAB))
    more = {"max_successors": successors, "rows": rows, "size": size, "memory": 1, "progress": lambda *_: None}
    return sharded_counting.count(paths, Here(workers), **KNOWN, **more).to_bytes()


@pytest.mark.parametrize(("pieces", "workers"), [(1, 1), (7, 1), (50, 3), pytest.param(400, 40, marks=pytest.mark.slow)])
def test_shards_and_parts_count_to_the_matrix_of_the_whole_text(tmp_path: Path, pieces: int, workers: int) -> None:
    ids = np.minimum(np.random.default_rng(0).geometric(0.1, 300) - 1, VOCAB - 1)  # 400 pieces: many of them without a token
    assert counted(tmp_path, ids, pieces, workers) == TrigramMatrix.build(ids, **KNOWN).to_bytes()
    bounds = {"rows": 60, "size": 1500}
    expected = TrigramMatrix.build(ids, **KNOWN, max_successors=3).prune(**bounds).to_bytes()
    assert counted(tmp_path, ids, pieces, workers, 3, **bounds) == expected


def test_a_text_without_two_tokens_is_refused_in_shards_too(tmp_path: Path) -> None:
    with pytest.raises(AdedError, match="no text to count"):
        counted(tmp_path, np.array([3]), 4, 2)


def test_a_context_is_in_one_part_and_parts_are_of_similar_size() -> None:
    contexts = np.random.default_rng(0).integers(0, 1 << 40, 20_000)
    parts = part_of(contexts, 7)
    assert (part_of(contexts[::-1], 7)[::-1] == parts).all()
    assert np.bincount(parts, minlength=7).min() > 0.9 * len(contexts) / 7
    few = [0, 1, 49152, 1 << 40]  # in whole numbers of any size, so the same on every machine
    assert part_of(np.array(few), 5).tolist() == [(code * int(MULTIPLIER) % 2**64 >> 32) % 5 for code in few]


def test_shards_are_consecutive_and_know_the_two_tokens_before_them(tmp_path: Path) -> None:
    parts = [[1, 2, 3], [], [4], [], [5, 6]]
    paths = [tmp_path / f"{number}.npz" for number in range(5)]
    for path, part in zip(paths, parts):
        path.write_bytes(pack(np.array(part, dtype=np.int64), VOCAB))
    shards = list(shards_of(paths, 5))
    assert [shard.end for shard in shards] == [[], [2, 3], [2, 3], [3, 4], [3, 4]]
    assert [len(shard.paths) for shard in shards_of(paths, 2)] == [3, 2]


@pytest.fixture
def commands(tmp_path: Path) -> dict[str, list]:
    np.save(tmp_path / "ids.npy", np.arange(20) % 7)
    (tmp_path / "q.jsonl").write_text(json.dumps({"question_id": 1, "turns": ["a b"]}))
    return {
        "matrix": ["matrix", "build", "--tokens", tmp_path / "ids.npy", "--out", tmp_path / "m"],
        "bench": ["bench", "--questions", tmp_path / "q.jsonl", "--methods", "aded"],
    }


@pytest.mark.parametrize("command", ["matrix", "bench"])
@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        (["--address", "auto"], "add --engine ray or leave it out"),
        (["--engine", "magic"], "choose from"),
        (["--engine", "ray", "--address", "nonsense"], "give HOST:PORT"),
        (["--engine", "ray", "--address", "ray://127.0.0.1:10001"], "give HOST:PORT"),
        (["--engine", "ray", "--address", "127.0.0.1:1"], "no Ray cluster answers at 127.0.0.1:1"),
    ],
    ids=str,
)
def test_a_wrong_address_is_one_line(monkeypatch, capsys, commands, command: str, options: list, remedy: str) -> None:
    monkeypatch.setitem(sys.modules, "ray", type(sys)("ray"))  # as if it were installed
    assert run(*commands[command], *options) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "error: " in line]
    assert remedy in line


@pytest.mark.parametrize("command", ["matrix", "bench"])
def test_without_ray_the_remedy_is_named(monkeypatch, capsys, commands, command: str) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert run(*commands[command], "--engine", "ray") == 2
    assert "needs the library Ray; install it with `pip install" in capsys.readouterr().err


def test_options_without_effect_on_a_cluster_are_refused(capsys, commands) -> None:
    assert run(*commands["matrix"], "--engine", "ray", "--processes", 2) == 2
    assert run(*commands["bench"], "--engine", "ray", "--tp") == 2
    assert run("bench", "--recorded", "r.jsonl", "--engine", "ray") == 2
    assert capsys.readouterr().err.count("leave it out") == 3
