"""`prepare`: everything for a model from one text, resumed after interruptions, and found by the methods."""

from __future__ import annotations

import json
import os
import shutil
from collections import namedtuple
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import alone, save_tokenizer, tiny_model

from aded.cli import main, terminal
from aded.core.errors import AdedError, InterruptedJobError
from aded.data import build_matrix
from aded.data.records import Record
from aded.decoding.decoder import Decoder, GenerationSettings
from aded.drafters.registry import METHODS
from aded.engine.target_model import TargetModel
from aded.ngram.trigram import TrigramMatrix
from aded.prepare import plan
from aded.prepare.figures import successor_shares
from aded.prepare.parts import PARTS, TRAINED, chosen, methods_of
from aded.prepare.record import FILE, PrepareRecord
from aded.train import loop

TEMPLATE = "w5 w17 w40 {{ messages[0]['content'] }} w7 w9 w11"
TINY = plan.Sizes(None, 1200, 1280, 64, 4, 2)
PROMPT = [1, 20, 33, 33, 41]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small model with a chat template, as a folder."""
    folder = tmp_path_factory.mktemp("model")
    save_tokenizer(folder, chat_template=TEMPLATE)
    tiny_model("llama", max_position_embeddings=64).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def written(model: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder with the text of the model, and nothing else that a run reads."""
    folder = tmp_path_factory.mktemp("written")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("ADED_CACHE", str(folder))
        patched.setitem(plan.SIZES, "cpu", TINY)
        assert prepare(model, "--parts", "datastore") == 0
    for path in folder.glob("artifacts/*/[!t]*"):
        path.unlink() if path.is_file() else shutil.rmtree(path)
    return folder


@pytest.fixture
def empty_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder; and small sizes."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("ADED_CACHE", str(folder))
    monkeypatch.setitem(plan.SIZES, "cpu", TINY)
    return folder


@pytest.fixture
def cache(written: Path, empty_cache: Path) -> Path:
    """A cache folder with the text of the model, which saves its time; and small sizes."""
    shutil.copytree(written, empty_cache, dirs_exist_ok=True)
    return empty_cache


def prepare(*arguments: str) -> int:
    return main.main(["prepare", *arguments, "--device", "cpu"])


def made(cache: Path) -> dict[str, bytes]:
    """The parts in a cache folder, by name."""
    return {path.name: path.read_bytes() for path in cache.glob("artifacts/*/*/*.safetensors")}


def record_in(cache: Path) -> dict[str, Any]:
    (file,) = cache.rglob(FILE)
    return json.loads(file.read_bytes())


def interrupt_at(monkeypatch: pytest.MonkeyPatch, words: str, file: str = "*") -> Callable[[], None]:
    """Ctrl-C at a progress message with these words once there is such a file; returns a function that undoes this."""
    shown = terminal.Progress.__call__

    def stop(self: Any, message: str, fraction: float | None = None) -> None:
        if words in message and any(Path(os.environ["ADED_CACHE"]).rglob(file)):
            raise KeyboardInterrupt
        shown(self, message, fraction)

    monkeypatch.setattr(terminal.Progress, "__call__", stop)
    return lambda: monkeypatch.setattr(terminal.Progress, "__call__", shown)


def test_one_command_makes_all_parts_and_all_methods_can_run_and_are_lossless(model, empty_cache, capsys):
    cache = empty_cache
    assert prepare(model) == 0
    said = capsys.readouterr().out
    target = TargetModel.load(model, "cpu")
    truth = alone(target, PROMPT, 20)
    for name, method in METHODS.items():
        assert method.unavailable(target) is None
        assert Decoder(target, name, GenerationSettings(max_new_tokens=20, budget=16)).run(PROMPT).token_ids == truth
    body = record_in(cache)
    assert said.index("the model writes 1,200 tokens") < said.index("disk: up to about") < said.index("on held-out text")
    assert f"methods that can run now: {', '.join(METHODS)}\n" in said
    assert [*body["parts"]] == [*PARTS]
    assert body["finished"] and body["left_out"] == {} and body["text"]["tokens"] >= 1200
    for part, known in body["parts"].items():
        assert Path(known["file"]).stat().st_size == known["bytes"] and known["seconds"] > 0
        if part in TRAINED:
            assert known["figures"]["acceptance_length"] >= 1 and known["figures"]["steps"] == 5
    shares = [body["parts"]["matrix"]["figures"][f"top_{k}"] for k in (1, 4, 12)]
    assert 0 <= shares[0] <= shares[1] <= shares[2] <= 1
    assert list(cache.rglob("*.part")) == []  # the text is not kept

    before = made(cache)
    assert prepare(model) == 0
    said = capsys.readouterr().out
    assert said.count("exists: ") == len(PARTS) and said.endswith("nothing to make\n")
    assert prepare(model, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["parts"] == body["parts"] and report["methods"] == [*METHODS] and report["unavailable"] == {}
    assert made(cache) == before


@pytest.mark.slow
def test_an_interrupted_run_resumes_to_the_same_bytes(model, cache, tmp_path, monkeypatch, capsys):
    parts = ("--parts", "matrix,datastore,eagle")
    assert prepare(model, *parts) == 0
    monkeypatch.setenv("ADED_CACHE", str(tmp_path))
    messages: list[str] = []
    for words, file in (
        ("text, writing", "batch-00000.npz"), ("matrix, sorting", "*"), ("matrix, evaluating", "*"), ("datastore, sorting", "*"),
        ("eagle, training: step 4", "*"), ("eagle, evaluating", "*"),
    ):  # fmt: skip
        undo = interrupt_at(monkeypatch, words, file)
        assert prepare(model, *parts) == 130
        undo()
        said = capsys.readouterr()
        assert said.err.endswith("stopped; run the command again: it resumes where it stopped\n")
        messages.append(said.err)
        assert not record_in(tmp_path)["finished"]
    assert "exists: " in said.out and "3 of 3" not in said.err  # only eagle is left
    assert "eagle, training: step 3 of 5" in messages[-1]
    assert prepare(model, *parts) == 0
    assert made(tmp_path) == made(cache) != {}
    body, other = record_in(tmp_path), record_in(cache)
    assert body["finished"] and body["minutes"] == {}
    assert {p: known["figures"] for p, known in body["parts"].items()} == {
        p: known["figures"] for p, known in other["parts"].items()
    }


@pytest.mark.slow
def test_the_text_is_written_once_and_kept_while_parts_are_missing(model, cache, written, monkeypatch):
    from aded.data.self_generation import ConversationGenerator

    monkeypatch.setattr(ConversationGenerator, "generate_batch", None)
    assert prepare(model, "--parts", "datastore") == 0
    assert [path.name for path in cache.rglob("*.part")] == ["text.npy.part"]
    assert prepare(model) == 0
    assert list(cache.rglob("*.part")) == []
    shutil.copytree(written, cache, dirs_exist_ok=True)
    assert prepare(model, "--parts", "medusa") == 0  # nothing to make, and nothing later
    assert list(cache.rglob("*.part")) == []
    assert [*record_in(cache)["parts"]] == ["datastore", *(part for part in PARTS if part != "datastore")]


@pytest.mark.slow
def test_a_part_that_fails_is_reported_and_the_others_are_made(model, cache, monkeypatch, capsys):
    def fail(before: float, after: float, folder: Path) -> None:
        if folder.name == "mtp":
            raise AdedError("nothing was learned: give more")

    with monkeypatch.context() as patched:
        patched.setattr(loop, "check_improved", fail)
        assert prepare(model, "--parts", "mtp,medusa") == 2
    said = capsys.readouterr().out
    assert "not made: nothing was learned: give more" in said
    assert "methods that still lack an artifact: rest, eagle, mtp" in said
    assert {*made(cache)} == {"heads.safetensors"}
    assert prepare(model, "--parts", "mtp,medusa") == 0
    assert "error" not in record_in(cache)["parts"]["mtp"]


@pytest.mark.slow
def test_another_budget_begins_the_training_again_with_the_text_that_exists(model, cache, monkeypatch, capsys):
    monkeypatch.setattr(plan, "MIN_TEXT_TOKENS", 1200)
    monkeypatch.setitem(plan.SIZES, "cpu", replace(TINY, minutes=1000))
    undo = interrupt_at(monkeypatch, "medusa, training: step 4")
    assert prepare(model, "--parts", "medusa", "--budget-minutes", "1000") == 130
    undo()
    minutes = record_in(cache)["minutes"]
    assert minutes == {"text": 250, "medusa": 750}
    undo = interrupt_at(monkeypatch, "medusa, training: step 5")
    capsys.readouterr()
    assert prepare(model, "--budget-minutes", "1000") == 130  # the times of the interrupted run stay
    assert "medusa     train on 1,280 tokens, for at most 750.0 minutes" in capsys.readouterr().out
    undo()
    assert prepare(model, "--parts", "medusa", "--budget-minutes", "2000") == 0
    assert "medusa, training: step 1 " in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_with_another_dtype_is_refused_until_it_is_restarted(model, cache, monkeypatch, capsys):
    undo = interrupt_at(monkeypatch, "medusa, training: step 4")
    assert prepare(model, "--parts", "medusa") == 130
    undo()
    assert prepare(model, "--parts", "medusa", "--dtype", "bfloat16") == 2
    assert "add --restart to delete it, or set ADED_CACHE to another folder" in capsys.readouterr().err
    assert prepare(model, "--parts", "medusa", "--dtype", "bfloat16", "--restart") == 0
    assert "medusa, training: step 1 " in capsys.readouterr().err
    assert prepare(model, "--parts", "datastore") == 0  # the text of a run that ended is replaced
    assert "text, writing: " in capsys.readouterr().err


@pytest.mark.slow
def test_a_part_that_the_model_cannot_have_is_left_out_with_the_reason(model, cache, monkeypatch, capsys):
    load = TargetModel.load.__func__

    def without_projection(cls: Any, *arguments: Any) -> Any:
        target = load(cls, *arguments)
        target.model.get_output_embeddings = lambda: None
        return target

    monkeypatch.setattr(TargetModel, "load", classmethod(without_projection))
    assert prepare(model, "--parts", "medusa,datastore") == 0
    assert (
        "has no vocabulary projection to share with a medusa checkpoint; use another model  (for medusa,"
        in capsys.readouterr().out
    )
    assert {*made(cache)} == {"datastore.safetensors"}
    assert [*record_in(cache)["left_out"]] == ["medusa"]
    assert prepare(model, "--parts", "matrix") == 0  # nothing else can be made
    assert list(cache.rglob("*.part")) == []
    assert prepare(model, "--parts", "medusa,datastore") == 0
    assert capsys.readouterr().out.endswith("nothing to make\n")


@pytest.mark.parametrize(
    ("family", "template", "message"),
    [
        ("llama", None, "the model has no chat template, so it cannot generate conversations"),
        ("bloom", TEMPLATE, "cannot generate"),
    ],
)
def test_a_model_that_cannot_write_text_is_refused_with_the_remedy(family, template, message, tmp_path, empty_cache, capsys):
    save_tokenizer(tmp_path, template)
    tiny_model(family).save_pretrained(tmp_path)
    assert prepare(str(tmp_path)) == 2
    said = capsys.readouterr().err
    assert message in said and "give texts instead: `matrix build --text FILE`" in said
    assert not list(empty_cache.rglob(FILE))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--parts", "medusa,hydra"], "unknown part 'hydra'; known are matrix, datastore, medusa, draft, eagle, mtp, glide"),
        (["--parts", ""], "parts is empty; give it a value"),
        (["--budget-minutes", "0"], "--budget-minutes is 0; give a number from 0.1 to 100,000"),
        (["--budget-minutes", "nan"], "--budget-minutes is nan; give a number"),
    ],
)
def test_invalid_options_are_refused_before_the_model_is_loaded(arguments, message, capsys):
    assert prepare("no/such/model", *arguments) == 2
    assert message in capsys.readouterr().err


def test_without_a_writable_folder_or_enough_space_nothing_begins(model, empty_cache, monkeypatch, tmp_path, capsys):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10, 10, 0))
    assert prepare(model) == 2
    said = capsys.readouterr().err
    assert "where 0 MB are free; free space, give fewer --parts or a smaller --budget-minutes, or set ADED_CACHE" in said
    assert list(empty_cache.rglob("*")) == []
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ADED_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))
    assert prepare(model) == 2
    assert "set ADED_CACHE to a folder that can be written to" in capsys.readouterr().err


def test_a_budget_is_divided_and_scales_the_numbers_of_tokens():
    sizes = plan.sizes_for("cuda", 40)
    assert (sizes.minutes, sizes.text_tokens, sizes.tokens) == (40, 8_000_000, 40_000_000)
    assert plan.sizes_for("cuda", None) == plan.SIZES["cuda"] == plan.sizes_for("cuda", 20)
    assert plan.sizes_for("cpu", 0.5).text_tokens == plan.MIN_TEXT_TOKENS
    assert plan._division(["matrix", "medusa", "draft", "eagle"], 40) == {"text": 10, "medusa": 10, "draft": 10, "eagle": 10}
    assert plan._division(["matrix"], 40) == {"text": 40}
    assert plan._division(["medusa"], None) == {}


@pytest.mark.slow
def test_writing_stops_after_a_batch_when_its_time_is_over(model, empty_cache, monkeypatch):
    cache = empty_cache
    monkeypatch.setitem(plan.SIZES, "cpu", replace(TINY, minutes=1e-6, text_tokens=10**9))
    assert prepare(model, "--parts", "datastore") == 0
    assert len(list(cache.rglob("batch-*.npz"))) == 1
    tokens = record_in(cache)["text"]["tokens"]
    assert prepare(model, "--parts", "matrix") == 0
    assert record_in(cache)["text"]["tokens"] == tokens


def test_every_part_names_the_methods_that_use_it():
    assert [part for part in PARTS if part not in TRAINED] == ["matrix", "datastore"]
    assert methods_of("eagle") == ["eagle", "aded-eagle"]
    assert methods_of("glide") == ["glide"]
    assert methods_of("datastore") == ["rest", "suffix"]
    assert methods_of("draft") == ["blockwise", "speculative", "specinfer", "ouroboros"]
    assert {"aded", "token-recycling"} < {*methods_of("matrix")}
    needing = {name for name, method in METHODS.items() if {"matrix", "datastore", "heads", "head", "draft"} & {*method.options}}
    assert {name for part in PARTS for name in methods_of(part)} == needing
    assert chosen("mtp,matrix,mtp") == ["matrix", "mtp"]


def test_successor_shares_count_ranks_and_fall_back_to_one_token():
    matrix = TrigramMatrix.build(np.array([5, 6, 7, 5, 6, 7, 5, 6, 8, 9]), vocab_size=20, separator=0, fingerprint="f")
    record = Record(np.array([5, 6]), np.array([7, 5, 6, 8, 9, 3]))
    first, fourth, twelfth = successor_shares(matrix, [record])
    assert (first, fourth, twelfth) == (pytest.approx(4 / 6), pytest.approx(5 / 6), pytest.approx(5 / 6))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": "aded-prepare", "minutes": 3}'])
def test_a_damaged_record_is_as_none(tmp_path, content):
    (tmp_path / FILE).write_bytes(content)
    record = PrepareRecord(tmp_path)
    assert record.body == {"format": "aded-prepare", "minutes": {}, "text": {}, "parts": {}}
    assert record.started(None) == {}


@pytest.mark.slow
def test_a_full_disk_stops_the_run_and_the_next_one_resumes(model, cache, monkeypatch, capsys):
    def full(*arguments: Any) -> None:
        raise InterruptedJobError("cannot write x: no space; free disk space")

    with monkeypatch.context() as patched:
        patched.setattr(build_matrix, "count_tokens", full)
        assert prepare(model, "--parts", "matrix,datastore") == 2
    assert "error: cannot write x: no space" in capsys.readouterr().err
    assert prepare(model, "--parts", "matrix,datastore") == 0
    assert {*made(cache)} == {"matrix.safetensors", "datastore.safetensors"}
