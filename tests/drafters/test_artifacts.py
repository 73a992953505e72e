"""Artifacts that a user makes for a model without a file name are found for that model, before the bundled ones."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from fakes import VOCAB, tiny_model

from aded.cli import main
from aded.core import paths
from aded.data.corpus import load_tokenizer
from aded.draft_models import checkpoints
from aded.drafters.artifacts import datastore_for, matrix_for
from aded.drafters.registry import METHODS
from aded.engine.loading.tokenizer import tokenizer_fingerprint
from aded.engine.loading.weights import label_of


@pytest.fixture
def model_folder(real_tokenizer_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A small model as a folder, an empty cache, and a text file."""
    monkeypatch.setenv("ADED_CACHE", str(tmp_path / "cache"))
    tiny_model("llama").save_pretrained(real_tokenizer_folder)
    np.save(tmp_path / "text.npy", np.random.default_rng(0).integers(3, VOCAB, 4000))
    return str(real_tokenizer_folder)


def model_of(spec: str, label: str | None = None) -> SimpleNamespace:
    """The part of a model that the search for artifacts needs."""
    fingerprint = tokenizer_fingerprint(load_tokenizer(spec)[0])
    return SimpleNamespace(fingerprint=fingerprint, vocab_size=VOCAB, label=label or label_of(spec))


def test_a_matrix_and_a_datastore_that_are_built_without_a_name_are_found(model_folder: str, tmp_path: Path):
    model = model_of(model_folder)
    assert (matrix_for(model), datastore_for(model)) == (None, None)
    for command in ("matrix", "datastore"):
        assert main.main([command, "build", "--model", model_folder, "--tokens", str(tmp_path / "text.npy")]) == 0
    matrix, datastore = matrix_for(model), datastore_for(model)
    assert matrix is not None and matrix.fingerprint == model.fingerprint
    assert datastore is not None and len(datastore) == 4000
    assert matrix_for(SimpleNamespace(fingerprint="another", vocab_size=VOCAB)) is None
    kept = sorted(str(file.relative_to(tmp_path / "cache" / "artifacts")) for file in (tmp_path / "cache").rglob("*.safetensors"))
    folder = f"{tmp_path.name}-{model.fingerprint[:12]}"
    assert kept == [f"{folder}/datastore/datastore.safetensors", f"{folder}/trigram/matrix.safetensors"]


@pytest.mark.parametrize("kind", ["medusa", "eagle", "mtp", "glide", "draft"])
def test_an_artifact_that_is_trained_without_a_name_is_found(model_folder: str, tmp_path: Path, kind: checkpoints.Kind):
    from aded.engine.target_model import TargetModel

    arguments = ["train", kind, "--model", model_folder, "--corpus", str(tmp_path / "text.npy")]
    assert main.main([*arguments, "--length", "16", "--batch", "4", "--tokens", "128", "--device", "cpu"]) == 0
    target = TargetModel.load(model_folder, "cpu")
    found = checkpoints.find(kind, target)
    assert found is not None
    assert found.parent == paths.artifact_folder(kind, target.label, target.fingerprint)
    assert METHODS["speculative" if kind == "draft" else kind].unavailable(target) is None


def test_artifacts_of_the_user_for_the_model_come_first_then_bundled_ones_then_those_for_other_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ADED_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(paths, "ASSETS", tmp_path)
    files = [tmp_path / "bundled.trigram.safetensors"]
    for label in ("org/Model A", "org/Model B"):
        files.append(paths.artifact_folder("trigram", label, "0123456789abcdef") / "matrix.safetensors")
    for file in files:
        file.write_bytes(b"")
    bundled, for_a, for_b = files
    assert for_a.parts[-3] == "org-Model-A-0123456789ab"
    for label, wanted in (("org/Model A", [for_a, bundled, for_b]), ("org/Model B", [for_b, bundled, for_a])):
        assert paths.artifacts("trigram", SimpleNamespace(label=label, fingerprint="0123456789abcdef")) == wanted
    assert paths.artifacts("trigram", SimpleNamespace(fingerprint="another"))[0] == bundled
    assert paths.artifacts("datastore", SimpleNamespace(fingerprint="another")) == []


def test_a_damaged_artifact_of_a_model_with_another_tokenizer_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ADED_CACHE", str(tmp_path))
    monkeypatch.setattr(paths, "ASSETS", tmp_path)
    (paths.artifact_folder("trigram", "org/Model A", "0123456789abcdef") / "matrix.safetensors").write_bytes(b"")
    assert matrix_for(SimpleNamespace(fingerprint="another", vocab_size=VOCAB)) is None


def test_a_given_name_is_the_file(model_folder: str, tmp_path: Path):
    out = tmp_path / "mine.trigram.safetensors"
    assert main.main(["matrix", "build", "--model", model_folder, "--tokens", str(tmp_path / "text.npy"), "--out", str(out)]) == 0
    assert out.is_file()
    assert matrix_for(model_of(model_folder)) is None


def test_a_folder_that_is_not_writable_is_reported(
    model_folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ADED_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))
    assert main.main(["matrix", "build", "--model", model_folder, "--tokens", str(tmp_path / "text.npy")]) == 2
    assert "error: cannot write" in capsys.readouterr().err
