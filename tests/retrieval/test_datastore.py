"""The datastore: suffix array and look-ups compared with plain searches, and damaged files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from aded.cli import main
from aded.core.errors import AdedError
from aded.data.build_datastore import _answers
from aded.data.corpus import load_tokenizer
from aded.engine.batch_generation import Script
from aded.engine.loading.tokenizer import tokenizer_fingerprint
from aded.retrieval.suffix_array import Datastore

KNOWN = {"separator": 0, "vocab_size": 97, "fingerprint": "f"}


def corpus(seed: int = 0, length: int = 400, vocab: int = 5) -> list[int]:
    return np.random.default_rng(seed).integers(0, vocab, length).tolist()


def occurrences(text: list[int], pattern: list[int]) -> list[int]:
    return [i for i in range(len(text) - len(pattern) + 1) if text[i : i + len(pattern)] == pattern]


@pytest.mark.parametrize(("vocab", "dtype"), [(97, np.uint16), (1 << 17, np.uint32)])
def test_suffixes_are_in_lexicographic_order(vocab: int, dtype: type) -> None:
    text = np.random.default_rng(1).choice([0, 3, 90, vocab - 1, vocab // 2], 300).tolist()
    store = Datastore.build(np.array(text), separator=0, vocab_size=vocab, fingerprint="f")
    assert store.tokens.dtype == dtype
    assert store.suffixes.tolist() == sorted(range(300), key=lambda i: text[i:])


@pytest.mark.parametrize("seed", range(3))
def test_the_range_of_a_pattern_holds_all_its_occurrences(seed: int) -> None:
    text, rng = corpus(seed), np.random.default_rng(seed)
    store = Datastore.build(np.array(text), **KNOWN)
    for length in range(1, 7):
        for _ in range(20):
            pattern = rng.integers(0, 6, length).tolist()
            low, high = store.find(np.array(pattern, dtype=np.int32))
            assert sorted(store.suffixes[low:high].tolist()) == occurrences(text, pattern)


@pytest.mark.parametrize("seed", range(3))
def test_matches_are_all_suffixes_of_the_context_in_the_corpus(seed: int) -> None:
    text, rng = corpus(seed), np.random.default_rng(seed + 10)
    store = Datastore.build(np.array(text), **KNOWN)
    for _ in range(30):
        context = rng.integers(0, 6, 12).tolist()
        matches = store.matches(np.array(context, dtype=np.int32))
        lengths = [n for n in range(1, 13) if occurrences(text, context[-n:])]
        assert [length for length, _, _ in matches] == lengths
        for length, low, high in matches:
            places = store.positions(low, high, length, 10_000)
            assert sorted(places.tolist()) == [i + length for i in occurrences(text, context[-length:])]


def test_a_compact_file_is_a_third_and_the_same_datastore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADED_CACHE", str(tmp_path / "cache"))
    store = Datastore.build(np.array(corpus(length=20_000)), **KNOWN)
    store.save(tmp_path / "whole")
    store.save(tmp_path / "compact", compact=True)
    assert (tmp_path / "compact").stat().st_size < 0.34 * (tmp_path / "whole").stat().st_size
    first, again = (Datastore.load(tmp_path / "compact") for _ in range(2))
    for loaded in (first, again):
        assert np.array_equal(loaded.suffixes, store.suffixes)
        assert loaded.summary() == store.summary()
    assert isinstance(again.suffixes, np.memmap) or isinstance(again.suffixes.base, np.memmap)
    kept = next((tmp_path / "cache" / "datastores").iterdir())
    kept.write_bytes(kept.read_bytes()[:100])
    assert np.array_equal(Datastore.load(tmp_path / "compact").suffixes, store.suffixes)
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("ADED_CACHE", str(tmp_path / "file"))
    assert np.array_equal(Datastore.load(tmp_path / "compact").suffixes, store.suffixes)


def test_a_long_range_is_sampled_at_even_spacing() -> None:
    store = Datastore.build(np.array([1] * 1000), **KNOWN)
    low, high = store.find(np.array([1], dtype=np.int32))
    places = store.positions(low, high, 1, 10)
    assert places.tolist() == (store.suffixes[::100] + 1).tolist()


def test_a_saved_datastore_is_memory_mapped_and_equal(tmp_path: Path) -> None:
    store = Datastore.build(np.array(corpus()), **KNOWN)
    for name in "ab":
        store.save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    loaded = Datastore.load(tmp_path / "a", fingerprint="f", vocab_size=97)
    assert isinstance(loaded.suffixes.base, np.memmap)
    assert (loaded.tokens == store.tokens).all() and (loaded.suffixes == store.suffixes).all()
    assert loaded.summary() == store.summary()


def test_a_file_is_a_safetensors_file(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    store = Datastore.build(np.array(corpus()), **KNOWN)
    store.save(tmp_path / "a.safetensors")
    assert (load_file(tmp_path / "a.safetensors")["suffixes"] == store.suffixes).all()


def test_another_tokenizer_s_datastore_is_refused_with_the_remedy(tmp_path: Path) -> None:
    Datastore.build(np.array(corpus()), **KNOWN).save(tmp_path / "d")
    for wrong in ({"fingerprint": "g"}, {"vocab_size": 98}):
        with pytest.raises(AdedError, match="another tokenizer.*datastore build"):
            Datastore.load(tmp_path / "d", **wrong)


def test_damaged_files_are_refused_and_nothing_crashes(tmp_path: Path) -> None:
    file, rng = tmp_path / "d", np.random.default_rng(0)
    Datastore.build(np.array(corpus()), **KNOWN).save(file)
    whole = file.read_bytes()
    for cut in (0, 4, 9, 100, len(whole) - 1):
        file.write_bytes(whole[:cut])
        with pytest.raises(AdedError, match="damaged"):
            Datastore.load(file)
    with pytest.raises(AdedError, match="cannot read"):
        Datastore.load(tmp_path / "none")
    header = 8 + int.from_bytes(whole[:8], "little")
    for _ in range(200):  # in the header: refused or read; in the arrays: read, and looked up without a crash
        data = bytearray(whole)
        for at in rng.integers(0, len(whole) if rng.random() < 0.5 else header, 3):
            data[at] = rng.integers(256)
        file.write_bytes(data)
        try:
            store = Datastore.load(file)
        except AdedError:
            continue
        for length, low, high in store.matches(np.array([1, 2, 3], dtype=np.int32)):
            store.positions(low, high, length, 10)


@pytest.mark.parametrize("ids", [[], [97], [-1], [[1]]])
def test_an_invalid_corpus_is_refused(ids: list) -> None:
    with pytest.raises(AdedError, match="token ids from 0 to 96"):
        Datastore.build(np.array(ids, dtype=np.int64), **KNOWN)


@pytest.fixture
def model_folder(real_tokenizer_folder: Path) -> str:
    (real_tokenizer_folder / "config.json").write_text('{"model_type": "llama", "vocab_size": 97}')
    return str(real_tokenizer_folder)


def test_the_command_builds_from_texts_and_token_ids(tmp_path: Path, capsys, model_folder: str) -> None:
    (tmp_path / "t.txt").write_text("w5 w6 w7")
    np.save(tmp_path / "t.npy", np.array([5, 6, 7, 2]))
    build = ["datastore", "build", "--model", model_folder]
    assert main.main([*build, "--text", str(tmp_path / "t.txt"), "--out", str(tmp_path / "a")]) == 0
    assert main.main([*build, "--tokens", str(tmp_path / "t.npy"), "--separator", "2", "--out", str(tmp_path / "b")]) == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    capsys.readouterr()
    assert main.main(["datastore", "show", str(tmp_path / "a")]) == 0
    assert "tokens: 4" in capsys.readouterr().out
    assert main.main([*build, "--tokens", str(tmp_path / "t.npy"), "--max-tokens", "3", "--out", str(tmp_path / "c")]) == 0
    assert len(Datastore.load(tmp_path / "c")) == 3
    assert main.main([*build, "--tokens", str(tmp_path / "t.npy"), "--max-tokens", "0", "--out", str(tmp_path / "c")]) == 2
    assert "--max-tokens is 0; give 1 or more" in capsys.readouterr().err


def test_only_the_answers_of_conversations_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = SimpleNamespace(all_special_ids=[0, 7, 10], eos_token_id=2)
    monkeypatch.setattr("aded.data.self_generation.script_of", lambda tokenizer: Script((7, 8, 9), (10, 11)))
    text = [7, 8, 9, 20, 21, 10, 11, 30, 31, 2, 0, 7, 8, 9, 22, 10, 11, 33, 7, 8, 9, 5, 10, 11, 34, 35]
    assert _answers(np.array(text), tokenizer, 0).tolist() == [30, 31, 2, 0, 33, 0, 34, 35, 0]
    assert _answers(np.array([5, 6, 0]), tokenizer, 0).tolist() == [5, 6, 0]


def test_a_datastore_built_without_a_name_is_the_one_that_methods_find(tmp_path, monkeypatch, model_folder: str) -> None:
    from aded.drafters import registry
    from aded.evaluation.bench.recorded import ModelStandIn

    monkeypatch.setenv("ADED_CACHE", str(tmp_path / "cache"))
    target = ModelStandIn(tokenizer_fingerprint(load_tokenizer(model_folder)[0]), 97)
    assert "aded prepare" in registry.METHODS["rest"].unavailable(target)
    with pytest.raises(AdedError, match="there is no datastore for this model's tokenizer"):
        registry.METHODS["rest"].make(target, {}, 0)
    (tmp_path / "t.txt").write_text("w5 w6 w7")
    assert main.main(["datastore", "build", "--model", model_folder, "--text", str(tmp_path / "t.txt")]) == 0
    assert registry.METHODS["rest"].unavailable(target) is None
    assert registry.METHODS["rest"].make(target, {}, 0).settings()["datastore_tokens"] == 4


def test_the_bundled_datastore_is_small_and_belongs_to_the_default_model() -> None:
    from aded.core.paths import ASSETS
    from aded.drafters.artifacts import datastore_for
    from aded.evaluation.bench.recorded import default_stand_in

    (file,) = ASSETS.glob("*.datastore.safetensors")
    assert file.stat().st_size < 10_000_000
    assert datastore_for(default_stand_in()) is not None


@pytest.mark.parametrize(("name", "text"), [("t.txt", ""), ("t.txt", "  \n"), ("t.jsonl", '""')])
def test_no_text_is_one_line_and_status_2(tmp_path: Path, capsys, model_folder: str, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert main.main(["datastore", "build", "--model", model_folder, "--text", str(tmp_path / name)]) == 2
    assert "no text" in capsys.readouterr().err


@pytest.mark.parametrize("source", ["--text", "--tokens"])
@pytest.mark.parametrize("separator", ["97", "-1", "99999999999999999999"])
def test_separators_outside_the_vocabulary_are_refused(tmp_path, capsys, model_folder: str, source: str, separator: str) -> None:
    (tmp_path / "t.txt").write_text("w5 w6 w7")
    np.save(tmp_path / "t.npy", np.array([5, 6, 7, 2]))
    file = str(tmp_path / {"--text": "t.txt", "--tokens": "t.npy"}[source])
    assert main.main(["datastore", "build", "--model", model_folder, source, file, "--separator", separator]) == 2
    assert f"--separator is {separator}; give a token id" in capsys.readouterr().err


def test_an_error_states_cause_and_remedy_once(tmp_path: Path) -> None:
    Datastore.build(np.array(corpus()), **KNOWN).save(tmp_path / "d")
    with pytest.raises(AdedError) as caught:
        Datastore.load(tmp_path / "d", fingerprint="g")
    assert str(caught.value).count("another tokenizer") == str(caught.value).count("datastore build") == 1
    assert "damaged" not in str(caught.value)
