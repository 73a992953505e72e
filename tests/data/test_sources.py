"""Pieces of a source: together they are the source, whatever their size."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from fakes import WordTokenizer

from aded.core.errors import AdedError
from aded.data import corpus
from aded.data.readers import DatasetStream, Source, TextFiles, TokenFile, stamps

WORDS = "one two three\nfour five  six\n\nseven eight\nnine ten eleven twelve "


def tokens(source: Source, size: int) -> list[int]:
    pieces = list(source.pieces(size))
    shares = [piece.share for piece in pieces]
    if None not in shares:
        assert shares == sorted(shares) and 0.5 < shares[-1] <= 1
    return [int(i) for piece in pieces for i in piece.tokens(WordTokenizer(), 2)]


def expected(*texts: str) -> list[int]:
    return [i for text in texts for i in [*WordTokenizer()(text)["input_ids"], 2]]


def test_pieces_of_token_files_are_the_file(tmp_path: Path) -> None:
    ids = np.random.default_rng(0).integers(0, 97, 500)
    np.save(tmp_path / "ids.npy", ids.astype(np.uint16))
    for size in (1, 7, 500, 1000):
        assert tokens(TokenFile(str(tmp_path / "ids.npy")), size) == ids.tolist()


def test_pieces_of_text_files_are_their_texts(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(WORDS * 20)
    (tmp_path / "b.jsonl").write_text("\n".join(json.dumps({"text": WORDS[:n]}) for n in range(5, 40)))
    source = TextFiles([str(tmp_path / "a.txt"), str(tmp_path / "b.jsonl")])
    whole = expected(WORDS * 20, *(WORDS[:n] for n in range(5, 40)))
    assert len(list(source.pieces(50))) > 20
    for size in (10, 50, 10**6):
        assert tokens(source, size) == whole


def test_long_texts_are_split_between_words_or_lines(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(WORDS * 30)
    parts = list(corpus.stream_texts(str(tmp_path / "a.txt"), 40))
    assert "".join(text for text, _ in parts) == WORDS * 30
    assert [ends for _, ends in parts] == [False] * (len(parts) - 1) + [True]
    assert len(parts) > 10
    for text, _ in parts[:-1]:
        assert text.endswith("\n") or not text[-1].isspace()
        assert not text.endswith("\n\n")
    (tmp_path / "b.txt").write_text("x" * 500)
    assert list(corpus.stream_texts(str(tmp_path / "b.txt"), 40)) == [("x" * 500, True)]


def test_splitting_a_text_changes_no_token_of_a_real_tokenizer(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    text = (ROOT / "README.md").read_text()
    bpe.train_from_iterator([text], trainers.BpeTrainer(vocab_size=600, show_progress=False))
    (tmp_path / "a.txt").write_text(text)
    parts = list(corpus.stream_texts(str(tmp_path / "a.txt"), 300))
    assert len(parts) > 10
    assert [i for part, _ in parts for i in bpe.encode(part).ids] == bpe.encode(text).ids


def test_missing_files_are_refused(tmp_path: Path) -> None:
    for make in (lambda path: TextFiles([path]), TokenFile):
        with pytest.raises(AdedError, match="cannot read"):
            make(str(tmp_path / "none"))


def test_data_sets_are_streamed_row_by_row(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    rows = [{"body": WORDS[:n], "turns": [WORDS[:n], "more"]} for n in range(5, 30)]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    whole = expected(*(row["body"] for row in rows))
    assert tokens(DatasetStream(str(tmp_path), None, "train", "body"), 60) == whole
    lists = expected(*(text for row in rows for text in row["turns"]))
    assert tokens(DatasetStream(str(tmp_path), None, "train", "turns"), 10**6) == lists
    with pytest.raises(AdedError, match="body, turns: choose one with --dataset-field"):
        tokens(DatasetStream(str(tmp_path), None, "train", "text"), 60)
    with pytest.raises(AdedError, match="--dataset-split"):
        tokens(DatasetStream(str(tmp_path), None, "none", "body"), 60)


def test_inputs_detect_a_changed_file_of_every_source(tmp_path: Path) -> None:
    (tmp_path / "data" / "deep").mkdir(parents=True)
    file = tmp_path / "data" / "deep" / "train.jsonl"
    for make in (
        lambda: DatasetStream(str(tmp_path / "data"), None, "train", "text"), lambda: TextFiles([str(file)]),
    ):  # fmt: skip
        file.write_text('{"text": "one"}')
        before = make()
        assert (make().identity, make().inputs) == (before.identity, before.inputs)
        file.write_text('{"text": "other"}')
        assert make().identity == before.identity
        assert make().inputs != before.inputs
    assert stamps("owner/name-on-the-hub") == []


def test_without_the_library_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(AdedError, match="pip install datasets"):
        tokens(DatasetStream("any", None, "train", "text"), 60)
