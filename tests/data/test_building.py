"""`matrix build`: one result, whatever the pieces, processes and interruptions."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from command import run
from conftest import ROOT
from fakes import VOCAB, WordTokenizer
from test_self_generation import OPENING, ChatTokenizer, chat_target
from waiting import HANG

from aded.core.errors import AdedError, check_text
from aded.data import build_matrix, corpus, self_generation
from aded.data.build_matrix import ProgressReporter
from aded.data.job_folder import MANIFEST, WorkFolder, store
from aded.engine.loading.tokenizer import tokenizer_fingerprint
from aded.engine.target_model import TargetModel
from aded.ngram.trigram import TrigramMatrix
from aded.tasks.processes import Processes

KNOWN = {"vocab_size": VOCAB, "fingerprint": tokenizer_fingerprint(WordTokenizer())}
WRITTEN = ("matrix", "build", "--self-written", 900, "--batch", 16, "--seed", 5)


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every model is tiny and writes short conversations; pieces are small."""
    monkeypatch.setattr(corpus, "load_tokenizer", lambda model: (WordTokenizer(), VOCAB))
    monkeypatch.setattr(TargetModel, "load", classmethod(lambda cls, *a, **k: chat_target()))
    monkeypatch.setattr(self_generation, "Script", lambda *parts: building_script(*parts))
    monkeypatch.setattr(build_matrix, "SMALLEST_PIECE", 100)
    monkeypatch.setattr(build_matrix, "BYTES_PER_TOKEN", 1 << 20)


def building_script(*parts):
    from aded.engine.batch_generation import Script

    return Script(*parts, longest_question=30, longest_answer=25)


@pytest.fixture
def ids(tmp_path: Path) -> np.ndarray:
    found = np.minimum(np.random.default_rng(0).geometric(0.1, 1000) - 1, VOCAB - 1)
    np.save(tmp_path / "ids.npy", found)
    return found


def interrupted_at(monkeypatch: pytest.MonkeyPatch, number: int, late: bool) -> list[str]:
    """Ctrl-C at the n-th file that the build stores: before it is written or, late, right after."""
    names: list[str] = []

    def storing(path: Path, data: bytes) -> None:
        names.append(path.name)
        if len(names) == number and not late:
            raise KeyboardInterrupt
        store(path, data)
        if len(names) == number:
            raise KeyboardInterrupt

    monkeypatch.setattr(build_matrix, "store", storing)
    return names


def test_the_matrix_is_that_of_the_whole_text_for_every_memory_limit(tmp_path: Path, ids: np.ndarray) -> None:
    expected = TrigramMatrix.build(ids, separator=0, **KNOWN)
    for memory in (1, 300, 5000):
        assert run("matrix", "build", "--tokens", tmp_path / "ids.npy", "--max-memory", memory, "--out", tmp_path / "m") == 0
        assert (tmp_path / "m").read_bytes() == expected.to_bytes()
    bounds = ("--rows", 60, "--bytes", 2000, "--successors", 3)
    assert run("matrix", "build", "--tokens", tmp_path / "ids.npy", *bounds, "--out", tmp_path / "m") == 0
    assert (tmp_path / "m").read_bytes() == expected.prune(rows=60, size=2000, successors=3).to_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ids.npy", "m"]


@pytest.mark.slow
def test_processes_change_nothing(tmp_path: Path) -> None:
    lines = [json.dumps({"text": " ".join(f"w{(i * j) % 50}" for j in range(40))}) for i in range(30)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    for processes in (1, 2):
        out = tmp_path / str(processes)
        assert run("matrix", "build", "--text", tmp_path / "a.jsonl", "--processes", processes, "--out", out) == 0
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def test_errors_and_deaths_of_processes_are_reported() -> None:
    with pytest.raises(AdedError, match="it holds characters"):
        list(Processes(2).map(partial(check_text, what="it"), iter(["a", "\ud800", "b"])))
    with pytest.raises(AdedError, match="fewer --processes"):
        list(Processes(2).map(os._exit, iter([1, 1, 1])))


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("number", [1, 2, 5, 10])
def test_an_interrupted_count_continues_to_the_same_bytes(
    tmp_path: Path, ids, monkeypatch, capsys, number: int, late: bool
) -> None:
    command = ("matrix", "build", "--tokens", tmp_path / "ids.npy", "--max-memory", 100, "--out", tmp_path / "m")
    with monkeypatch.context() as patch:
        interrupted_at(patch, number, late)
        assert run(*command) == 130
    saved = f"the finished parts are saved in {tmp_path / 'm.part'}; the same command resumes the build\n"
    assert capsys.readouterr().err.endswith(f"{saved if (number, late) != (1, False) else ''}stopped\n")
    assert not (tmp_path / "m").exists()
    names = interrupted_at(monkeypatch, 10**6, late)
    assert run(*command) == 0
    assert len(names) == 10 - number + (not late)  # pieces that were there are not tokenized again
    assert (tmp_path / "m").read_bytes() == TrigramMatrix.build(ids, separator=0, **KNOWN).to_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ids.npy", "m"]


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The output of the uninterrupted command."""
    return {}


@pytest.mark.parametrize(
    ("number", "late"),
    [
        pytest.param(number, late, marks=() if (number, late) in ((1, True), (6, False)) else pytest.mark.slow)
        for number in (1, 2, 4, 6)
        for late in (False, True)
    ],
)
def test_interrupted_writing_continues_to_the_same_bytes(tmp_path, monkeypatch, straight, number: int, late: bool) -> None:
    files = ("--keep-text", tmp_path / "text.npy", "--out", tmp_path / "m")
    if not straight:
        assert run(*WRITTEN, *files) == 0
        straight.update({name: (tmp_path / name).read_bytes() for name in ("m", "text.npy")})
        for name in straight:
            (tmp_path / name).unlink()
    with monkeypatch.context() as patch:
        names = interrupted_at(patch, number, late)
        assert run(*WRITTEN, *files) == 130
        assert len(names) == number
    assert run(*WRITTEN, *files) == 0
    assert {name: (tmp_path / name).read_bytes() for name in straight} == straight
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "text.npy"]


def test_self_generated_text_is_counted_kept_and_reported(tmp_path: Path, capsys) -> None:
    assert run(*WRITTEN, "--keep-text", tmp_path / "text.npy", "--out", tmp_path / "m") == 0
    sentence = capsys.readouterr().out
    text = np.load(tmp_path / "text.npy")
    assert text.dtype == np.uint16 and 900 <= len(text) < 900 + 70
    read = corpus.read_tokens(str(tmp_path / "text.npy"))
    assert (tmp_path / "m").read_bytes() == TrigramMatrix.build(read, separator=0, **KNOWN).to_bytes()
    conversations = (np.lib.stride_tricks.sliding_window_view(text, 4) == (0, *OPENING)).all(1).sum() + 1
    assert f"{len(text)} tokens" in sentence and f"{conversations} conversations" in sentence
    assert "repeated questions dropped" in sentence and "4-grams distinct" in sentence and "seconds" in sentence
    assert sentence.count("\n") == 1
    again = ("matrix", "build", "--tokens", tmp_path / "text.npy", "--out", tmp_path / "again")
    assert run(*again) == 0
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()


@pytest.mark.slow
def test_a_killed_build_continues_to_the_same_bytes(tmp_path: Path, ids: np.ndarray) -> None:
    program = (
        "import os, signal, sys; sys.path.insert(0, 'tests'); from fakes import VOCAB, WordTokenizer; "
        "from aded.cli import main; from aded.data import build_matrix as building, corpus; "
        "building.SMALLEST_PIECE, building.BYTES_PER_TOKEN = 100, 1 << 20; "
        "corpus.load_tokenizer = lambda model: (WordTokenizer(), VOCAB); real, count = building.store, []\n"
        "def store(path, data):\n    count.append(path); real(path, data)\n"
        "    if len(count) == int(sys.argv[1]): os.kill(os.getpid(), signal.SIGKILL)\n"
        "building.store = store; sys.exit(main.main(sys.argv[2:]))"
    )
    command = ["matrix", "build", "--tokens", "ids.npy", "--max-memory", "100", "--out", "m"]
    command = [str(tmp_path / word) if word in ("ids.npy", "m") else word for word in command]
    for number, status in ((3, -9), (3, -9), (99, 0)):
        done = subprocess.run([sys.executable, "-c", program, str(number), *command], cwd=ROOT, capture_output=True)
        assert done.returncode == status, done.stderr
    assert (tmp_path / "m").read_bytes() == TrigramMatrix.build(ids, separator=0, **KNOWN).to_bytes()


def test_a_full_disk_is_reported_in_one_line_and_the_build_continues_afterwards(
    tmp_path: Path, ids: np.ndarray, monkeypatch, capsys
) -> None:
    """A limit on file size simulates a full disk."""
    import resource

    ids = np.tile(ids, 10)
    np.save(tmp_path / "ids.npy", ids)
    command = ("matrix", "build", "--tokens", tmp_path / "ids.npy", "--max-memory", 1500, "--out", tmp_path / "m")
    with monkeypatch.context() as patch:
        interrupted_at(patch, 4, late=True)
        assert run(*command) == 130
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1500, hard))
    try:
        assert run(*command) == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: cannot write") and "piece-00004.npz" in error and "resumes where it stopped" in error
    assert run(*command) == 0
    assert (tmp_path / "m").read_bytes() == TrigramMatrix.build(ids, separator=0, **KNOWN).to_bytes()


def test_another_command_is_refused_without_restart(tmp_path: Path, ids: np.ndarray, monkeypatch, capsys) -> None:
    command = ("matrix", "build", "--tokens", tmp_path / "ids.npy", "--max-memory", 100, "--out", tmp_path / "m")
    with monkeypatch.context() as patch:
        interrupted_at(patch, 4, late=True)
        assert run(*command) == 130
    assert run(*command, "--separator", 5) == 2
    assert "--restart" in capsys.readouterr().err
    assert run(*command, "--separator", 5, "--restart") == 0
    assert (tmp_path / "m").read_bytes() == TrigramMatrix.build(ids, separator=5, **KNOWN).to_bytes()


def test_folders_of_others_and_damaged_ones_are_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "m.part"
    folder.mkdir()
    (folder / "letters.txt").write_text("mine")
    for content in (None, "{", '{"format": "other"}', "[]"):
        if content is not None:
            (folder / MANIFEST).write_text(content)
        for restart in (False, True):
            with pytest.raises(AdedError, match="move it away"), WorkFolder(str(tmp_path / "m"), {}, restart=restart):
                pass
    assert (folder / "letters.txt").read_text() == "mine"


def test_a_build_that_fails_at_once_leaves_nothing(tmp_path: Path, capsys) -> None:
    np.save(tmp_path / "ids.npy", np.array([1, 2, VOCAB]))
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    before = sorted(path.name for path in tmp_path.iterdir())
    for source in (("--tokens", tmp_path / "ids.npy"), ("--text", tmp_path / "latin.txt")):
        assert run("matrix", "build", *source, "--out", tmp_path / "m") == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert len([line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]) == 2


def test_two_builds_never_write_to_one_folder(tmp_path: Path, ids: np.ndarray, capsys) -> None:
    command = ("matrix", "build", "--tokens", tmp_path / "ids.npy", "--out", tmp_path / "m")
    with WorkFolder(str(tmp_path / "m"), {"another": 1}) as first:
        store(first.path("piece-00000.npz"), b"its own")
        for restart in ((), ("--restart",)):
            assert run(*command, *restart) == 2
            assert "another build writes to" in capsys.readouterr().err
        assert first.path("piece-00000.npz").read_bytes() == b"its own"
    assert run(*command) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ids.npy", "m"]


def test_worker_processes_end_with_their_parent() -> None:
    """A process that is still alive keeps the pipe open."""
    work = f"import time; print('works', flush=True); time.sleep({10 * HANG})"
    program = (
        "from aded.tasks.processes import Processes\n"
        f"if __name__ == '__main__': list(Processes(2).map(exec, iter([{work!r}] * 2)))"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert [parent.stdout.readline() for _ in range(2)] == ["works\n"] * 2
    parent.send_signal(signal.SIGKILL)
    assert parent.communicate(timeout=HANG) == ("", None)


def test_a_damaged_piece_is_reported_and_tokenized_again(tmp_path: Path, ids: np.ndarray, monkeypatch, capsys) -> None:
    command = ("matrix", "build", "--tokens", tmp_path / "ids.npy", "--max-memory", 100, "--out", tmp_path / "m")
    with monkeypatch.context() as patch:
        interrupted_at(patch, 4, late=True)
        assert run(*command) == 130
    path = tmp_path / "m.part" / "piece-00001.npz"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1  # a token id
    path.write_bytes(data)
    assert run(*command) == 0
    assert "damaged files rebuilt: piece-00001.npz" in capsys.readouterr().out
    assert (tmp_path / "m").read_bytes() == TrigramMatrix.build(ids, separator=0, **KNOWN).to_bytes()


@pytest.mark.slow
def test_a_damaged_batch_is_reported_and_generated_again(tmp_path: Path, monkeypatch, capsys) -> None:
    assert run(*WRITTEN, "--out", tmp_path / "straight") == 0
    with monkeypatch.context() as patch:
        interrupted_at(patch, 2, late=True)
        assert run(*WRITTEN, "--out", tmp_path / "m") == 130
    path = tmp_path / "m.part" / "batch-00000.npz"
    path.write_bytes(path.read_bytes()[:-30])
    assert run(*WRITTEN, "--out", tmp_path / "m") == 0
    assert "damaged files rebuilt: batch-00000.npz" in capsys.readouterr().out
    assert (tmp_path / "m").read_bytes() == (tmp_path / "straight").read_bytes()


@pytest.mark.parametrize("asked", [300, pytest.param(1500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("number", [2, pytest.param(6, marks=pytest.mark.slow)])
def test_what_was_written_serves_any_number_of_tokens(tmp_path: Path, monkeypatch, number: int, asked: int) -> None:
    command = ("matrix", "build", "--self-written", asked, *WRITTEN[4:])
    assert WRITTEN[3] == 900 != asked
    assert run(*command, "--out", tmp_path / "straight") == 0
    with monkeypatch.context() as patch:
        interrupted_at(patch, number, late=True)
        assert run(*WRITTEN, "--out", tmp_path / "m") == 130
    batches = {path.name for path in (tmp_path / "m.part").glob("batch-*")}
    names = interrupted_at(monkeypatch, 10**6, late=True)
    assert run(*command, "--out", tmp_path / "m") == 0
    assert batches and not batches & set(names)
    assert (tmp_path / "m").read_bytes() == (tmp_path / "straight").read_bytes()


def test_a_build_that_failed_because_of_its_input_does_not_block_another(tmp_path: Path, capsys) -> None:
    lines = [json.dumps({"text": "one two three four " * 10}) for _ in range(20)]
    (tmp_path / "a.jsonl").write_text("\n".join([*lines, "{"]))
    command = ("matrix", "build", "--text", tmp_path / "a.jsonl", "--out", tmp_path / "m")
    assert run(*command) == 2
    assert list((tmp_path / "m.part").glob("piece-*"))
    (tmp_path / "b.jsonl").write_text("\n".join(lines))
    assert run("matrix", "build", "--text", tmp_path / "b.jsonl", "--separator", 5, "--out", tmp_path / "m") == 0


def test_a_changed_input_is_counted_from_scratch(tmp_path: Path, ids: np.ndarray, monkeypatch) -> None:
    command = ("matrix", "build", "--tokens", tmp_path / "ids.npy", "--max-memory", 100, "--out", tmp_path / "m")
    with monkeypatch.context() as patch:
        interrupted_at(patch, 4, late=True)
        assert run(*command) == 130
    np.save(tmp_path / "ids.npy", ids[::-1])
    assert run(*command) == 0
    assert (tmp_path / "m").read_bytes() == TrigramMatrix.build(ids[::-1], separator=0, **KNOWN).to_bytes()


def test_a_damaged_manifest_is_deleted_with_restart(tmp_path: Path, ids: np.ndarray, monkeypatch, capsys) -> None:
    command = ("matrix", "build", "--tokens", tmp_path / "ids.npy", "--max-memory", 100, "--out", tmp_path / "m")
    with monkeypatch.context() as patch:
        interrupted_at(patch, 4, late=True)
        assert run(*command) == 130
    (tmp_path / "m.part" / MANIFEST).write_text("{")
    assert run(*command) == 2
    assert "add --restart" in capsys.readouterr().err
    assert run(*command, "--restart") == 0


def test_outputs_never_lie_on_one_another_or_on_inputs(tmp_path: Path, ids: np.ndarray, capsys) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "m")
    (tmp_path / "m.part").mkdir()
    before = (tmp_path / "ids.npy").read_bytes()
    for kept in ("m", "link", "m.part/text.npy"):
        assert run(*WRITTEN, "--keep-text", tmp_path / kept, "--out", tmp_path / "m") == 2
    assert run("matrix", "build", "--tokens", tmp_path / "ids.npy", "--out", tmp_path / "ids.npy") == 2
    assert capsys.readouterr().err.count("choose another path") == 4
    assert (tmp_path / "ids.npy").read_bytes() == before


@pytest.mark.parametrize("separator", [VOCAB, -1, 99999999999999999999])
@pytest.mark.parametrize("source", ["--tokens", "--text", "--self-written"])
def test_separators_outside_the_vocabulary_are_refused_before_any_work(
    tmp_path, ids, capsys, source: str, separator: int
) -> None:
    (tmp_path / "a.txt").write_text("one two")
    value = {"--tokens": tmp_path / "ids.npy", "--text": tmp_path / "a.txt", "--self-written": 900}[source]
    assert run("matrix", "build", source, value, "--separator", separator, "--out", tmp_path / "m") == 2
    assert f"--separator is {separator}; give a token id" in capsys.readouterr().err
    assert not (tmp_path / "m.part").exists()


@pytest.mark.parametrize("batch", [10**9, 10**12])
def test_a_batch_beyond_memory_is_one_line(tmp_path: Path, capsys, batch: int) -> None:
    assert run("matrix", "build", "--self-written", 900, "--batch", batch, "--out", tmp_path / "m") == 2
    assert f"a batch of {batch} conversations does not fit" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "options",
    [["--batch", 4], ["--greedy-share", 0.5], ["--device", "cpu"], ["--dataset-field", "body"], ["--seed", -1]],
    ids=str,
)
def test_options_of_another_source_are_refused(tmp_path: Path, ids: np.ndarray, options: list, capsys) -> None:
    assert run("matrix", "build", "--tokens", tmp_path / "ids.npy", *options, "--out", tmp_path / "m") == 2
    assert f"{options[0]} goes with --" in capsys.readouterr().err
    assert run("matrix", "build", "--self-written", 900, "--seed", -1, "--out", tmp_path / "m") == 2
    assert "--seed is -1" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [["--rows", -1], ["--successors", 0], ["--max-memory", 0], ["--processes", 0], ["--keep-text", "x.npy"], ["--bytes", 3]],
    ids=str,
)
def test_settings_out_of_range_are_refused_before_any_work(tmp_path: Path, ids: np.ndarray, options: list, capsys) -> None:
    assert run("matrix", "build", "--tokens", tmp_path / "ids.npy", *options, "--out", tmp_path / "m") == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not (tmp_path / "m.part").exists()


def test_models_without_a_chat_template_cannot_write(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(ChatTokenizer, "chat_template", None)
    assert run(*WRITTEN, "--out", tmp_path / "m") == 2
    assert "--text" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_progress_reports_speed_and_time_left() -> None:
    now, reports = [0.0], []
    reporter = ProgressReporter(lambda message, share: reports.append((message, share)), "counting", lambda: now[0])
    reporter.start(0.5)  # half was done before
    now[0] = 10.0
    reporter.report(2000, 0.6)
    assert reports[-1] == ("counting: 2,000 tokens, 200 per second, 40 s left", 0.6)
    now[0] = 20.0
    reporter.subtask(0.6, 0.0001)(1000)
    assert reports[-1][0].startswith("counting: 3,000 tokens, 150 per second")
    assert reports[-1][1] == pytest.approx(0.7)
    reporter.report(3000, None)
    assert reports[-1] == ("counting: 3,000 tokens, 150 per second", None)
