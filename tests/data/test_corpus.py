"""Matrix files: built, merged, pruned and described from the command line."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from command import run
from conftest import ROOT
from fakes import VOCAB, WordTokenizer

from aded.core.errors import AdedError
from aded.data import corpus
from aded.engine.loading.tokenizer import tokenizer_fingerprint
from aded.ngram.trigram import TrigramMatrix

FINGERPRINT = tokenizer_fingerprint(WordTokenizer())
KNOWN = {"separator": 2, "vocab_size": VOCAB, "fingerprint": FINGERPRINT}


@pytest.fixture(autouse=True)
def word_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every model has the small tokenizer, and no other is searched for."""
    monkeypatch.setattr(corpus, "load_tokenizer", lambda model: (WordTokenizer(), VOCAB))
    monkeypatch.setattr(corpus, "cached_tokenizer", lambda fingerprint: WordTokenizer() if fingerprint == FINGERPRINT else None)


def some_matrix(seed: int = 0, **options) -> TrigramMatrix:
    ids = np.minimum(np.random.default_rng(seed).geometric(0.15, 3000) - 1, VOCAB - 1)
    return TrigramMatrix.build(ids, **{**KNOWN, **options})


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "a.safetensors", tmp_path / "b.safetensors"]
    for seed, path in enumerate(paths):
        some_matrix(seed).save(path)
    return paths


def test_texts_of_all_forms_are_counted_and_end_with_the_tokenizer_s_end_of_text(tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("one two\nthree\n")
    lines = [json.dumps("four five six"), json.dumps({"text": "seven eight"}), "", json.dumps({"turns": ["nine", "ten one two"]})]
    (tmp_path / "lines.jsonl").write_text("\n".join(lines))
    out = tmp_path / "m"
    assert run("matrix", "build", "--text", tmp_path / "plain.txt", tmp_path / "lines.jsonl", "--out", out) == 0
    tokenizer = WordTokenizer()
    texts = ["one two three", "four five six", "seven eight", "nine", "ten one two"]
    ids = [i for text in texts for i in [*tokenizer(text)["input_ids"], tokenizer.eos_token_id]]
    assert out.read_bytes() == TrigramMatrix.build(np.array(ids), **KNOWN).to_bytes()


def test_token_ids_are_counted_as_they_are(tmp_path: Path) -> None:
    ids = np.random.default_rng(0).integers(0, VOCAB, 500)
    np.save(tmp_path / "ids.npy", ids)
    assert run("matrix", "build", "--tokens", tmp_path / "ids.npy", "--out", tmp_path / "m") == 0
    assert (tmp_path / "m").read_bytes() == TrigramMatrix.build(ids, **{**KNOWN, "separator": 0}).to_bytes()


def test_merging_and_pruning_files_is_merging_and_pruning_matrices(tmp_path: Path, files: list[Path]) -> None:
    parts = [TrigramMatrix.load(path) for path in files]
    merged, pruned = tmp_path / "merged", tmp_path / "pruned"
    assert run("matrix", "merge", *files, "--out", merged) == 0
    assert merged.read_bytes() == TrigramMatrix.merge(parts).to_bytes()
    assert run("matrix", "prune", merged, "--rows", 50, "--successors", 3, "--out", pruned) == 0
    loaded = TrigramMatrix.load(pruned)
    assert (len(loaded), np.diff(loaded.starts).max()) == (50, 3)
    assert run("matrix", "prune", merged, "--bytes", 3000, "--out", pruned) == 0
    assert pruned.stat().st_size <= 3000


def test_the_same_input_makes_the_same_bytes(tmp_path: Path, files: list[Path]) -> None:
    for command in (["merge", *files], ["prune", files[0], "--rows", 40], ["prune", files[0], "--bytes", 2500]):
        for name in ("x", "y"):
            assert run("matrix", *command, "--out", tmp_path / name) == 0
        assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes()


def test_show_lists_the_most_certain_and_the_most_uncertain_bigrams(tmp_path: Path, capsys) -> None:
    ids = [*([10, 11, 12] * 30), 2, *(t for s in range(40, 60) for t in (20, 21, s, 2))]
    TrigramMatrix.build(np.array(ids), **KNOWN).save(tmp_path / "m")
    assert run("matrix", "show", tmp_path / "m", "--json") == 0
    body = json.loads(capsys.readouterr().out)
    assert body["bytes"] == (tmp_path / "m").stat().st_size
    assert body["bigrams"] == body["pairs"] == 24
    assert [bigram["bigram"] for bigram in body["certain"][:2]] == [[10, 11], [12, 10]]
    assert all((one["pair"], one["sights"]) == (one["bigram"], one["occurrences"]) for one in body["certain"])  # earlier names
    assert body["certain"][0]["texts"] == ["w10 ", "w11 "]
    assert body["certain"][0]["successor_texts"] == ["w12 "]
    assert body["uncertain"][0]["bigram"] == [20, 21]
    assert body["uncertain"][0]["occurrences"] == 20
    assert run("matrix", "show", tmp_path / "m") == 0
    shown = capsys.readouterr().out
    assert "'w10 ' 'w11 ' (30): 'w12 ' 30" in shown
    assert "bigrams: 24\n" in shown and "pair" not in shown


def test_without_the_tokenizer_show_gives_ids(tmp_path: Path, capsys) -> None:
    some_matrix(fingerprint="another").save(tmp_path / "m")
    assert run("matrix", "show", tmp_path / "m", "--json") == 0
    assert "texts" not in json.loads(capsys.readouterr().out)["certain"][0]


def test_entropy_is_that_of_the_counted_successors() -> None:
    whole, pruned = some_matrix(max_successors=256), some_matrix(max_successors=2)
    found = corpus.entropies(whole)
    for row, bits in enumerate(found.tolist()):
        shares = whole.counts[whole.starts[row] : whole.starts[row + 1]] / whole.totals[row]
        assert bits == pytest.approx(-sum(p * math.log2(p) for p in shares.tolist()), abs=1e-9)
    assert (corpus.entropies(pruned) >= found - 1e-9).all()  # pruned occurrences count as distinct successors
    assert not len(corpus.entropies(TrigramMatrix.empty(VOCAB)))


def damaged(tmp_path: Path, good: Path) -> list[Path]:
    """A missing file, an empty one, noise, a file cut short, and one with a flipped length."""
    data = good.read_bytes()
    contents = {"empty": b"", "noise": b"\x93" * 100, "short": data[:-7], "length": b"\xff" * 8 + data[8:]}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    return [tmp_path / "missing", *(tmp_path / name for name in contents)]


def test_every_command_refuses_damage_in_one_line(tmp_path: Path, files: list[Path], capsys) -> None:
    questions = tmp_path / "q.jsonl"
    questions.write_text(json.dumps({"question_id": 1, "turns": ["hello"]}) + "\n")
    for bad in damaged(tmp_path, files[0]):
        for command in (
            ["show", bad],
            ["merge", files[0], bad, "--out", tmp_path / "out"],
            ["merge", bad, files[0], "--out", tmp_path / "out"],
            ["prune", bad, "--rows", 3, "--out", tmp_path / "out"],
            ["compare", bad, "--questions", questions],
            ["build", "--tokens", bad, "--out", tmp_path / "out"],
        ):
            assert run("matrix", *command) == 2, command
            captured = capsys.readouterr()
            errors = [line for line in captured.err.splitlines() if line.startswith("error: ")]
            assert len(errors) == 1 and not captured.out
    assert not (tmp_path / "out").exists()


def test_foreign_tokenizers_are_refused(tmp_path: Path, files: list[Path], capsys) -> None:
    foreign = tmp_path / "foreign"
    some_matrix(fingerprint="another").save(foreign)
    assert run("matrix", "merge", files[0], foreign, "--out", tmp_path / "out") == 2
    assert run("matrix", "show", foreign, "--model", "default") == 2
    assert capsys.readouterr().err.count("another tokenizer") == 2
    np.save(tmp_path / "ids.npy", np.array([1, 2, VOCAB]))
    assert run("matrix", "build", "--tokens", tmp_path / "ids.npy", "--out", tmp_path / "out") == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("content", ['{"text": 3}', '{"other": "a"}', "[1]", "{", '{"turns": [1]}', "7", r'"\ud800"'])
def test_lines_that_are_no_text_are_refused_by_number(tmp_path: Path, content: str) -> None:
    file = tmp_path / "f.jsonl"
    file.write_text('"fine"\n' + content + "\n")
    with pytest.raises(AdedError, match="line 2"):
        corpus.read_texts(str(file))


def test_files_without_text_are_refused(tmp_path: Path, capsys) -> None:
    (tmp_path / "blank.txt").write_text(" \n")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    (tmp_path / "empty.jsonl").write_text('""\n""\n')
    for name in ("blank.txt", "latin.txt", "missing.txt", "empty.jsonl"):
        assert run("matrix", "build", "--text", tmp_path / name, "--out", tmp_path / "out") == 2
    assert capsys.readouterr().err.count("error: ") == 4


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n', encoding="utf-8-sig")
    (tmp_path / "a.txt").write_text("one", encoding="utf-8-sig")
    assert [corpus.read_texts(str(tmp_path / name)) for name in ("a.jsonl", "a.txt")] == [["one"], ["one"]]


def test_turns_are_read_where_text_is_null(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": None, "turns": ["one", "two"]}))
    assert corpus.read_texts(str(tmp_path / "a.jsonl")) == ["one", "two"]


@pytest.mark.parametrize("bounds", [[], ["--rows", -1], ["--bytes", 5], ["--successors", 0], ["--rows", "many"]], ids=str)
def test_pruning_needs_a_bound_in_range(tmp_path: Path, files: list[Path], bounds: list, capsys) -> None:
    assert run("matrix", "prune", files[0], *bounds, "--out", tmp_path / "out") == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_full_disk_is_one_line_and_leaves_the_old_file(tmp_path: Path, files: list[Path]) -> None:
    """A limit on file size simulates a full disk."""
    before = files[1].read_bytes()
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)); from aded.cli import main; "
        f"sys.exit(main.main(['matrix', 'prune', {str(files[0])!r}, '--rows', '5000', '--out', {str(files[1])!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot write") and len(done.stderr.splitlines()) == 1
    assert files[1].read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [path.name for path in files]
