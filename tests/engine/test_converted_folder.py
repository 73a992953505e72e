"""A converted model is a folder as Transformers writes one: stock names and architectures, and the same logits."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from fakes import VOCAB, tiny_model
from safetensors import safe_open
from safetensors.torch import save_model
from transformers import AutoModelForCausalLM

from aded.core.errors import AdedError
from aded.engine.loading import weights
from aded.engine.loading.weights import CacheError
from aded.engine.target_model import TargetModel

IDS = torch.tensor([[1, 5, 9, 14, 3, 20, 31, 8]])


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ADED_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def logits(model: Any) -> torch.Tensor:
    with torch.inference_mode():
        return model(input_ids=IDS).logits


def write_gguf(model: Any, path: Path) -> str:
    """A Llama model as llama.cpp writes it, unquantised, with a byte-level tokenizer of ``VOCAB`` tokens."""
    config, state = model.config, {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(VOCAB)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(["<unk>", "<s>", "</s>", *(chr(0x21 + i) for i in range(VOCAB - 4)), "ab"])
    writer.add_token_types([3, 3, 3, *[1] * (VOCAB - 3)])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, tensor in state.items():
        if name == "lm_head.weight":
            continue  # tied
        heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}.get(name.split(".")[-2])
        if heads:  # RoPE: llama.cpp rotates adjacent dimensions, Transformers halves
            tensor = tensor.reshape(heads, 2, -1, tensor.shape[1]).swapaxes(1, 2).reshape(tensor.shape)
        writer.add_tensor(names.get_name(name, (".weight",)), np.ascontiguousarray(tensor))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return str(path)


def check_standard(folder: Path, expected: torch.Tensor) -> None:
    assert json.loads((folder / "config.json").read_text())["architectures"] == ["LlamaForCausalLM"]
    with safe_open(str(folder / "model.safetensors"), "pt") as file:
        assert file.metadata() == {"format": "pt"}
        names = set(file.keys())
    assert "model.embed_tokens.weight" in names
    assert "lm_head.weight" not in names  # tied to the embedding, which is stored under its name
    stock, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not any(info.values())
    assert torch.allclose(logits(stock), expected, atol=1e-4)
    target = TargetModel.load(str(folder), "cpu", "float32")
    assert torch.allclose(logits(target.model), logits(stock), atol=1e-4)


def test_a_converted_gguf_file_is_a_standard_folder(tmp_path: Path):
    model = tiny_model("llama", scale=1.0, tie_word_embeddings=True)
    check_standard(Path(weights.resolve(write_gguf(model, tmp_path / "m.gguf"))), logits(model))


def test_other_users_may_read_a_converted_model(tmp_path: Path):
    folder = Path(weights.resolve(write_gguf(tiny_model("llama", tie_word_embeddings=True), tmp_path / "m.gguf")))
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o644}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755


@pytest.fixture
def old(tmp_path: Path, own_cache: Path, real_tokenizer_folder: Path) -> tuple[Path, Any]:
    """A folder converted by an older version from a GGUF file that no longer exists, and its model."""
    model = tiny_model("llama", scale=1.0, tie_word_embeddings=True)
    folder = own_cache / f"smollm2-135m-instruct-{weights.GGUF_SHA256[:12]}"
    folder.mkdir(parents=True)
    for file in real_tokenizer_folder.glob("tokenizer*.json"):
        shutil.copy(file, folder)
    model.config.save_pretrained(folder)
    model.generation_config.save_pretrained(folder)
    save_model(model, str(folder / "model.safetensors"), metadata={"format": "pt"})
    sizes = {file.name: file.stat().st_size for file in folder.iterdir()}
    (folder / "aded.json").write_text(json.dumps({"source": "m.gguf", "sizes": sizes}))
    return folder, model


def test_a_folder_of_an_older_version_is_converted_again_without_a_network(
    old: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch
):
    folder, model = old
    monkeypatch.setattr(weights, "_default_gguf", lambda *_: pytest.fail("the weights were asked for again"))
    assert weights.resolve("default") == str(folder)
    check_standard(folder, logits(model))
    before = (folder / "model.safetensors").stat().st_mtime_ns
    assert weights.resolve("default") == str(folder)
    assert (folder / "model.safetensors").stat().st_mtime_ns == before


def test_a_damaged_folder_of_an_older_version_is_converted_from_the_file(old: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch):
    folder, _ = old
    (folder / "config.json").write_text("x" * (folder / "config.json").stat().st_size)
    asked = []

    def none(*_: Any) -> Path:
        asked.append(1)
        raise AdedError("no file")

    monkeypatch.setattr(weights, "_default_gguf", none)
    monkeypatch.setattr(weights, "_from_hub", lambda spec: "hub")
    assert weights.resolve("default") == "hub"
    assert asked


FULL = {
    "as the system says it": OSError(28, "No space left on device"),
    "as safetensors says it": RuntimeError('I/O error: Os { code: 28, kind: StorageFull, message: "No space left on device" }'),
    "as tokenizers says it": Exception("No space left on device (os error 28)"),
    "read-only": OSError(30, "Read-only file system"),
    "no permission": PermissionError(13, "Permission denied"),
}


@pytest.mark.parametrize("case", FULL)
def test_a_disk_error_is_reported_with_its_cause_and_leaves_no_folder(
    case: str, tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
):
    def convert(path: Path, target: Path, progress: Any) -> None:
        (target / "config.json").write_text("{}")
        raise FULL[case]

    monkeypatch.setattr(weights, "_convert", convert)
    monkeypatch.setattr(weights, "_from_hub", lambda spec: pytest.fail("the hub was asked"))
    source = tmp_path / "m.gguf"
    source.write_bytes(b"x")
    monkeypatch.setattr(weights, "_default_gguf", lambda *_: source)
    for spec in ("default", str(source)):
        with pytest.raises(
            CacheError, match=r"cannot write to the cache folder .*: (No space|Read-only|Permission).*ADED_CACHE"
        ) as error:
            weights.resolve(spec)
        assert "\n" not in str(error.value)
    assert [path.name for path in own_cache.iterdir() if path.is_dir()] == []


def test_a_download_that_finds_no_space_does_not_blame_the_network(monkeypatch: pytest.MonkeyPatch):
    from types import SimpleNamespace

    said = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"
    monkeypatch.setattr(weights.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(weights.subprocess, "run", lambda *a, **k: SimpleNamespace(returncode=1, stderr=said))
    with pytest.raises(CacheError, match="No space left on device; free some space"):
        weights.resolve("default")


def test_a_defective_file_is_not_reported_as_a_disk_error(tmp_path: Path):
    (tmp_path / "m.gguf").write_bytes(b"no model")
    with pytest.raises(AdedError, match="cannot be converted") as error:
        weights.resolve(str(tmp_path / "m.gguf"))
    assert not isinstance(error.value, CacheError)
